"""The cases of `tilewright bench`: library kernels, each beside NumPy or torch.

On the CPU the peer is NumPy, on a GPU torch where it is installed. Every kernel is first checked on
a small ragged shape against NumPy in double precision.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import kernels
from tilewright.bench import Candidate, Comparison, Timer, Work, compare

__all__ = ["CASES", "Case", "CaseResult", "measure_case"]

Array = npt.NDArray[Any]
Shapes = tuple[tuple[int, ...], ...]

_EPS = 1e-6
_RAGGED = (37, 101)  # divisible by no tile


class _CasePrecision(NamedTuple):
    """dtypes and tolerance of a kind of device."""

    dtype: type[tw.DType]
    nbytes: int
    limit: float  # of the relative error
    torch: str


_NARROW = _CasePrecision(tw.f16, 2, 2e-3, "float16")
_PRECISIONS = {"cuda": _NARROW, "cpu": _CasePrecision(tw.f32, 4, 1e-5, "float32")}


@dataclass(frozen=True)
class Case:
    """One kernel: the shapes of its operands by rows and columns, and its equivalents."""

    name: str  # of the function in `tilewright.kernels`
    shapes: Callable[[int, int], Shapes]  # the result's first, then those of the operands
    numpy: Callable[..., Array]
    torch: Callable[..., Any]  # takes the module first
    sizes: dict[str, tuple[int, int]]  # rows and columns by kind of device
    flops: Callable[[int, int], float] = lambda rows, columns: 0.0
    is_narrow: bool = False  # f16 on every device

    def precision(self, kind: str) -> _CasePrecision:
        """The dtype of a kind of device."""
        return _NARROW if self.is_narrow else _PRECISIONS[kind]

    def ours(self, inputs: Sequence[tw.Tensor], out: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        """An operation of the library; the call imports its module."""
        operation: tw.DeviceOp[tw.Tensor] = getattr(kernels, self.name)(*inputs, out=out)
        return operation

    def work(self, rows: int, columns: int, itemsize: int) -> Work:
        """The least bytes moved and operations computed."""
        nbytes = itemsize * sum(math.prod(shape) for shape in self.shapes(rows, columns))
        return Work(nbytes, self.flops(rows, columns))


def _rows(count: int) -> Callable[[int, int], Shapes]:
    """A result and operands of one shape."""
    return lambda rows, columns: ((rows, columns),) * (1 + count)


def _softmax(x: Array) -> Array:
    powers: Array = np.exp(x - x.max(-1, keepdims=True))
    shares: Array = powers / np.sum(powers, -1, keepdims=True)
    return shares


def _layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    off = x - np.mean(x, -1, keepdims=True)
    scaled: Array = off / np.sqrt(np.mean(off * off, -1, keepdims=True) + 1e-5)
    return np.asarray(scaled * weight + bias)


def _attention(q: Array, k: Array, v: Array) -> Array:
    wide = np.promote_types(q.dtype, np.float32)  # NumPy has no fast f16 arithmetic
    q, k, v = (one.astype(wide) for one in (q, k, v))
    return np.asarray(_softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])) @ v)


def _rms_norm(x: Array, weight: Array) -> Array:
    scaled: Array = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + _EPS) * weight
    return scaled


_LARGE = {"cuda": (8192, 8192), "cpu": (512, 1024)}
_SQUARE = {"cuda": (8192, 8192), "cpu": (256, 256)}
_TOKENS = {"cuda": (8192, 128), "cpu": (256, 64)}  # and channels
_HEADS = 16

CASES = (
    Case("add", _rows(2), np.add, lambda torch, x, y: torch.add(x, y), _LARGE),
    Case(
        "silu_mul", _rows(2), lambda x, y: x / (1 + np.exp(-x)) * y,
        lambda torch, x, y: torch.nn.functional.silu(x) * y, _LARGE,
    ),
    Case("softmax", _rows(1), _softmax, lambda torch, x: torch.softmax(x, -1), _LARGE),
    Case(
        "rms_norm", lambda rows, columns: ((rows, columns), (rows, columns), (columns,)),
        _rms_norm, lambda torch, x, w: torch.nn.functional.rms_norm(x, w.shape, w, _EPS), _LARGE,
    ),
    Case(
        "layer_norm",
        lambda rows, columns: ((rows, columns), (rows, columns), (columns,), (columns,)),
        _layer_norm, lambda torch, x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b),
        _LARGE,
    ),
    Case(
        "cumsum", _rows(1), lambda x: np.cumsum(x, -1), lambda torch, x: torch.cumsum(x, -1),
        _LARGE,
    ),
    Case(
        "transpose", lambda rows, columns: ((columns, rows), (rows, columns)),
        lambda x: np.ascontiguousarray(x.T), lambda torch, x: x.T.contiguous(), _LARGE,
    ),
    Case(
        "matmul", lambda rows, columns: ((rows, rows), (rows, columns), (columns, rows)),
        np.matmul, lambda torch, x, y: x @ y, _SQUARE,
        lambda rows, columns: 2.0 * rows * rows * columns,
    ),
    Case(
        "attention", lambda rows, columns: ((1, _HEADS, rows, columns),) * 4, _attention,
        lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v), _TOKENS,
        lambda rows, columns: 4.0 * _HEADS * rows * rows * columns, is_narrow=True,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class CaseResult:
    """The measurement of one case."""

    case: Case
    size: tuple[int, int]
    dtype: str
    work: Work
    peer: str | None
    found: Comparison


def measure_case(case: Case, timer: Timer) -> CaseResult:
    """Check a case and time it with its peer."""
    kind = timer.stream.device.kind
    precision, size = case.precision(kind), case.sizes[kind]
    candidates = list(_candidates(case, timer.stream.device, precision))
    found = compare(candidates, timer=timer)
    peer = candidates[1].name if len(candidates) > 1 else None
    work = case.work(*size, precision.nbytes)
    return CaseResult(case, size, precision.dtype.label, work, peer, found)


def _candidates(case: Case, device: tw.Device, precision: _CasePrecision) -> Iterator[Candidate]:
    inputs, out = _tensors(case, case.sizes[device.kind], device, precision)

    def error() -> float:
        return _error(case, device, precision)

    yield Candidate("tilewright", lambda: case.ours(inputs, out), error, precision.limit)
    if device.kind == "cpu":
        arrays = [one.numpy() for one in inputs]
        yield Candidate("NumPy", lambda: case.numpy(*arrays))
    elif importlib.util.find_spec("torch") is not None:
        torch: Any = importlib.import_module("torch")
        kind = getattr(torch, precision.torch)
        theirs = [torch.randn(one.shape, device="cuda").to(kind) for one in inputs]
        torch.cuda.synchronize()
        yield Candidate("torch", lambda: case.torch(torch, *theirs))


def _tensors(
    case: Case, size: tuple[int, int], device: tw.Device, precision: _CasePrecision
) -> tuple[list[tw.Tensor], tw.Tensor]:
    result, *operands = case.shapes(*size)
    inputs = [
        tw.randn(shape, precision.dtype, seed=seed, device=device)
        for seed, shape in enumerate(operands)
    ]
    return inputs, tw.empty(result, precision.dtype, device=device)


def _error(case: Case, device: tw.Device, precision: _CasePrecision) -> float:
    """The relative error on a small ragged shape, whose result is poisoned first."""
    inputs, out = _tensors(case, _RAGGED, device, precision)
    tw.fill(out, math.nan).sync()
    case.ours(inputs, out).sync()
    exact = case.numpy(*(one.numpy().astype(np.float64) for one in inputs))
    distance = np.linalg.norm(out.numpy().astype(np.float64) - exact)
    return float(distance / np.linalg.norm(exact))

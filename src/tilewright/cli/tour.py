"""The tour: kernels that run, mistakes that are refused, and the checks of a kernel.

A chapter consists of steps; a step either compares a kernel's result with NumPy's or shows a
refusal. Each step is a small function on the current device, written as a user's code, and the demo
shows its source. This module prints nothing.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import f16, f32
from tilewright.cli.tour_kernels import (
    add,
    gemm,
    gemm_persistent,
    permute_heads,
    permute_heads_racing,
    pick_rows,
    saxpy,
    softmax,
)

__all__ = ["TOUR", "Chapter", "ComparedResult", "Refusal", "Refused", "Runs"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ComparedResult:
    """A kernel's result beside NumPy's."""

    kernel: str
    what: str
    error: float  # of the whole result, relative, in float64
    allowed: float

    @property
    def is_right(self) -> bool:
        """Whether the results agree."""
        return self.error <= self.allowed

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "kernel": self.kernel,
            "what": self.what,
            "error": self.error,
            "allowed": self.allowed,
            "ok": self.is_right,
        }


@dataclass(frozen=True)
class Refusal:
    """The response of tilewright to a mistake."""

    what: str
    code: str
    expected: type[tw.TilewrightError]
    raised: tw.TilewrightError | None

    @property
    def is_right(self) -> bool:
        """Whether the step was refused, and for the expected reason."""
        return type(self.raised) is self.expected

    def to_json(self) -> dict[str, Any]:
        """The refusal as plain data."""
        return {
            "what": self.what,
            "code": self.code,
            "exception": None if self.raised is None else type(self.raised).__name__,
            "message": None if self.raised is None else str(self.raised),
            "ok": self.is_right,
        }


@dataclass(frozen=True)
class Runs:
    """A step that computes a result."""

    what: str
    run: Callable[[], ComparedResult]
    shows: tw.Kernel | None = None  # kernel whose source is shown first

    def take(self) -> ComparedResult:
        """Run the step on the current device."""
        return self.run()


@dataclass(frozen=True)
class Refused:
    """A step that must be refused."""

    what: str
    run: Callable[[], None]
    expected: type[tw.TilewrightError]
    shows: tw.Kernel | None = None

    def take(self) -> Refusal:
        """Try the step on the current device."""
        raised: tw.TilewrightError | None = None
        try:
            self.run()
        except tw.TilewrightError as error:
            raised = error
        return Refusal(self.what, _body(self.run), self.expected, raised)


@dataclass(frozen=True)
class Chapter:
    """Steps that belong together."""

    title: str
    words: str  # the subject of the chapter, in a sentence or two
    steps: tuple[Runs | Refused, ...]


def _body(function: Callable[[], None]) -> str:
    """The statements of a step, as written in this file."""
    source = textwrap.dedent(inspect.getsource(function))
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef), "a step is a plain function"
    first = definition.body[1].lineno  # behind the docstring
    return textwrap.dedent("\n".join(source.splitlines()[first - 1 :]))


def _compare(
    kernel: str, what: str, found: Array, expected: Array, allowed: float
) -> ComparedResult:
    wide = expected.astype(np.float64)
    distance = float(np.linalg.norm(found.astype(np.float64) - wide))
    return ComparedResult(kernel, what, distance / float(np.linalg.norm(wide)), allowed)


def _random(*shape: int, dtype: npt.DTypeLike = np.float32) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


# --- results --------------------------------------------------------------------------------------


def _add() -> ComparedResult:
    a, b = _random(1_000_003), np.arange(1_000_003, dtype=np.float32)
    x, y, z = tw.from_numpy(a), tw.from_numpy(b), tw.zeros(a.shape, f32)
    add(z.partition(4096), x, y).sync()
    return _compare("add", "1,000,003 elements in 245 pieces", z.numpy(), a + b, 0.0)


def _saxpy() -> ComparedResult:
    a, b = _random(1_000_003), np.arange(1_000_003, dtype=np.float32)
    x, y, z = tw.from_numpy(a), tw.from_numpy(b), tw.zeros(a.shape, f32)
    saxpy(z.partition(4096), x, y, 2.5).sync()
    return _compare("saxpy", "with a scalar argument", z.numpy(), 2.5 * a + b, 1e-6)


def _softmax() -> ComparedResult:
    a = _random(257, 1000)
    x, z = tw.from_numpy(a), tw.zeros(a.shape, f32)
    softmax(z.partition(8, 1024), x).sync()
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    what = "257 rows of 1000, padded to 1024 with -inf"
    return _compare("softmax", what, z.numpy(), expected, 1e-6)


def _gemm() -> ComparedResult:
    a, b = _random(500, 300, dtype=np.float16), _random(300, 400, dtype=np.float16)
    x, y, z = tw.from_numpy(a), tw.from_numpy(b), tw.zeros((500, 400), f16)
    gemm(z.partition(128, 128), x, y).sync()
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return _compare("gemm", "500 × 300 × 400 in f16", z.numpy(), expected, 1e-3)


def _gemm_persistent() -> ComparedResult:
    a, b = _random(500, 300, dtype=np.float16), _random(300, 400, dtype=np.float16)
    x, y, z = tw.from_numpy(a), tw.from_numpy(b), tw.zeros((500, 400), f16)
    gemm_persistent(z.partition(128, 128).persistent(blocks=5, group=(8, 1)), x, y).sync()
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return _compare("gemm_persistent", "5 blocks walk 16 tiles", z.numpy(), expected, 1e-3)


def _permute_heads() -> ComparedResult:
    a = _random(1, 8, 128, 64)
    x, z = tw.from_numpy(a), tw.zeros(a.shape, f32)
    permute_heads(z.partition(1, 1, 32, 64), x).sync()
    what = "8 heads reversed, in pieces of rank 4"
    return _compare("permute_heads", what, z.numpy(), a[:, ::-1], 0.0)


def _pick_rows() -> ComparedResult:
    a, numbers = _random(8, 64), np.array([0, 3, 5, 1], np.int32)
    x, z = tw.from_numpy(a), tw.zeros((4, 64), f32)
    pick_rows(z.partition(1, 64), x, tw.from_numpy(numbers)).sync()
    return _compare("pick_rows", "the launch after it", z.numpy(), a[numbers], 0.0)


# --- refusals -------------------------------------------------------------------------------------


def _alias() -> None:
    """Write a tensor and read it in the same launch."""
    z, y = tw.zeros((1024,), f32), tw.ones((1024,), f32)
    add(z.partition(128), z, y)


def _read_too_early() -> None:
    """Read a tensor that a built operation holds."""
    x, y, z = tw.ones((1024,), f32), tw.ones((1024,), f32), tw.zeros((1024,), f32)
    with closing(add(z.partition(128), x, y)):  # built; not submitted
        z.numpy()


def _race() -> None:
    """Compute the index of a store in the kernel."""
    x, z = tw.ones((1, 8, 128, 64), f32), tw.zeros((1, 8, 128, 64), f32)
    permute_heads_racing(z.partition(1, 1, 32, 64), x)


def _leave_the_axis() -> None:
    """Follow an index from memory out of the tensor."""
    x, z = tw.ones((8, 64), f32), tw.zeros((4, 64), f32)
    rows = tw.from_numpy(np.array([0, 3, 9, 1], np.int32))  # there is no row 9
    pick_rows(z.partition(1, 64), x, rows).sync()


TOUR: tuple[Chapter, ...] = (
    # In the order in which the demo shows them.
    Chapter(
        "Kernels, compared with NumPy",
        "Each block writes its own piece of the output; inputs are shared and read-only.",
        (
            Runs("add", _add, add),
            Runs("saxpy", _saxpy),
            Runs("softmax", _softmax),
            Runs("gemm", _gemm),
            Runs("gemm_persistent", _gemm_persistent),
        ),
    ),
    Chapter(
        "Refused before anything runs",
        "An operation borrows its tensors from when it is built until it is submitted.",
        (
            Refused("one launch writes z and reads it", _alias, tw.BorrowError),
            Refused("z is read while an operation holds it", _read_too_early, tw.BorrowError),
        ),
    ),
    Chapter(
        "A race that cannot be written",
        "A published kernel permutes heads with two indices of its store swapped: several blocks "
        "write one place, and every run gives another result. Here a store takes no index.",
        (
            Refused("the place of a store is computed", _race, tw.CompileError),
            Runs("permute_heads", _permute_heads, permute_heads),
        ),
    ),
    Chapter(
        "An index that only the kernel knows",
        "Such a check stays in the kernel: the nearest row is read, and the next wait raises.",
        (
            Refused(
                "a row number from memory is too large",
                _leave_the_axis,
                tw.OutOfBoundsError,
                pick_rows,
            ),
            Runs("pick_rows", _pick_rows),
        ),
    ),
)

"""Kernels of cuTile Python with sample arguments, what NumPy says of them, and their bytecode.

An independent producer of Tile IR for our reader, printer, writer and CPU backend. A `Program` is
one kernel with everything that a run of it needs; `program.export(version)` gives its bytecode.
Arrays are passed as cuTile Python passes them: address, then extents, then strides, all i32 but the
address. No GPU is needed.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cuda.tile as ct
import cutile_sources
import ml_dtypes
import numpy as np
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    KernelSignature,
    ScalarConstraint,
    export_kernel,
)

Numbers = np.ndarray[Any, Any]
Version = tuple[int, int]

VERSIONS: tuple[Version, ...] = ((13, 1), (13, 2), (13, 3), (13, 4))
# Before 13.3 bytecode is made for one target.
_OLD_TARGET = "sm_100"
_TARGET_FREE = (13, 3)

_DTYPES = {
    np.dtype(np.float16): ct.float16,
    np.dtype(ml_dtypes.bfloat16): ct.bfloat16,
    np.dtype(np.float32): ct.float32,
    np.dtype(np.float64): ct.float64,
    np.dtype(ml_dtypes.float8_e4m3fn): ct.float8_e4m3fn,
    np.dtype(np.int8): ct.int8,
    np.dtype(np.int32): ct.int32,
    np.dtype(np.int64): ct.int64,
}


@dataclass(frozen=True)
class Program:
    """A kernel, arguments for it, and what it must leave in them."""

    name: str
    kernel: Callable[..., None]
    # Arrays, scalars and constants in the order of the parameters; Python ints are constants.
    make: Callable[[np.random.Generator], tuple[Any, ...]]
    # The arrays that are written, by position, as NumPy computes them from the arguments.
    expect: Callable[..., dict[int, Numbers]]
    grid: tuple[int, int, int]
    tolerance: float = 0.0  # relative and absolute
    since: Version = (13, 1)
    hints: dict[str, int] = field(default_factory=dict)
    wide: bool = False  # 64-bit extents and strides
    prints: str = ""  # what a run must write for people

    def arguments(self, seed: int = 0) -> tuple[Any, ...]:
        """Fresh arguments; equal seeds give equal ones."""
        return self.make(np.random.default_rng(seed))

    def export(self, version: Version) -> bytes:
        """The bytecode of the kernel for these arguments."""
        return _export(self.name, version)


@functools.cache
def _export(name: str, version: Version) -> bytes:
    program = PROGRAMS[name]
    constraints = tuple(_constraint(item, program) for item in program.arguments())
    signature = KernelSignature(constraints, CallingConvention.cutile_python_v1(), program.name)
    file = io.BytesIO()
    export_kernel(
        ct.kernel(program.kernel, **program.hints),
        [signature],
        file,
        gpu_code=None if version >= _TARGET_FREE else _OLD_TARGET,
        output_format="tileir_bytecode",
        bytecode_version=".".join(map(str, version)),
    )
    return file.getvalue()


def _constraint(item: Any, program: Program) -> Any:
    """What cuTile finds out about an argument at a launch."""
    if isinstance(item, int):
        return item
    if not isinstance(item, np.ndarray):
        return ScalarConstraint(_DTYPES[np.dtype(type(item))])
    return ArrayConstraint(
        _DTYPES[item.dtype],
        item.ndim,
        index_dtype=ct.int64 if program.wide else ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=(*[None] * (item.ndim - 1), 1),
        base_addr_divisible_by=16,
    )


# --- arguments and expectations -------------------------------------------------------------------


def _uniform(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Numbers:
    return rng.uniform(-1, 1, shape).astype(dtype)


def _product(a: Numbers, b: Numbers) -> Numbers:
    return a.astype(np.float32) @ b.astype(np.float32)


def _softmax(x: Numbers) -> Numbers:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _layer_norm(x, weight, bias, _y, _mean, eps, _b) -> dict[int, Numbers]:
    mean = x.mean(axis=1, keepdims=True)
    scaled = (x - mean) / np.sqrt(x.var(axis=1, keepdims=True) + eps)
    return {3: scaled * weight + bias, 4: mean[:, 0]}


def _attention(q, k, v, _o, scale, *_) -> dict[int, Numbers]:
    scores = np.einsum("hid,hjd->hij", q.astype(np.float32), k.astype(np.float32)) * scale
    hidden = np.triu(np.ones(scores.shape[1:], bool), 1)
    weights = _softmax(np.where(hidden, -np.inf, scores))
    return {3: np.einsum("hij,hjd->hid", weights, v.astype(np.float32)).astype(q.dtype)}


def _gather_scatter(table, ids, order, out, *_) -> dict[int, Numbers]:
    result = out.copy()
    for number, place in zip(ids, order, strict=True):
        inside = 0 <= number < len(table)
        result[place] = table[number] if inside else 0
    return {3: result}


def _atomics(ids, counts, highest, claimed, _b) -> dict[int, Numbers]:
    counts, highest, claimed = counts.copy(), highest.copy(), claimed.copy()
    for at, number in enumerate(ids):
        if 0 <= number < len(counts):
            counts[number] += 1
            highest[number] = max(highest[number], at)
            claimed[number] = 1
    return {1: counts, 2: highest, 3: claimed}


def _scan(x, *_) -> dict[int, Numbers]:
    back = np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
    return {1: np.cumsum(x, axis=1), 2: x.argmin(axis=1).astype(np.int32), 3: back}


def _steps(x, counts, limit, block: int) -> dict[int, Numbers]:
    result = []
    for start in range(0, len(x), block):
        number, taken = int(x[start : start + block].sum()), 0
        while number >= limit and taken < 50:
            number, taken = (number // 2 if number % 2 == 0 else 3 * number + 1), taken + 1
        result.append(taken)
    return {1: np.array(result, counts.dtype)}


def _wide_rows(x, _y, flip, *_) -> dict[int, Numbers]:
    turned = ((x > 0).astype(np.int64) ^ flip) != 0
    return {1: np.where(turned, -x, np.sqrt(np.abs(x)))}


def _f16(rng: np.random.Generator, *shape: int) -> Numbers:
    return _uniform(rng, *shape, dtype=np.float16)


def _f8(rng: np.random.Generator, *shape: int) -> Numbers:
    return _uniform(rng, *shape, dtype=ml_dtypes.float8_e4m3fn)


def _ints(rng: np.random.Generator, low: int, high: int, *shape: int) -> Numbers:
    return rng.integers(low, high, shape, dtype=np.int32)


def _empty(*shape: int, dtype: Any = np.float32) -> Numbers:
    return np.zeros(shape, dtype)


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program(
            "vector_add", cutile_sources.vector_add,
            lambda r: (_uniform(r, 1000), _uniform(r, 1000), _empty(1000), 256),
            lambda x, y, *_: {2: x + y},
            (4, 1, 1),
        ),
        Program(
            "gemm", cutile_sources.gemm,
            lambda r: (
                _f16(r, 96, 80), _f16(r, 80, 72), _empty(96, 72, dtype=np.float16), 32, 32, 16,
            ),
            lambda a, b, *_: {2: _product(a, b).astype(np.float16)},
            (9, 1, 1), 2e-3, hints={"num_ctas": 2, "occupancy": 2},
        ),
        Program(
            "split_k", cutile_sources.split_k,
            lambda r: (_f16(r, 64, 128), _f16(r, 128, 32), _empty(64, 32), 32, 32, 16, 4),
            lambda a, b, *_: {2: _product(a, b)},
            (2, 1, 4), 1e-3,
        ),
        Program(
            "softmax", cutile_sources.softmax,
            lambda r: (_uniform(r, 6, 100), _empty(6, 100), 128),
            lambda x, *_: {1: _softmax(x)},
            (6, 1, 1), 1e-5,
        ),
        Program(
            "layer_norm", cutile_sources.layer_norm,
            lambda r: (
                _uniform(r, 5, 200), _uniform(r, 200), _uniform(r, 200), _empty(5, 200), _empty(5),
                np.float32(1e-5), 64,
            ),
            _layer_norm,
            (5, 1, 1), 1e-4,
        ),
        Program(
            "attention", cutile_sources.attention,
            lambda r: (
                _f16(r, 2, 64, 32), _f16(r, 2, 64, 32), _f16(r, 2, 64, 32),
                _empty(2, 64, 32, dtype=np.float16), np.float32(0.125), 32, 16, 32,
            ),
            _attention,
            (2, 2, 1), 4e-3,
        ),
        Program(
            "transpose", cutile_sources.transpose,
            lambda r: (_uniform(r, 48, 100), _empty(100, 48), 16, 32),
            lambda x, *_: {1: x.T},
            (3, 4, 1),
        ),
        Program(
            "gather_scatter", cutile_sources.gather_scatter,
            lambda r: (
                _uniform(r, 20, 16), _ints(r, -3, 25, 30), r.permutation(30).astype(np.int32),
                _uniform(r, 30, 16), 16, 16,
            ),
            _gather_scatter,
            (2, 1, 1),
        ),
        Program(
            "atomics", cutile_sources.atomics,
            lambda r: (
                _ints(r, -2, 12, 100), _empty(10, dtype=np.int32), _empty(10, dtype=np.int32),
                _empty(10, dtype=np.int32), 32,
            ),
            _atomics,
            (4, 1, 1),
        ),
        Program(
            "fp8", cutile_sources.fp8,
            lambda r: (
                _f8(r, 32, 64), _f8(r, 64, 32), np.float32(0.5),
                _empty(32, 32, dtype=ml_dtypes.bfloat16), 32, 32, 32,
            ),
            lambda a, b, scale, *_: {3: (_product(a, b) * scale).astype(ml_dtypes.bfloat16)},
            (1, 1, 1), 1e-2,
        ),
        Program(
            "scan", cutile_sources.scan,
            lambda r: (
                _uniform(r, 4, 64), _empty(4, 64), _empty(4, dtype=np.int32), _empty(4, 64), 64,
            ),
            _scan,
            (4, 1, 1), 1e-5,
        ),
        Program(
            "print_tile", cutile_sources.print_tile,
            lambda r: (_ints(r, 0, 9, 8), 4),
            lambda *_: {},
            (2, 1, 1), prints="block 0: ",
        ),
        Program(
            "steps", cutile_sources.steps,
            lambda r: (_ints(r, 1, 40, 40), _empty(5, dtype=np.int32), np.int32(3), 8),
            _steps,
            (5, 1, 1),
        ),
        Program(
            "wide_rows", cutile_sources.wide_rows,
            lambda r: (
                _uniform(r, 6, 40, dtype=np.float64), _empty(6, 40, dtype=np.float64),
                np.int64(1), 4, 64,
            ),
            _wide_rows,
            (2, 1, 1), 1e-12, wide=True,
        ),
    )
}  # fmt: skip

__all__ = ["PROGRAMS", "VERSIONS", "Program"]

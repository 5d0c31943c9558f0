"""Creation kernels: ranges, even steps, identity matrices, random numbers.

A tensor comes as lines of at most 2**30 elements; `first` is the index of a line's first element in
the whole. The functions at the end build the launches; `tilewright.runtime.loading` declares their
interface.
"""

from __future__ import annotations

import math
from typing import Any

import tilewright as tw
from tilewright import Const, Mut, f32, f64, i64, u64
from tilewright.dims import BM, BN, B, T
from tilewright.kernels.large_tiles import EDGE, on_cpu, tile_for

__all__ = ["count_up", "even_steps", "normal_numbers", "uniform_numbers", "unit_matrix"]

TILE = 1024
MATRIX_TILE = 32
HALF_SEQUENCE = 1 << 63  # offset in the sequence of the second uniform number of each normal one


@tw.kernel(deny_checks=True)
def count(z: Mut[T, B], first: i64) -> None:
    """The index of each element."""
    n = first + (z.index[0] * B + tw.arange(B)).astype(i64)
    z.store(n.astype(z.dtype))


@tw.kernel(deny_checks=True)
def steps(z: Mut[T, B], first: i64, last: i64, start: f64, step: f64, stop: f64) -> None:
    """`start + n * step`, and exactly `stop` at the last element."""
    n = first + (z.index[0] * B + tw.arange(B)).astype(i64)
    z.store(tw.where(n == last, stop, start + n.astype(f64) * step).astype(z.dtype))


@tw.kernel(deny_checks=True)
def unit(z: Mut[T, BM, BN]) -> None:
    """Ones on the diagonal, zeros elsewhere."""
    i, j = z.index
    rows = i * BM + tw.arange(BM)[:, None]
    columns = j * BN + tw.arange(BN)
    z.store((rows == columns).astype(z.dtype))


@tw.kernel(deny_checks=True)
def uniform(z: Mut[T, B], first: u64, seed: u64) -> None:
    """Uniform numbers in [0, 1), each from its own position in the sequence of the seed."""
    start = first + u64(z.index[0] * B)
    z.store(tw.rand(z.tile, z.dtype, seed=seed, offset=start))


@tw.kernel(deny_checks=True)
def normal(z: Mut[T, B], first: u64, seed: u64, *, IS_DOUBLE: Const[bool] = False) -> None:
    """Normally distributed numbers, each from two uniform ones (Box and Muller)."""
    start = first + u64(z.index[0] * B)
    wide = f64 if IS_DOUBLE else f32
    u = tw.rand(z.tile, wide, seed=seed, offset=start)
    v = tw.rand(z.tile, wide, seed=seed, offset=start + HALF_SEQUENCE)
    radius = tw.sqrt(-2.0 * tw.log(1.0 - u))  # 1 - u is in (0, 1]: a finite logarithm
    z.store((radius * tw.cos(math.tau * v)).astype(z.dtype))


# --- the launches ---------------------------------------------------------------------------------


def _cut(line: tw.Tensor) -> Any:
    """A line partitioned into tiles."""
    return line.partition(tile_for(line, TILE))


def count_up(line: tw.Tensor, first: int) -> tw.DeviceOp[Any]:
    """The index of each element."""
    return count(_cut(line), first)


def even_steps(
    line: tw.Tensor, first: int, start: float, stop: float, number: int
) -> tw.DeviceOp[Any]:
    """`number` evenly spaced numbers from `start` to `stop`, both included."""
    step = (stop - start) / max(number - 1, 1)
    # A single element is `start`; no step has to end at `stop`.
    last = number - 1 if number > 1 else -1
    return steps(_cut(line), first, last, start, step, stop)


def unit_matrix(matrix: tw.Tensor) -> tw.DeviceOp[Any]:
    """Ones on the diagonal."""
    edge = EDGE if on_cpu(matrix) else MATRIX_TILE
    return unit(matrix.partition(edge, edge))


def uniform_numbers(line: tw.Tensor, first: int, seed: int) -> tw.DeviceOp[Any]:
    """Uniform numbers in [0, 1), equal to those of `tw.rand` in a kernel."""
    return uniform(_cut(line), first, seed)


def normal_numbers(line: tw.Tensor, first: int, seed: int) -> tw.DeviceOp[Any]:
    """Normal numbers of mean 0 and variance 1; narrow dtypes are rounded from f32."""
    return normal(_cut(line), first, seed, IS_DOUBLE=line.dtype is f64)

"""Copy, conversion and fill kernels for any strides, up to rank 6.

A kernel has a fixed rank, so there is one kernel for each rank; all share one body. The functions
at the end choose the kernel and its tile; `tilewright.runtime.loading` declares their interface.
"""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import Cut, Mut, Ref
from tilewright.dims import BC, BD, BH, BK, BM, BN, C, D, H, K, M, N, T
from tilewright.kernels import large_tiles
from tilewright.kernels.large_tiles import on_cpu, tile_for
from tilewright.kernels.placeholders import FROM

__all__ = ["convert", "copy_3d", "repeat"]

BUDGET = 4096  # elements of a tile
EDGE = 64  # elements along either axis of a tile that is read along one and written along the other


def _convert(dst: Any, src: Any) -> None:
    dst.store(src.load_like(dst).astype(dst.dtype))


def _repeat(dst: Any, value: Any) -> None:
    dst.store(tw.full(dst.tile, value, dst.dtype))


@tw.kernel(deny_checks=True)
def copy_1d(dst: Mut[T, Cut[N, BN]], src: Ref[FROM, N]) -> None:
    """Copy `src` to `dst`, converted to the dtype of `dst`."""
    _convert(dst, src)


@tw.kernel(deny_checks=True)
def copy_2d(dst: Mut[T, Cut[M, BM], Cut[N, BN]], src: Ref[FROM, M, N]) -> None:
    """Copy `src` to `dst`, converted to the dtype of `dst`."""
    _convert(dst, src)


@tw.kernel(deny_checks=True)
def copy_3d(dst: Mut[T, Cut[K, BK], Cut[M, BM], Cut[N, BN]], src: Ref[FROM, K, M, N]) -> None:
    """Copy `src` to `dst`, converted to the dtype of `dst`."""
    _convert(dst, src)


@tw.kernel(deny_checks=True)
def copy_4d(
    dst: Mut[T, Cut[H, BH], Cut[K, BK], Cut[M, BM], Cut[N, BN]], src: Ref[FROM, H, K, M, N]
) -> None:
    """Copy `src` to `dst`, converted to the dtype of `dst`."""
    _convert(dst, src)


@tw.kernel(deny_checks=True)
def copy_5d(
    dst: Mut[T, Cut[D, BD], Cut[H, BH], Cut[K, BK], Cut[M, BM], Cut[N, BN]],
    src: Ref[FROM, D, H, K, M, N],
) -> None:
    """Copy `src` to `dst`, converted to the dtype of `dst`."""
    _convert(dst, src)


@tw.kernel(deny_checks=True)
def copy_6d(
    dst: Mut[T, Cut[C, BC], Cut[D, BD], Cut[H, BH], Cut[K, BK], Cut[M, BM], Cut[N, BN]],
    src: Ref[FROM, C, D, H, K, M, N],
) -> None:
    """Copy `src` to `dst`, converted to the dtype of `dst`."""
    _convert(dst, src)


@tw.kernel(deny_checks=True)
def fill_1d(dst: Mut[T, BN], value: T) -> None:
    """Set every element to one value."""
    _repeat(dst, value)


@tw.kernel(deny_checks=True)
def fill_2d(dst: Mut[T, BM, BN], value: T) -> None:
    """Set every element to one value."""
    _repeat(dst, value)


@tw.kernel(deny_checks=True)
def fill_3d(dst: Mut[T, BK, BM, BN], value: T) -> None:
    """Set every element to one value."""
    _repeat(dst, value)


@tw.kernel(deny_checks=True)
def fill_4d(dst: Mut[T, BH, BK, BM, BN], value: T) -> None:
    """Set every element to one value."""
    _repeat(dst, value)


@tw.kernel(deny_checks=True)
def fill_5d(dst: Mut[T, BD, BH, BK, BM, BN], value: T) -> None:
    """Set every element to one value."""
    _repeat(dst, value)


@tw.kernel(deny_checks=True)
def fill_6d(dst: Mut[T, BC, BD, BH, BK, BM, BN], value: T) -> None:
    """Set every element to one value."""
    _repeat(dst, value)


COPIES = (copy_1d, copy_2d, copy_3d, copy_4d, copy_5d, copy_6d)
FILLS = (fill_1d, fill_2d, fill_3d, fill_4d, fill_5d, fill_6d)


# --- the launches ---------------------------------------------------------------------------------


@tw.function
def convert(dst: tw.Tensor, src: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    """Copy `src` to `dst`, which has the same shape, converted to the dtype of `dst`."""
    return COPIES[dst.ndim - 1](dst.partition(*_tile(dst, src)), src).giving(dst)


def repeat(dst: tw.Tensor, value: int) -> tw.DeviceOp[Any]:
    """Set every element of `dst` to one value."""
    return FILLS[dst.ndim - 1](dst.partition(*_tile(dst, dst)), value)


def _tile(dst: tw.Tensor, src: tw.Tensor) -> tuple[int, ...]:
    """A tile that is long along the contiguous axis of each tensor."""
    axes = range(dst.ndim)
    written, read = (min(axes, key=lambda axis: of.strides[axis]) for of in (dst, src))
    inner = [axis for axis in reversed(axes) if axis not in (written, read)]
    tile = [1] * dst.ndim
    left, edge = tile_for(dst, BUDGET), large_tiles.EDGE if on_cpu(dst) else EDGE
    for axis in dict.fromkeys((written, read, *inner)):
        limit = left if written == read or axis in inner else edge
        tile[axis] = _power_of_two(min(limit, left), dst.shape[axis])
        left //= tile[axis]
    return tuple(tile)


def _power_of_two(limit: int, extent: int) -> int:
    """A power of two that covers the extent, within the limit; tile ends fit the index dtype."""
    tile = 1
    while tile < extent and 2 * tile <= limit and extent + 2 * tile < 1 << 31:
        tile *= 2
    return tile

"""Sums of products with scales; inlined into kernels, never run on the host.

A scale belongs to rows of a factor, as stored: to all of them, to each one, or to blocks of 128.
Along K it is one number, applied when the sum is complete, or one for each part of 128, applied to
the sum of that part. Tensor cores add products of 8-bit floats with fewer bits than f32 has; the
sum of each step of BK is therefore added to the others in f32, also without scales of parts.

A sum that is added to another in every step takes registers beside it. The columns of a large tile
are therefore computed in pieces: one is multiplied while the one before it is scaled and added.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tilewright as tw
from tilewright import f32

__all__ = [
    "BLOCKS",
    "EACH",
    "GROUP",
    "LEFT",
    "LEFTSCALE",
    "NO_SCALE",
    "RIGHT",
    "RIGHTSCALE",
    "SHARED",
    "Scales",
    "Steps",
    "places_of_pieces",
    "require_scales",
    "scaled_sums",
    "sum_of_folds",
    "with_whole_scales",
]

# Rows of a block and elements of a part of K that share a scale.
GROUP = 128
# Rows that have a scale of their own: no scale at all, one for all rows, for each, for each block.
NO_SCALE, SHARED, EACH, BLOCKS = range(4)


class LEFT(tw.AnyDType):
    """dtype of the left factor."""


class RIGHT(tw.AnyDType):
    """dtype of the right factor."""


class LEFTSCALE(tw.AnyDType):
    """dtype of the scales of the left factor."""


class RIGHTSCALE(tw.AnyDType):
    """dtype of the scales of the right factor."""


class Scales(NamedTuple):
    """The scales of a factor, `[rows, folds, parts of K]`, and which rows and parts share one."""

    values: Any
    spread: int
    has_parts: bool


class Steps(NamedTuple):
    """A range of steps along K, and how each is computed."""

    first: Any
    last: Any
    tile: tuple[Any, Any]  # rows and columns of a sum
    factor: Any  # dtype in which elements are multiplied
    latency: int
    is_fast: bool
    folds: int = 1


def require_scales(scales: tuple[Scales, Scales], extents: tuple[Any, Any], parts: Any) -> None:
    """Require a scale for every row of both factors and every part of K that a kernel reads."""
    _require(scales[0], extents[0], parts)
    _require(scales[1], extents[1], parts)


def _require(scales: Scales, extent: Any, parts: Any) -> None:
    if scales.spread == SHARED:
        tw.require(scales.values.shape[0] == 1)
    elif scales.spread == EACH:
        tw.require(scales.values.shape[0] == extent)
    elif scales.spread == BLOCKS:
        tw.require(scales.values.shape[0] == tw.cdiv(extent, GROUP))
    if scales.has_parts:
        tw.require(scales.values.shape[2] == parts)


def places_of_pieces(right: Any, j: Any, pieces: int) -> tuple[Any, ...]:
    """The places of the pieces of a tile; one behind the edge reads the last, and is not stored."""
    if pieces == 1:
        return (j,)
    places: tuple[Any, ...] = ()
    for piece in tw.static_range(pieces):
        places = (*places, right.clip(j * pieces + piece, 1))
    return places


def scaled_sums(
    left: Any, right: Any, place: tuple[Any, Any], scales: tuple[Scales, Scales], steps: Steps
) -> tuple[Any, ...]:
    """`sum over k of (left[i, k] @ right[k, j]) * scales of part k` for the piece at each `j`."""
    i, places = place
    rows = steps.tile[0] // steps.folds
    sums: tuple[Any, ...] = ()
    for _ in tw.static_range(len(places)):
        sums = (*sums, tw.zeros(steps.tile, f32))
    for k in range(steps.first, steps.last):
        x = left.load(i, k, latency=steps.latency or None).astype(steps.factor)
        scale = _column(scales[0], i, k, rows, steps.folds) if scales[0].has_parts else None
        more: tuple[Any, ...] = ()
        for piece in tw.static_range(len(places)):
            y = right.load(k, places[piece], latency=steps.latency or None).astype(steps.factor)
            more = (*more, _added(sums[piece], (x, y), scale, (scales[1], places[piece], k), steps))
        sums = more
    return sums


def _added(acc: Any, factors: Any, scale: Any, of: Any, steps: Steps) -> Any:
    """A sum with the product of one step, scaled if its part of K has scales."""
    (x, y), (scales, j, k) = factors, of
    if scale is None and not scales.has_parts:
        return tw.mma(x, y, acc, fast_acc=steps.is_fast)
    part = tw.mma(x, y, tw.zeros(steps.tile, f32), fast_acc=steps.is_fast)
    if scales.has_parts:
        row = _column(scales, j, k, steps.tile[1] // steps.folds, steps.folds).T
        scale = row if scale is None else scale * row
    return acc + part * scale


def sum_of_folds(acc: Any, folds: int) -> Any:
    """The products of equal folds of both factors, summed."""
    if folds == 1:
        return acc
    rows, columns = acc.shape
    each = acc.reshape(rows // folds, folds, columns // folds, folds)
    part = tw.arange(folds)
    are_equal = part[:, None, None] == part  # [folds, 1, folds]
    return tw.sum(tw.sum(tw.where(are_equal, each, 0.0), axis=3), axis=1)


def with_whole_scales(acc: Any, place: tuple[Any, Any], scales: tuple[Scales, Scales]) -> Any:
    """A complete sum times the scales that are the same for all of K."""
    rows, columns = acc.shape
    if scales[0].spread != NO_SCALE and not scales[0].has_parts:
        acc *= _column(scales[0], place[0], 0, rows, 1)
    if scales[1].spread != NO_SCALE and not scales[1].has_parts:
        acc *= _column(scales[1], place[1], 0, columns, 1).T
    return acc


def _column(scales: Scales, i: Any, k: Any, rows: int, folds: int) -> Any:
    """The scales of tile i of `rows` rows at part k of K: `[rows * folds, 1]`, or one number."""
    if scales.spread == EACH:
        each = scales.values.partition(rows, folds, 1)[i, 0, k].reshape(rows * folds, 1)
    elif scales.spread == BLOCKS and rows > GROUP:
        blocks = scales.values.partition(rows // GROUP, folds, 1)[i, 0, k]
        each = _repeated(blocks, rows, folds)
    else:
        block = 0 if scales.spread == SHARED else i * rows // GROUP
        each = scales.values.partition(1, folds, 1)[block, 0, k]
        each = each.reshape(1, 1) if folds == 1 else _repeated(each, rows, folds)
    return each.astype(f32)


def _repeated(blocks: Any, rows: int, folds: int) -> Any:
    """Scales of blocks, `[blocks, folds, 1]`, repeated for each row of a block."""
    count = blocks.shape[0]
    every = blocks.reshape(count, 1, folds, 1).broadcast_to(count, rows // count, folds, 1)
    return every.reshape(rows * folds, 1)

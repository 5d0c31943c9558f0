"""Tilings: a shape cut into tiles, checked once, and shared by all tensors of that shape.

A tiling refers to no tensor, so it is cached: plans are found by the tiling of their outputs. A
tiling with segments refers to their offsets, and is not shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import DType, i32, i64
from tilewright.errors import LaunchError
from tilewright.given import as_ints, int_or, shown
from tilewright.runtime.memory.layout import MAX_EXTENT

if TYPE_CHECKING:
    from tilewright.runtime.memory.tensor import Tensor

__all__ = [
    "PLAIN_TILINGS",
    "Tiling",
    "check_positive",
    "check_tile",
    "check_truth",
    "find_tiling",
]

_KEPT = 1024  # entries; a full table is cleared


@dataclass(frozen=True, slots=True, eq=False)
class Tiling:
    """A shape cut into tiles; None in the tile leaves an axis whole.

    `order` has, for each axis of the grid, the axis of the shape that it runs along, or `~axis` if
    the blocks of the last tile come first. A prefix may have more tiles than blocks. `segments` are
    offsets of ragged rows along the first axis, each of which is cut by itself.
    """

    tile: tuple[int | None, ...]
    order: tuple[int, ...]
    is_prefix: bool
    segments: Tensor | None
    grid: tuple[int, ...]  # tiles along each axis of the grid
    only: int | None  # extent of a tile along the only axis of a shape, if that is cut


# Tilings with the axes in order and a block for each tile, by shape and tile.
PLAIN_TILINGS: dict[tuple[tuple[int, ...], tuple[int | None, ...]], Tiling] = {}
_tilings: dict[tuple[Any, ...], Tiling] = {}  # all


def find_tiling(
    shape: tuple[int, ...],
    tile: tuple[Any, ...],
    order: Any,
    is_prefix: bool,
    segments: Tensor | None,
) -> Tiling:
    """The tiling of a shape; refuses an invalid tile, order or segments."""
    if len(tile) != len(shape):
        raise LaunchError(
            f"partition{shown(tile)} has {len(tile)} extents for a tensor of rank"
            f" {len(shape)}, shape {shape}: give one for each axis, None for a whole axis"
        )
    checked, axes = check_tile(tile), _check_order(order, len(shape))
    key = (shape, checked, axes, is_prefix)
    found = _tilings.get(key) if segments is None else None
    if found is not None:
        return found
    made = _make(shape, checked, axes, is_prefix, segments)
    if segments is None:
        if len(_tilings) >= _KEPT:
            _tilings.clear()
            PLAIN_TILINGS.clear()
        made = _tilings.setdefault(key, made)
        if not is_prefix and axes == tuple(range(len(shape))):
            PLAIN_TILINGS[shape, checked] = made
    return made


def _make(
    shape: tuple[int, ...],
    tile: tuple[int | None, ...],
    order: tuple[int, ...],
    is_prefix: bool,
    segments: Tensor | None,
) -> Tiling:
    for axis, (extent, entry) in enumerate(zip(shape, tile, strict=True)):
        if entry is not None and entry > MAX_EXTENT:
            raise LaunchError(
                f"a tile of {entry} elements along axis {axis} is longer than an axis can be, at"
                f" most {MAX_EXTENT}: use a smaller tile, or None for the whole axis"
            )
        if entry is not None and -(-extent // entry) * entry > MAX_EXTENT:
            raise LaunchError(
                f"axis {axis} has {extent} elements, which rounded up to tiles of {shown(entry)} is"
                f" over {MAX_EXTENT}: use a smaller tile"
            )
    counts = tuple(1 if n is None else -(-e // n) for e, n in zip(shape, tile, strict=True))
    grid = tuple(counts[_along(entry)] for entry in order)
    if segments is not None:
        _check_segments(segments, tile, is_prefix, order)
        assert tile[0] is not None, "just checked"
        grid = _most_pieces(shape[0], tile[0], segments.shape[0] - 1), *counts[1:]
    only = tile[0] if len(tile) == 1 else None
    return Tiling(tile, order, is_prefix, segments, grid, only)


def _check_segments(
    offsets: Tensor, tile: tuple[int | None, ...], is_prefix: bool, order: tuple[int, ...]
) -> None:
    """Offsets are a device tensor with one axis, and number the pieces by themselves."""
    dtype = getattr(offsets, "dtype", None)
    if dtype not in (i32, i64) or len(offsets.shape) != 1:
        got = shown(offsets)
        if isinstance(dtype, type) and issubclass(dtype, DType):
            got = f"{dtype.label} of shape {offsets.shape}"
        raise LaunchError(
            "segments= takes a tensor of i32 or i64 with one axis: where each segment begins,"
            f" and where the last one ends; got {got}"
        )
    if not tile or tile[0] is None:
        raise LaunchError(
            "segments= cut the first axis into rows that begin where the offsets say: give"
            " the number of rows of a piece, not None"
        )
    if is_prefix or order != tuple(range(len(tile))):
        raise LaunchError(
            "segments= number the pieces in their own order, each of which has a block: leave"
            " out order= and prefix="
        )


def _most_pieces(rows: int, height: int, segments: int) -> int:
    """The largest number of pieces, for any offsets of the segments.

    Pieces are disjoint: each row is in one piece at most, and each segment has one piece at most
    that is not full.
    """
    return min(rows, (rows + segments * (height - 1)) // height) if segments > 0 else 0


def check_tile(tile: tuple[Any, ...]) -> tuple[int | None, ...]:
    """The extents of a tile, each a positive integer or None, for any tensor."""
    return tuple(
        None if entry is None else check_positive(f"axis {axis} of the tile", entry)
        for axis, entry in enumerate(tile)
    )


def _check_order(order: Any, rank: int) -> tuple[int, ...]:
    """A permutation of the axes, some of them `~axis`; an empty order is the identity."""
    axes = tuple(range(rank))
    if isinstance(order, tuple) and not len(order):
        return axes
    if not isinstance(order, tuple) or any(isinstance(axis, bool) for axis in order):
        raise LaunchError(
            f"order={shown(order)} is no tuple with an axis for each axis of the grid"
        )
    try:
        checked = as_ints(order)
    except TypeError:
        checked = ()
    if tuple(sorted(map(_along, checked))) != axes:
        raise LaunchError(
            f"order={shown(order)} must name each axis once, 0 to {rank - 1}: order=(1, 0) swaps"
            " the axes of a matrix's grid, and (0, ~1) starts at the end of its rows"
        )
    return checked


def _along(entry: int) -> int:
    """The axis that an entry of an order names."""
    return ~entry if entry < 0 else entry


def check_truth(prefix: Any) -> bool:
    """Whether an output is cut as a prefix."""
    try:
        return bool(prefix)
    except Exception:  # noqa: BLE001 (of an object's own `__bool__`)
        raise LaunchError(f"prefix={shown(prefix)} is no truth value") from None


def check_positive(what: str, value: Any) -> int:
    """A positive integer that is no truth value."""
    checked = int_or(value, 0)
    if checked <= 0:
        raise LaunchError(f"{what} must be a positive integer, not {shown(value)}")
    return checked

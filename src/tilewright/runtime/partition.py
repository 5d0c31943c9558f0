"""Partitions: a tensor cut into tiles, so that each block of a kernel owns one piece.

A partition checks its tile when it is made and says how many tiles there are. It holds nothing and
launches nothing: a kernel called with it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from operator import index as as_index
from typing import Any, Protocol

from tilewright.dtypes import DType, i32, i64
from tilewright.errors import LaunchError
from tilewright.runtime.device import Device
from tilewright.runtime.indexing import MAX_EXTENT

__all__ = ["Cuttable", "Partition", "PersistentPartition", "check_tile"]


class Cuttable(Protocol):
    """What a partition needs to know of a tensor."""

    @property
    def dtype(self) -> type[DType]:
        """The type of its elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""

    @property
    def device(self) -> Device:
        """Where it lives."""


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A tensor cut into tiles of one shape; None in the tile leaves an axis whole.

    `order` says which axis of the tensor each axis of the grid runs along. Of a prefix there may
    be more tiles than blocks. `segments` are offsets of ragged rows along the first axis, each of
    which is cut by itself.
    """

    tensor: Cuttable
    tile: tuple[int | None, ...]
    order: tuple[int, ...] = ()  # empty: as they stand
    is_prefix: bool = False
    segments: Cuttable | None = None

    def __post_init__(self) -> None:
        shape = self.tensor.shape
        if len(self.tile) != len(shape):
            raise LaunchError(
                f"partition{self.tile} has {len(self.tile)} extents for a tensor of rank"
                f" {len(shape)}, shape {shape}: give one for each axis, None for a whole axis"
            )
        tile = check_tile(self.tile)
        object.__setattr__(self, "tile", tile)
        object.__setattr__(self, "order", _check_order(self.order, len(shape)))
        for axis, (extent, entry) in enumerate(zip(shape, tile, strict=True)):
            if entry is not None and -(-extent // entry) * entry > MAX_EXTENT:
                raise LaunchError(
                    f"axis {axis} has {extent} elements, which rounded up to tiles of {entry} is"
                    f" over {MAX_EXTENT}: use a smaller tile"
                )
        if self.segments is not None:
            self._check_segments(self.segments)

    def _check_segments(self, offsets: Cuttable) -> None:
        """Offsets are a device tensor with one axis, and number the pieces by themselves."""
        dtype = getattr(offsets, "dtype", None)
        if dtype not in (i32, i64) or len(offsets.shape) != 1:
            got = repr(offsets)
            if isinstance(dtype, type) and issubclass(dtype, DType):
                got = f"{dtype.label} of shape {offsets.shape}"
            raise LaunchError(
                "segments= takes a tensor of i32 or i64 with one axis: where each segment begins,"
                f" and where the last one ends; got {got}"
            )
        if not self.tile or self.tile[0] is None:
            raise LaunchError(
                "segments= cut the first axis into rows that begin where the offsets say: give"
                " the number of rows of a piece, not None"
            )
        if self.is_prefix or self.order != tuple(range(len(self.tile))):
            raise LaunchError(
                "segments= number the pieces in their own order, each of which has a block: leave"
                " out order= and prefix="
            )

    @property
    def grid(self) -> tuple[int, ...]:
        """Tiles along each axis of the grid."""
        shape, tile = self.tensor.shape, self.tile
        counts = (1 if n is None else -(-e // n) for e, n in zip(shape, tile, strict=True))
        along = tuple(counts)
        if self.segments is not None:
            return self._most_pieces(self.segments.shape[0] - 1), *along[1:]
        return tuple(along[axis] for axis in self.order)

    def _most_pieces(self, segments: int) -> int:
        """How many pieces the rows make at most, wherever the segments begin and end.

        They are disjoint: each row is in one of them at most, and each ends in one piece at most
        that is not full.
        """
        rows, height = self.tensor.shape[0], self.tile[0]
        assert height is not None, "checked on construction"
        return min(rows, (rows + segments * (height - 1)) // height) if segments > 0 else 0

    @property
    def device(self) -> Device:
        """Where the tensor lives."""
        return self.tensor.device

    def persistent(
        self, blocks: int | None = None, group: int | tuple[int, ...] = 1
    ) -> PersistentPartition:
        """Walk the tiles with at most `blocks` blocks (default: what fits the device at once).

        `group` is the shape of the super-tiles that are finished one after the other, (8, 1) say,
        so that neighbouring blocks share what they read; one number stands for the last two axes.
        """
        rank = len(self.tile)
        entries = group
        if not isinstance(entries, tuple):
            entries = (*(1 for _ in range(rank - 2)), *(entries for _ in range(min(rank, 2))))
        return PersistentPartition(self, blocks, entries)

    def __repr__(self) -> str:
        return f"<{self.tensor!r} in tiles of {self.tile}: grid {self.grid}>"


@dataclass(frozen=True, slots=True, eq=False)
class PersistentPartition:
    """A partition whose tiles are walked by fewer blocks than there are tiles."""

    partition: Partition
    max_blocks: int | None
    group: tuple[int, ...]

    def __post_init__(self) -> None:
        cut, rank = self.partition, len(self.partition.tile)
        if cut.is_prefix or cut.segments is not None or cut.order != tuple(range(rank)):
            raise LaunchError(
                "prefix=, order= and segments= number the blocks of a launch by the pieces of an "
                "output: a walk takes all tiles, in the order that group= gives"
            )
        if self.max_blocks is not None:
            object.__setattr__(self, "max_blocks", _check_positive("blocks", self.max_blocks))
        group = self.group
        if not isinstance(group, tuple):
            raise LaunchError(f"group={group!r} is no tuple with an extent for each axis")
        if len(group) != rank:
            raise LaunchError(f"group={group} has {len(group)} extents for a partition of {rank}")
        checked = (_check_positive("group", entry) for entry in group)
        # No axis has more tiles than that.
        object.__setattr__(self, "group", tuple(min(entry, MAX_EXTENT) for entry in checked))

    @property
    def tensor(self) -> Cuttable:
        """The tensor that is cut."""
        return self.partition.tensor

    @property
    def tile(self) -> tuple[int | None, ...]:
        """Shape of a tile."""
        return self.partition.tile

    @property
    def grid(self) -> tuple[int, ...]:
        """Tiles along each axis."""
        return self.partition.grid

    def blocks(self, fitting: int) -> int:
        """Blocks to launch where `fitting` run at once: never more than there are tiles."""
        return min(prod(self.grid), fitting if self.max_blocks is None else self.max_blocks)

    def __repr__(self) -> str:
        return f"<{self.partition!r}, persistent, group {self.group}>"


def check_tile(tile: tuple[Any, ...]) -> tuple[int | None, ...]:
    """The extents of a tile, each a positive integer or None, whatever the tensor."""
    return tuple(
        None if entry is None else _check_positive(f"axis {axis} of the tile", entry)
        for axis, entry in enumerate(tile)
    )


def _check_order(order: Any, rank: int) -> tuple[int, ...]:
    """A permutation of the axes; none given is that in which they stand."""
    axes = tuple(range(rank))
    if order == ():
        return axes
    if not isinstance(order, tuple) or any(isinstance(axis, bool) for axis in order):
        raise LaunchError(f"order={order!r} is no tuple with an axis for each axis of the grid")
    try:
        checked = tuple(as_index(axis) for axis in order)
    except TypeError:
        checked = ()
    if tuple(sorted(checked)) != axes:
        raise LaunchError(
            f"order={order!r} must name each axis once, 0 to {rank - 1}: order=(1, 0) swaps the "
            "axes of a matrix's grid"
        )
    return checked


def _check_positive(what: str, value: Any) -> int:
    try:
        checked = as_index(value)
    except TypeError:
        checked = 0
    if checked <= 0 or isinstance(value, bool):
        raise LaunchError(f"{what} must be a positive integer, not {value!r}")
    return checked

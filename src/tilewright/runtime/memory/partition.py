"""Partitions: a tensor cut into tiles, so that each block of a kernel owns one piece.

A partition checks its tile when it is made and knows the number of tiles. It holds no borrow and
launches nothing. A loop of launches cuts its output the same way every time: a handle keeps its
last tiling, and its spec keeps the last tiling of all handles alike, so a call with the same tile
alone only makes a partition; binding arguments to named parameters would take longer than that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.errors import LaunchError
from tilewright.given import shown
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.layout import MAX_EXTENT
from tilewright.runtime.memory.layout_templates import TensorSpec
from tilewright.runtime.memory.tilings import (
    PLAIN_TILINGS,
    Tiling,
    check_positive,
    check_truth,
    find_tiling,
)

if TYPE_CHECKING:
    from tilewright.runtime.memory.tensor import Tensor

__all__ = [
    "Cuttings",
    "HostPartition",
    "PersistentPartition",
    "TensorMaker",
    "tensor_maker",
]


class TensorMaker:
    """Makes a tensor of a tensor or an array, and None of another object; set by `imports`."""

    make: Callable[[Any], Any]


# Used by `op.partition(…)` and `partition.tensor`.
tensor_maker = TensorMaker()


class HostPartition:
    """A tensor cut into tiles of one shape; made by `tensor.partition(…)`.

    One is made for every launch, so it has only the tensor and its tiling, which are set from
    outside: that takes half the time of a call of `__init__`.
    """

    __slots__ = ("_array", "_tensor", "_tiling")

    _tensor: Tensor
    _tiling: Tiling
    # The torch tensor that was cut, if any: then `_tensor` is its wrapper, which keeps no tensor.
    _array: Any

    @property
    def tensor(self) -> Tensor:
        """The tensor that is cut."""
        if self._array is None:
            return self._tensor
        made: Tensor = tensor_maker.make(self._array)
        return made

    @property
    def tiling(self) -> Tiling:
        """The tiling of the tensor."""
        return self._tiling

    @property
    def tile(self) -> tuple[int | None, ...]:
        """Shape of a tile; None is a whole axis."""
        return self._tiling.tile

    @property
    def order(self) -> tuple[int, ...]:
        """For each axis of the grid, the axis of the tensor that it runs along."""
        return self._tiling.order

    @property
    def is_prefix(self) -> bool:
        """Whether there may be more tiles than blocks."""
        return self._tiling.is_prefix

    @property
    def segments(self) -> Tensor | None:
        """Offsets of ragged rows along the first axis, each of which is cut by itself."""
        return self._tiling.segments

    @property
    def grid(self) -> tuple[int, ...]:
        """Tiles along each axis of the grid."""
        return self._tiling.grid

    @property
    def device(self) -> Device:
        """The device of the tensor."""
        return self._tensor.device

    def persistent(
        self, blocks: int | None = None, group: int | tuple[int, ...] | None = None
    ) -> PersistentPartition:
        """Walk the tiles with at most `blocks` blocks.

        The default is the number of blocks that the device runs at once, with the kernel's
        `occupancy` and `num_ctas`.

        `group` is the shape of the super-tiles that are finished one after the other, (8, 1) say,
        so that neighbouring blocks share the tiles they read; one number stands for the last two
        axes, and None leaves the choice to the compiler. A partition with an `order=` is walked in
        it; if that has the last tiles of an axis first, blocks take tiles from both ends in turns,
        so that each gets long and short ones.
        """
        rank = len(self.tile)
        entries = group
        if entries is not None and not isinstance(entries, tuple):
            entries = (*(1 for _ in range(rank - 2)), *(entries for _ in range(min(rank, 2))))
        return PersistentPartition(self, blocks, entries)

    def __repr__(self) -> str:
        return f"<{self.tensor!r} in tiles of {self.tile}: grid {self.grid}>"


@dataclass(frozen=True, slots=True, eq=False)
class PersistentPartition:
    """A partition whose tiles are walked by fewer blocks than there are tiles."""

    partition: HostPartition
    max_blocks: int | None
    group: tuple[int, ...] | None  # None: the compiler chooses it

    def __post_init__(self) -> None:
        cut, rank = self.partition, len(self.partition.tile)
        if cut.is_prefix or cut.segments is not None:
            raise LaunchError(
                "prefix= and segments= number the blocks of a launch by the pieces of an output: a "
                "walk takes all tiles, in the order that group= or order= gives"
            )
        if self.max_blocks is not None:
            object.__setattr__(self, "max_blocks", check_positive("blocks", self.max_blocks))
        group = self.group
        if group is None:
            return
        if not isinstance(group, tuple):
            raise LaunchError(f"group={shown(group)} is no tuple with an extent for each axis")
        if len(group) != rank:
            raise LaunchError(
                f"group={shown(group)} has {len(group)} extents for a partition of {rank}"
            )
        group = tuple([check_positive("group", entry) for entry in group])
        if cut.order != tuple(range(rank)) and any(entry != 1 for entry in group):
            raise LaunchError(
                f"order={cut.order} and group={group} both say which tiles come first: give one"
            )
        # The number of tiles of an axis is bounded by this.
        object.__setattr__(self, "group", tuple(min(entry, MAX_EXTENT) for entry in group))

    @property
    def tensor(self) -> Tensor:
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
        """Blocks to launch if `fitting` run at once: at most one per tile."""
        return min(prod(self.grid), fitting if self.max_blocks is None else self.max_blocks)

    def __repr__(self) -> str:
        group = "" if self.group is None else f", group {self.group}"
        return f"<{self.partition!r}, persistent{group}>"


class Cuttings:
    """Base of handles: their cutting into tiles."""

    __slots__ = ("_tiling",)

    shape: tuple[int, ...]
    spec: TensorSpec
    _tiling: Tiling | None  # its last tiling, if its axes were cut in order

    def partition(
        self,
        *tile: int | None,
        order: tuple[int, ...] = (),
        prefix: bool = False,
        segments: Tensor | None = None,
    ) -> HostPartition:
        """Cut into tiles, for an output of a kernel. None leaves an axis whole.

        `order` permutes the grid: its axis `a` runs along axis `order[a]` of the tensor, the last
        one fastest; `~a` starts the blocks of the last tiles first. With `prefix=True` a launch may
        have fewer blocks than there are tiles; the tiles beyond them are left unwritten.

        `segments` holds offsets along the first axis, i32 or i64: segment `s` begins at the largest
        of the offsets up to `offsets[s]`, ends at `offsets[s + 1]`, and is cut into pieces by
        itself. For any offsets, no element is in two pieces and none outside the tensor.
        """
        return _cut(self, find_tiling(self.shape, tile, order, check_truth(prefix), segments))


_set_tiling = Cuttings.__dict__["_tiling"].__set__  # a handle is sealed
_set_usual = TensorSpec.__dict__["tiling"].__set__


def _find_plain(tensor: Any, tile: tuple[Any, ...]) -> Tiling | None:
    """The tiling of an earlier cut with the same shape and tile."""
    for entry in tile:
        if type(entry) is not int and entry is not None:
            return None  # True and 1.0 are equal to 1
    found: Tiling | None = tensor._tiling  # noqa: SLF001
    if found is None or found.tile != tile:
        found = PLAIN_TILINGS.get((tensor.shape, tile))
        _set_tiling(tensor, found)
        _set_usual(tensor.spec, found)
    return found


def _look_for(tensor: Any, tile: tuple[Any, ...]) -> Tiling:
    """The tiling with the axes in order and a block for each tile; refuses an invalid tile."""
    return _find_plain(tensor, tile) or find_tiling(tensor.shape, tile, (), False, None)


def _cut(tensor: Any, tiling: Tiling) -> HostPartition:
    cut = HostPartition()
    cut._tensor, cut._tiling, cut._array = tensor, tiling, None  # noqa: SLF001
    return cut


def _cut_alike(self: Any, *tile: Any, **how: Any) -> HostPartition:
    if how:
        return _cut_anyhow(self, *tile, **how)
    tiling = self._tiling or self.spec.tiling
    if not (
        tiling
        and tiling.only
        and len(tile) == 1
        and type(tile[0]) is int
        and tile[0] == tiling.only
    ):
        tiling = _look_for(self, tile)
    cut = HostPartition()  # as `_cut` does, without a call
    cut._tensor, cut._tiling, cut._array = self, tiling, None  # noqa: SLF001
    return cut


_cut_anyhow = Cuttings.partition
if not TYPE_CHECKING:
    Cuttings.partition = update_wrapper(_cut_alike, Cuttings.partition)

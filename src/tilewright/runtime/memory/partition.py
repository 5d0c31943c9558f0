"""Partitions: a tensor cut into tiles, so that each block of a kernel owns one piece.

A partition checks its tile when it is made and knows the number of tiles. It holds no borrow and
launches nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from tilewright.errors import LaunchError
from tilewright.given import shown
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.layout import MAX_EXTENT
from tilewright.runtime.memory.tilings import Tiling, check_positive

if TYPE_CHECKING:
    from tilewright.runtime.memory.tensor import Tensor

__all__ = ["HostPartition", "PersistentPartition", "TensorMaker", "tensor_maker"]


class TensorMaker:
    """Makes a tensor of a tensor or an array, and None of another object; set by `imports`."""

    def __init__(self) -> None:
        self.make: Callable[[Any], Any] = self._missing

    def _missing(self, array: Any) -> NoReturn:
        raise AssertionError("tilewright.runtime.interop.imports has not been imported")


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
        self, blocks: int | None = None, group: int | tuple[int, ...] = 1
    ) -> PersistentPartition:
        """Walk the tiles with at most `blocks` blocks.

        The default is the number of blocks that the device runs at once, with the kernel's
        `occupancy` and `num_ctas`.

        `group` is the shape of the super-tiles that are finished one after the other, (8, 1) say,
        so that neighbouring blocks share the tiles they read; one number stands for the last two
        axes. A partition with an `order=` is walked in it; if that has the last tiles of an axis
        first, blocks take tiles from both ends in turns, so that each gets long and short ones.
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

    partition: HostPartition
    max_blocks: int | None
    group: tuple[int, ...]

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
        return f"<{self.partition!r}, persistent, group {self.group}>"

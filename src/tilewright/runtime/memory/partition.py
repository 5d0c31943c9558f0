"""Partitions: a tensor cut into tiles, so that each block of a kernel owns one piece.

A partition checks its tile when it is made and knows the number of tiles. It holds no borrow and
launches nothing. Its tiling, a shape cut into tiles, refers to no tensor, so it is cached: plans
are found by the tiling of their outputs. A tiling with segments refers to their offsets, and is not
shared.

A loop of launches cuts its output the same way every time: a handle keeps its last tiling, and its
spec keeps the last tiling of all handles alike, so a call with the same tile alone only makes a
partition; binding arguments to named parameters would take longer than that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import DType, i32, i64
from tilewright.errors import LaunchError
from tilewright.given import as_ints, int_or, shown
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.layout import MAX_EXTENT
from tilewright.runtime.memory.layout_templates import TensorSpec

if TYPE_CHECKING:
    from tilewright.runtime.memory.tensor import Tensor

__all__ = [
    "Cuttings",
    "HostPartition",
    "PersistentPartition",
    "Tiling",
    "check_tile",
    "find_tiling",
    "tensor_maker",
]


# --- tilings --------------------------------------------------------------------------------------


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
_plain_tilings: dict[tuple[tuple[int, ...], tuple[int | None, ...]], Tiling] = {}
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
            _plain_tilings.clear()
        made = _tilings.setdefault(key, made)
        if not is_prefix and axes == tuple(range(len(shape))):
            _plain_tilings[shape, checked] = made
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
        None if entry is None else _check_positive(f"axis {axis} of the tile", entry)
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


def _check_truth(prefix: Any) -> bool:
    """Whether an output is cut as a prefix."""
    try:
        return bool(prefix)
    except Exception:  # noqa: BLE001 (of an object's own `__bool__`)
        raise LaunchError(f"prefix={shown(prefix)} is no truth value") from None


def _check_positive(what: str, value: Any) -> int:
    """A positive integer that is no truth value."""
    checked = int_or(value, 0)
    if checked <= 0:
        raise LaunchError(f"{what} must be a positive integer, not {shown(value)}")
    return checked


# --- partitions -----------------------------------------------------------------------------------


class _TensorMaker:
    """Makes a tensor of a tensor or an array, and None of another object; set by `imports`."""

    make: Callable[[Any], Any]


# Used by `op.partition(…)` and `partition.tensor`.
tensor_maker = _TensorMaker()


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
            object.__setattr__(self, "max_blocks", _check_positive("blocks", self.max_blocks))
        group = self.group
        if group is None:
            return
        if not isinstance(group, tuple):
            raise LaunchError(f"group={shown(group)} is no tuple with an extent for each axis")
        if len(group) != rank:
            raise LaunchError(
                f"group={shown(group)} has {len(group)} extents for a partition of {rank}"
            )
        group = tuple([_check_positive("group", entry) for entry in group])
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
        return _cut(self, find_tiling(self.shape, tile, order, _check_truth(prefix), segments))


_set_tiling = Cuttings.__dict__["_tiling"].__set__  # a handle is sealed
_set_usual = TensorSpec.__dict__["tiling"].__set__


def _find_plain(tensor: Any, tile: tuple[Any, ...]) -> Tiling | None:
    """The tiling of an earlier cut with the same shape and tile."""
    for entry in tile:
        if type(entry) is not int and entry is not None:
            return None  # True and 1.0 are equal to 1
    found: Tiling | None = tensor._tiling  # noqa: SLF001
    if found is None or found.tile != tile:
        found = _plain_tilings.get((tensor.shape, tile))
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

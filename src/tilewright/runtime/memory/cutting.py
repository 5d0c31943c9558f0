"""Cutting a handle into tiles.

A loop of launches cuts its output the same way every time. A handle keeps its last tiling, and its
spec keeps the last tiling of all handles alike, so a call with the same tile alone only makes a
partition; binding arguments to named parameters would take longer than that.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from tilewright.runtime.memory.layout_templates import TensorSpec
from tilewright.runtime.memory.partition import HostPartition
from tilewright.runtime.memory.tilings import PLAIN_TILINGS, Tiling, check_truth, find_tiling
from tilewright.runtime.text_functions import define

if TYPE_CHECKING:
    from tilewright.runtime.memory.tensor import Tensor

__all__ = ["CUT", "CUTTING", "Cuttings"]


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
    cut._tensor = tensor  # noqa: SLF001
    cut._tiling = tiling  # noqa: SLF001
    cut._array = None  # noqa: SLF001
    return cut


# Python text for functions that cut in every launch: a partition by the tile alone.
CUT = """
        tiling = {tensor}._tiling or {tensor}.spec.tiling
        if not (
            tiling
            and tiling.only
            and _len(tile) == 1
            and _type(tile[0]) is _int
            and tile[0] == tiling.only
        ):
            tiling = _look_for({tensor}, tile)
        cut = _HostPartition()
        cut._tensor = {tensor}  # a call of `__init__` takes twice as long
        cut._tiling = tiling
        cut._array = None"""
# Names used in that text.
CUTTING: dict[str, Any] = {
    "_HostPartition": HostPartition,
    "_int": int,
    "_len": len,
    "_look_for": _look_for,
    "_type": type,
}
_METHOD = """def partition(self, *tile, **how):
    if not how:{cut}
        return cut
    return _anyhow(self, *tile, **how)
"""

if not TYPE_CHECKING:
    _names = CUTTING | {"_anyhow": Cuttings.partition}
    _text = _METHOD.format(cut=CUT.format(tensor="self"))
    _made = define(_text, "how a tensor is cut", _names)["partition"]
    Cuttings.partition = update_wrapper(_made, Cuttings.partition)

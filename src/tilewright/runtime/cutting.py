"""How a handle is cut into tiles.

A loop that launches cuts its output in the same way every time. So a handle has the tiling that it
was cut by last, and for a new one the facet has that of those like it; a call that says no more
than the tile again makes a partition and nothing else: to match a call to parameters with names
takes longer than that.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from tilewright.runtime.facets import Facet
from tilewright.runtime.partition import Partition
from tilewright.runtime.tilings import PLAIN_TILINGS, Tiling, find_tiling

if TYPE_CHECKING:
    from tilewright.runtime.tensor import Tensor

__all__ = ["Cuttings"]


class Cuttings:
    """Base of handles: what cuts them."""

    __slots__ = ("_tiling",)

    shape: tuple[int, ...]
    facet: Facet
    _tiling: Tiling | None  # how it was cut last, if its axes were cut in order

    def partition(
        self,
        *tile: int | None,
        order: tuple[int, ...] = (),
        prefix: bool = False,
        segments: Tensor | None = None,
    ) -> Partition:
        """Cut into tiles, for an output of a kernel. None leaves an axis whole.

        `order` permutes the grid: its axis `a` runs along axis `order[a]` of the tensor, the last
        one fastest; `~a` in it has the blocks of the last tiles start first. With `prefix=True` a
        launch may have fewer blocks than there are tiles; the tiles beyond them are left.

        `segments` holds offsets along the first axis, i32 or i64: segment `s` begins behind
        everything up to `offsets[s]` and ends at `offsets[s + 1]`, and is cut into pieces by
        itself. Whatever it holds, no element is in two pieces and none outside the tensor.
        """
        return _cut(self, find_tiling(self.shape, tile, order, bool(prefix), segments))

    def _find_plain(self, tile: tuple[Any, ...]) -> Tiling | None:
        """How some handle was cut before, with the axes in order and a block for each tile."""
        for entry in tile:
            if type(entry) is not int and entry is not None:
                return None  # True and 1.0 are equal to 1
        found = self._tiling
        if found is None or found.tile != tile:
            found = PLAIN_TILINGS.get((self.shape, tile))
            _set_tiling(self, found)
            _set_usual(self.facet, found)
        return found

    if not TYPE_CHECKING:
        _partition_anyhow = partition

        def partition(self, *tile: int | None, **how: Any) -> Partition:
            tiling = self._tiling or self.facet.tiling
            if how or not (tiling and tiling.only and tile == tiling.tile and type(tile[0]) is int):
                tiling = None if how else self._find_plain(tile)
                if tiling is None:
                    return self._partition_anyhow(*tile, **how)
            cut = Partition()
            cut._tensor = self  # noqa: SLF001 (a call of `__init__` takes twice as long)
            cut._tiling = tiling  # noqa: SLF001
            return cut

        update_wrapper(partition, _partition_anyhow)


_set_tiling = Cuttings.__dict__["_tiling"].__set__  # a handle is sealed
_set_usual = Facet.__dict__["tiling"].__set__


def _cut(tensor: Any, tiling: Tiling) -> Partition:
    cut = Partition()
    cut._tensor = tensor  # noqa: SLF001
    cut._tiling = tiling  # noqa: SLF001
    return cut

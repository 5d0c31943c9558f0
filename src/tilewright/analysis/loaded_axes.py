"""Axes of tensors that loads read up to their end, where tiles and windows are padded.

An index that may be the last one is that of a block, of a walk, of a loop over all tiles, or a
constant. Any other may leave out the last tile on purpose, and nothing is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tilewright.analysis.padding_facts import CutAxis
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.launch_terms import Extent, LaunchTerm, TileCount
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.control import For
from tilewright.ir.ops.elementwise import AddI, AndI, CmpI, MulI
from tilewright.ir.ops.families import Conversion
from tilewright.ir.ops.internal import BlockIndex, BoundsCheck, CeilDiv, LaunchValue, Walk
from tilewright.ir.ops.memory import LoadPtr, LoadView
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Reshape
from tilewright.ir.rewrite import Definition
from tilewright.ir.types import PartitionViewType, StridedViewType, TileType

__all__ = ["LoadedAxes"]


class LoadedAxes:
    """The axes that the loads of one function read along."""

    def __init__(self, made: Mapping[Value, Definition]) -> None:
        self._made = made

    def of(self, op: LoadView, axis: int) -> CutAxis | None:
        """The axis of the tensor, if the load may reach its end.

        The check of the index names the axis by the dim that the signature ties it to; fixed
        extents have no padding that the author does not see.
        """
        check, type_ = self._made_by(op.index[axis]), op.view.type
        assert isinstance(type_, PartitionViewType | StridedViewType)
        count = self._made_by(check.count) if isinstance(check, BoundsCheck) else None
        if not isinstance(check, BoundsCheck) or not isinstance(count, LaunchValue):
            return None
        tile = type_.tile[axis]
        step = type_.traversal_strides[axis] if isinstance(type_, StridedViewType) else tile
        term = count.term
        if not isinstance(term, TileCount) or term.tile != step:
            return None
        extent = Extent(term.param, term.axis)
        place, visited = self.constant_index(op, axis), self._visited(check.index, term)
        if step == tile:
            is_reached = place is not None or visited is not None
            return CutAxis(extent, tile) if is_reached else None
        if place == 0:
            return CutAxis(extent, tile, step)
        return None if visited is None else CutAxis(extent, tile, step, visited)

    def constant_index(self, op: LoadView, axis: int) -> int | None:
        """The index along an axis, if it is a number."""
        check = self._made_by(op.index[axis])
        index = self._made_by(check.index) if isinstance(check, BoundsCheck) else None
        return int(index.value) if isinstance(index, Constant) else None

    def gathered(self, op: LoadPtr) -> Iterator[tuple[int, CutAxis]]:
        """The axes of a gather of neighbours, `i*B + arange(B)`, each with that of its tile.

        A mask of the author's says which elements count: such a gather has none.
        """
        shape = _shape(op.result)
        conditions = [] if op.mask is None else [*self._conjuncts(op.mask)]
        compared = [self._compared(one) for one in conditions]
        for found in compared if None not in compared else ():
            assert found is not None
            index, extent = found
            wide = [axis for axis, size in enumerate(_shape(index)) if size > 1]
            cut = self._neighbours(index, extent) if len(wide) == 1 else None
            if cut is not None:
                yield wide[0] + len(shape) - len(_shape(index)), cut

    def _conjuncts(self, mask: Value) -> Iterator[Value]:
        value = self._source(mask)
        made = self._made_by(value)
        if isinstance(made, AndI):
            yield from self._conjuncts(made.lhs)
            yield from self._conjuncts(made.rhs)
        else:
            yield value

    def _compared(self, condition: Value) -> tuple[Value, Extent] | None:
        """The index and the extent that a gather compares."""
        made = self._made_by(condition)
        if not isinstance(made, CmpI) or made.signedness is not Signedness.UNSIGNED:
            return None
        limit = self._made_by(self._source(made.rhs))
        is_extent = isinstance(limit, LaunchValue) and isinstance(limit.term, Extent)
        if not is_extent or made.comparison_predicate is not Predicate.LESS_THAN:
            return None
        assert isinstance(limit, LaunchValue)
        assert isinstance(limit.term, Extent)
        return made.lhs, limit.term

    def _neighbours(self, index: Value, extent: Extent) -> CutAxis | None:
        made = self._made_by(self._source(index))
        if not isinstance(made, AddI):
            return None
        sides = [self._made_by(self._source(side)) for side in (made.lhs, made.rhs)]
        lanes = next((side for side in sides if isinstance(side, Iota)), None)
        place = next((side for side in sides if isinstance(side, MulI)), None)
        if lanes is None or place is None:
            return None
        tile = math.prod(_shape(lanes.result))
        factor = self._made_by(self._source(place.rhs))
        if not isinstance(factor, Constant) or factor.value != tile:
            return None
        tiles = TileCount(extent.param, extent.axis, tile)
        visited = self._visited(self._source(place.lhs), tiles)
        return None if visited is None else CutAxis(extent, tile, tile, visited)

    def _source(self, value: Value) -> Value:
        """The value before it was reshaped, spread or converted."""
        made = self._made_by(value)
        while isinstance(made, Reshape | Broadcast | Conversion):
            value = made.source
            made = self._made_by(value)
        return value

    def _made_by(self, value: Value) -> Op | None:
        definition = self._made.get(value)
        return None if definition is None or definition.is_argument else definition.op

    def _visited(self, index: Value, tiles: TileCount) -> LaunchTerm | None:
        """The number of indices, if the index takes all of them from zero on."""
        definition = self._made.get(index)
        if definition is None:
            return None
        op, position = definition.op, definition.position
        if isinstance(op, BlockIndex) and not definition.is_argument:
            return self._term(op.counts[position], tiles)
        if not definition.is_argument:
            return None
        if isinstance(op, Walk):
            return self._term(op.counts[position], tiles) if position < len(op.counts) else None
        return tiles if isinstance(op, For) and not position and self._ends_at(op, tiles) else None

    def _term(self, count: Value, tiles: TileCount) -> LaunchTerm:
        """The launch term of a count; the tiles themselves where it is none."""
        made = self._made_by(count)
        return made.term if isinstance(made, LaunchValue) else tiles

    def _ends_at(self, loop: For, tiles: TileCount) -> bool:
        end = self._made_by(loop.upper_bound)
        if isinstance(end, CeilDiv):
            tile, extent = self._made_by(end.rhs), self._made_by(end.lhs)
            is_tile = isinstance(tile, Constant) and tile.value == tiles.tile
            wanted = Extent(tiles.param, tiles.axis)
            return is_tile and isinstance(extent, LaunchValue) and extent.term == wanted
        return isinstance(end, LaunchValue) and end.term == tiles


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, TileType)
    return value.type.shape

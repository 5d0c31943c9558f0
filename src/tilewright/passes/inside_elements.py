"""Masks of the elements of a tile that lie inside the tensor it was loaded from.

Padding is no data: a check of the elements must not report it. The mask is computed at the
builder's insertion point, from the load's own index and the extents of its tensor. Tiles are traced
back through conversions, reshapes and broadcasts; other ops end the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.dtypes import Element
from tilewright.ir.attributes import Predicate
from tilewright.ir.builder import Builder
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.families import Conversion
from tilewright.ir.ops.internal import ReadAs
from tilewright.ir.ops.memory import LoadView, MakePartitionView, MakeTensorView
from tilewright.ir.ops.shape import Broadcast, Iota, Reshape
from tilewright.ir.rewrite import Definition, with_parts
from tilewright.ir.types import PartitionViewType, TileType
from tilewright.passes.integer_ops import Integers

__all__ = ["InsideElements"]


class InsideElements:
    """Masks for the values of one function; `new` maps a value to its replacement."""

    def __init__(
        self,
        found: Mapping[Value, Definition],
        builder: Builder,
        new: Callable[[Value], Value],
    ) -> None:
        self._found = found
        self._builder = builder
        self._new = new

    def of(self, tile: Value) -> Value | None:
        """A mask of the elements inside; None if there is no padding, or it is not known."""
        op = self._made_by(tile)
        if isinstance(op, (Conversion, ReadAs)):
            return self.of(op.source)
        if isinstance(op, (Reshape, Broadcast)):
            inside = self.of(op.source)
            if inside is None:
                return None
            to = op.to.with_element(Element.I1)
            return self._builder.add(with_parts(op, source=inside, to=to)).result
        return self._of_load(op) if isinstance(op, LoadView) else None

    def _made_by(self, value: Value) -> Op | None:
        definition = self._found.get(value)
        return None if definition is None or definition.is_argument else definition.op

    def _of_load(self, op: LoadView) -> Value | None:
        cut, type_ = self._made_by(op.view), op.view.type
        tensor = self._made_by(cut.tensor_view) if isinstance(cut, MakePartitionView) else None
        if not isinstance(type_, PartitionViewType) or not isinstance(tensor, MakeTensorView):
            return None
        emit = Integers(self._builder)
        inside: Value | None = None
        for axis, index in enumerate(op.index):
            extent = self._extent(tensor, type_.dim_map[axis], type_.tile[axis])
            if extent is not None:
                before = self._before(type_.tile, axis, self._new(index), extent)
                inside = before if inside is None else emit.both(inside, before)
        return inside

    def _extent(self, tensor: MakeTensorView, axis: int, tile: int) -> Value | None:
        """The extent of an axis; None if tiles are known to divide it."""
        shape = tensor.to.shape
        fixed = shape[axis]
        if fixed is None:
            place = sum(extent is None for extent in shape[:axis])
            return self._new(tensor.dynamic_shape[place])
        return self._builder.index(fixed) if fixed % tile else None

    def _before(self, tile: tuple[int, ...], axis: int, index: Value, extent: Value) -> Value:
        """A mask of the elements before the end of an axis.

        Extents rounded up to the tile fit in 32 bits, and so does the position of an element.
        """
        emit = Integers(self._builder)
        left = emit.subtract(extent, emit.multiply(index, tile[axis]))
        line = TileType(Element.I32, (tile[axis],))
        places = self._builder.add(Iota(to=line)).result
        ends = self._spread(left, line)
        before = emit.compare(places, Predicate.LESS_THAN, ends)
        shape = tuple(extent if a == axis else 1 for a, extent in enumerate(tile))
        aligned = Reshape(source=before, to=TileType(Element.I1, shape))
        return self._spread(self._builder.add(aligned).result, TileType(Element.I1, tile))

    def _spread(self, value: Value, to: TileType) -> Value:
        assert isinstance(value.type, TileType)
        if value.type.rank < to.rank:
            ones = Reshape(source=value, to=to.with_shape((1,) * to.rank))
            value = self._builder.add(ones).result
        return self._builder.add(Broadcast(source=value, to=to)).result

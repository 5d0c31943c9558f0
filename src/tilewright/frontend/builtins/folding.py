"""Reductions and scans with any combination of scalars: the region and its op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.dtypes import DType
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import TileOperand
from tilewright.ir.attributes import FloatIdentity, IntIdentity
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.reduction import Reduce, Scan
from tilewright.ir.types import scalar

__all__ = ["Combine", "Fold", "Scalars"]

# One scalar, or one tile, for each combined tile.
Scalars = tuple[TileOperand, ...]
# From the combination so far and the next elements, one scalar for each tile, to the new one.
Combine = Callable[[Scalars, Scalars], Sequence[TileOperand]]


class Fold:
    """One combination with its identities, for a reduction or a scan along an axis."""

    def __init__(self, lo: Lowering, combine: Combine, identities: Sequence[float]) -> None:
        self._lo = lo
        self._combine = combine
        self._numbers = tuple(identities)

    def reduced(self, tiles: Scalars, axis: int) -> Scalars:
        """The tiles reduced along an axis."""
        op = Reduce(
            sources=tuple(tile.value for tile in tiles),
            dim=axis,
            identities=self._identities(tiles),
            body=self._body(tiles, Reduce.TOTALS_FIRST),
        )
        return _results(self._lo.builder.add(op).totals, tiles)

    def scanned(self, tiles: Scalars, axis: int, *, reverse: bool) -> Scalars:
        """The tiles scanned along an axis: every element combined with all before it."""
        op = Scan(
            sources=tuple(tile.value for tile in tiles),
            dim=axis,
            reverse=reverse,
            identities=self._identities(tiles),
            body=self._body(tiles, Scan.TOTALS_FIRST),
        )
        return _results(self._lo.builder.add(op).totals, tiles)

    def _identities(self, tiles: Scalars) -> tuple[FloatIdentity | IntIdentity, ...]:
        pairs = zip(tiles, self._numbers, strict=True)
        return tuple(_identity(tile.dtype, number) for tile, number in pairs)

    def _body(self, tiles: Scalars, totals_first: bool) -> Block:
        """The region of the combination; Tile IR passes each next element with its accumulator."""
        pairs = [(_scalar(tile.dtype), _scalar(tile.dtype)) for tile in tiles]
        with self._lo.builder.inside(
            Block(tuple(operand.value for pair in pairs for operand in pair))
        ) as body:
            firsts, seconds = zip(*pairs, strict=True)
            before, elements = (firsts, seconds) if totals_first else (seconds, firsts)
            combined = self._combine(before, elements)
            self._lo.builder.add(Yield(values=tuple(operand.value for operand in combined)))
        return body


def _scalar(dtype: type[DType]) -> TileOperand:
    return TileOperand(Value(scalar(dtype.element), dtype), dtype)


def _results(values: Sequence[Value], tiles: Scalars) -> Scalars:
    for value, tile in zip(values, tiles, strict=True):
        value.dtype = tile.dtype
    return tuple(TileOperand(v, t.dtype) for v, t in zip(values, tiles, strict=True))


def _identity(dtype: type[DType], number: float) -> FloatIdentity | IntIdentity:
    element = dtype.element
    if element.is_float:
        return FloatIdentity(element, float(number))
    return IntIdentity(element, int(number) & ((1 << element.bits) - 1))

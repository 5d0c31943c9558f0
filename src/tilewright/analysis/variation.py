"""Axes along which the elements of tiles differ, by their positions or by other values.

A mask of positions, `tw.arange(8) < n`, differs along its axis by position alone. Forward, one op
at a time; an op that is not followed has elements that differ along every axis, not by position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

from tilewright.dtypes import Element
from tilewright.ir.op import Effect, Op, Value
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Permute, Reshape
from tilewright.ir.types import TileType

__all__ = ["Variation", "Varying", "outer_axes", "shape_of", "spread_axes"]


@dataclass(frozen=True)
class Varying:
    """The axes along which elements differ, and those where a position makes them differ."""

    axes: frozenset[int] = frozenset()
    placed: frozenset[int] = frozenset()
    is_read: bool = False  # depends on memory


_ALIKE = Varying()


class Variation:
    """The axes of every tile that has been visited."""

    def __init__(self) -> None:
        self._found: dict[Value, Varying] = {}

    def of(self, value: Value) -> Varying:
        """The axes of a tile; of one that is not followed, all of more than one element.

        Of the arguments and results of loops, whole numbers are counters, and others are read.
        """
        found = self._found.get(value)
        if found is not None or not isinstance(value.type, TileType):
            return found or _ALIKE
        element = value.type.element
        is_count = isinstance(element, Element) and element.is_integer and not value.type.shape
        return Varying(_wide(value), is_read=not is_count)

    def visit(self, op: Op) -> None:
        """Enter the results of an op without regions."""
        for value in op.results:
            if isinstance(value.type, TileType):
                self._found[value] = self._varying(op, value)

    def _varying(self, op: Op, value: Value) -> Varying:
        if isinstance(op, Iota):
            return Varying(_wide(value), _wide(value))
        if isinstance(op, Constant):
            return _ALIKE if isinstance(op.value, int | float) else Varying(_wide(value))
        if isinstance(op, Broadcast):
            return self.of(op.source)
        if isinstance(op, Reshape):
            moves = spread_axes(shape_of(op.source), shape_of(op.result))
            return _moved(self.of(op.source), lambda axis: moves.get(axis, ()))
        if isinstance(op, Permute):
            return _moved(self.of(op.source), lambda axis: (op.permutation.index(axis),))
        shapes = {shape_of(each) for each in op.operands if isinstance(each.type, TileType)}
        given = [self.of(each) for each in op.operands]
        is_read = op.effect is Effect.READ or any(one.is_read for one in given)
        if op.effect is not Effect.NONE or op.regions or shapes - {shape_of(value)}:
            return Varying(_wide(value), is_read=is_read)
        return Varying(
            frozenset(chain.from_iterable(one.axes for one in given)),
            frozenset(chain.from_iterable(one.placed for one in given)),
            is_read,
        )


def _moved(varying: Varying, axes_of: Callable[[int], Iterable[int]]) -> Varying:
    axes, placed = (
        frozenset(chain.from_iterable(map(axes_of, each)))
        for each in (varying.axes, varying.placed)
    )
    return Varying(axes, placed, varying.is_read)


def spread_axes(before: tuple[int, ...], after: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """The axes of a reshaped tile that the elements along each of the old axes come to lie along.

    Axes are grouped where both shapes have the same number of elements before them; axes of one
    element have none.
    """
    found: dict[int, tuple[int, ...]] = {}
    old, new = _ends(before), _ends(after)
    for axis, (low, high) in old.items():
        found[axis] = tuple(n for n, (start, end) in new.items() if start < high and low < end)
    return found


def outer_axes(before: tuple[int, ...], after: tuple[int, ...]) -> frozenset[int]:
    """The old axes whose elements stay in order: each new axis has theirs on its outer side."""
    old, new = _ends(before), _ends(after)
    moves = spread_axes(before, after)
    return frozenset(
        axis for axis in old if all(new[one][1] <= old[axis][1] for one in moves[axis])
    )


def _ends(shape: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    """The places of each wide axis among the factors of two of a tile, from the inner end."""
    ends, low = {}, 0
    for axis in reversed(range(len(shape))):
        high = low + shape[axis].bit_length() - 1
        if high > low:
            ends[axis] = (low, high)
        low = high
    return dict(reversed(ends.items()))


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a tile."""
    assert isinstance(value.type, TileType)
    return value.type.shape


def _wide(value: Value) -> frozenset[int]:
    return frozenset(axis for axis, size in enumerate(shape_of(value)) if size > 1)

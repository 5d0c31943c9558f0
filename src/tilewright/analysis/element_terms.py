"""Terms of the elements of integer tiles: an index tile in terms of the launch and of positions.

A position along an axis of a tile, `tw.arange`, is a variable that attains both ends of its range.
A wrap-around is not followed: a term serves warnings, and no proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.analysis.arithmetic import greatest, least, nonzero, product, quotient, remainder
from tilewright.analysis.dataflow import Dataflow, is_followed, machine_type
from tilewright.analysis.terms import Linear, Origin, Variable, number
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import AddI, ExtI, MaxI, MinI, MulI, SubI, TruncI
from tilewright.ir.ops.internal import FloorDiv, FloorMod, ReadAs
from tilewright.ir.ops.shape import Broadcast, Constant, Iota, Permute, Reshape
from tilewright.ir.rewrite import Definition
from tilewright.ir.types import TileType

__all__ = ["ElementTerms"]

_DEEPEST = 40  # ops between a tile and the positions in it; deeper ones are unknown


class ElementTerms:
    """The terms of elements, by tile; each is computed once."""

    def __init__(self, made: Mapping[Value, Definition], flow: Dataflow) -> None:
        self._made = made
        self._flow = flow
        self._found: dict[Value, Linear] = {}
        self._positions: set[Variable] = set()

    def of(self, value: Value, depth: int = _DEEPEST) -> Linear:
        """A term that every element of a tile, or a scalar, is a value of."""
        if machine_type(value) is not None:
            return self._flow.term(value)
        found = self._found.get(value)
        if found is None:
            found = self._found[value] = self._computed(value, depth)
        return found

    def position(self, term: Linear) -> tuple[Variable, int] | None:
        """The one position in a term, with its coefficient; None if there are none or several."""
        found = [(a, c) for a, c in term.coefficients.items() if a in self._positions]
        if len(found) != 1 or any(atom in self._positions for atom in _nested(term)):
            return None
        atom, coefficient = found[0]
        assert isinstance(atom, Variable)
        return atom, coefficient

    def _computed(self, value: Value, depth: int) -> Linear:
        definition = self._made.get(value)
        op = None if definition is None or definition.is_argument else definition.op
        if isinstance(op, Iota):
            return self._counted(op)
        if isinstance(op, Constant) and isinstance(op.value, int):
            return number(op.value)
        rule = _RULES.get(type(op)) if op is not None and depth else None
        if op is None or rule is None:
            return self._unknown(value)
        term = rule(*(self.of(each, depth - 1) for each in op.operands))
        return term if is_followed(term) else self._unknown(value)

    def _counted(self, op: Iota) -> Linear:
        last = math.prod(_shape(op.result)) - 1
        variable = self._flow.fresh(_element(op.result), Origin.LOOP, (number(0),), (number(last),))
        self._positions.add(variable)
        return Linear.of(variable)

    def _unknown(self, value: Value) -> Linear:
        return Linear.of(self._flow.fresh(_element(value), Origin.MEMORY))


def _nested(term: Linear) -> list[Any]:
    return [atom for outer in term.coefficients for part in outer.parts for atom in part.atoms()]


def _element(value: Value) -> Value:
    assert isinstance(value.type, TileType)
    return Value(value.type.with_shape(()), value.dtype, value.hint)


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, TileType)
    return value.type.shape


_RULES: dict[type[Op], Callable[..., Linear]] = {
    **dict.fromkeys((Broadcast, Reshape, Permute, ExtI, TruncI, ReadAs), lambda term: term),
    AddI: lambda left, right: left + right,
    SubI: lambda left, right: left - right,
    MulI: product,
    MinI: lambda left, right: least((left, right)),
    MaxI: lambda left, right: greatest((left, right)),
    FloorDiv: lambda left, right: quotient(left, nonzero(right)),
    FloorMod: lambda left, right: remainder(left, nonzero(right)),
}

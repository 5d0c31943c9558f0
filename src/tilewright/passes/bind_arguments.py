"""Binds launch-known values to the entry's parameters, with their promises.

    before                              after
    entry () {                          entry (%x: ptr<f32>, %n: i32) {
                                          %x1 = assume div_by<16>, %x
                                          %n1 = assume bounded<0, ?>, %n
                                          %n2 = assume div_by<8>, %n1
      %b = launch_value address of x      %c = divi %n2, 128 signed rounding<positive_inf>
      %e = launch_value x.shape[0]        …uses of %b, %e and %t name %x1, %n2 and %c
      %t = launch_value ceil(… / 128)
    }                                   }

Each value is computed once, at the top, and only if it is used. The promises are those of the
`Argument`; the host ensures them by checking every launch or by choosing another specialisation.
Runs after the last pass that adds launch values: after `lower_walks` and `lower_records`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.dtypes import Element
from tilewright.errors import InternalError
from tilewright.ir.arguments import Argument
from tilewright.ir.attributes import Bounded, DivBy, Rounding
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Blocks, Extent, GridExtent, LaunchTerm, TileCount
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Assume, GetNumTileBlocks
from tilewright.ir.ops.internal import LaunchValue
from tilewright.ir.ops.shape import Constant
from tilewright.ir.rewrite import Rewriter
from tilewright.ir.types import MAX_TILE_ELEMENTS, TileType
from tilewright.passes.integer_ops import Integers

__all__ = ["bind_arguments"]


def bind_arguments(function: Function, arguments: tuple[Argument, ...]) -> Function:
    """Add the entry's parameters, in the given order, and replace their terms by them."""
    return _ArgumentBinder(arguments).function(function)


class _ArgumentBinder(Rewriter):
    def __init__(self, arguments: tuple[Argument, ...]) -> None:
        super().__init__({LaunchValue: _bind})
        self._arguments = {argument.term: argument for argument in arguments}
        self._params = {
            argument.term: Value(argument.type, hint=_name(argument.term)) for argument in arguments
        }
        self._made: dict[tuple[LaunchTerm, TileType], Value] = {}
        self._top = Block()

    def function(self, function: Function) -> Function:
        """The whole function, with the bound values at the top."""
        assert not function.params, f"{function.name} has its parameters already"
        body = self.block(function.body)
        body.args = tuple(self._params.values())
        body.ops[:0] = self._top.ops
        return replace(function, body=body)

    def value(self, term: LaunchTerm, to: TileType) -> Value:
        """A launch-known value in a type, created on first use."""
        if (term, to) not in self._made:
            loc, self.builder.loc = self.builder.loc, None
            with self.builder.inside(self._top):
                make = _MAKERS.get(type(term), _ArgumentBinder._from_argument)
                self._made[term, to] = make(self, term, to)
            self.builder.loc = loc
        return self._made[term, to]

    def fixed(self, term: LaunchTerm) -> int | None:
        """The number of a term whose argument can have only one."""
        argument = self._argument(term)
        return argument.lower if argument.lower == argument.upper else None

    def constant(self, number: int, to: TileType) -> Value:
        """A constant at the top."""
        return self.builder.add(Constant(value=number, to=to)).result

    def _argument(self, term: LaunchTerm) -> Argument:
        if term not in self._arguments:
            raise InternalError(f"the kernel uses {term}, which no argument carries")
        return self._arguments[term]

    def _from_argument(self, term: Any, to: TileType) -> Value:
        argument, number = self._argument(term), self.fixed(term)
        if number is not None:
            return self.constant(number, to)
        if to == argument.type:
            return self._promised(self._params[term], argument)
        assert isinstance(to.element, Element)
        plain = self.value(term, argument.type)
        # The promises hold in the other width too, but a conversion loses them.
        return self._promised(Integers(self.builder).resized(plain, to.element), argument)

    def _promised(self, value: Value, argument: Argument) -> Value:
        if argument.lower is not None or argument.upper is not None:
            bounds = Bounded(argument.lower, argument.upper)
            value = self.builder.add(Assume(value=value, predicate=bounds)).result
        if argument.divisor > 1:
            multiple = DivBy(argument.divisor)
            value = self.builder.add(Assume(value=value, predicate=multiple)).result
        return value


def _bind(rewriter: _ArgumentBinder, op: LaunchValue) -> None:
    rewriter.replace(op, rewriter.value(op.term, op.to))


def _tile_count(binding: _ArgumentBinder, term: TileCount, to: TileType) -> Value:
    extent = Extent(term.param, term.axis)
    number = binding.fixed(extent)
    if number is not None:
        return binding.constant(-(-number // term.tile), to)
    whole = binding.value(extent, to)
    if term.tile == 1:
        return whole
    emit = Integers(binding.builder)
    if term.tile > _LARGEST:
        # No extent has a second tile of that size, which does not fit the type.
        return emit.least(whole, 1)
    divisor = binding.constant(term.tile, to)
    if term.tile <= MAX_TILE_ELEMENTS:
        # An extent rounded up to the tile fits, so no intermediate sum wraps.
        return emit.divide(whole, divisor, Rounding.POSITIVE_INF)
    # The sum may not fit: (extent - 1) / tile, rounded towards zero, plus one unless it is empty.
    before = emit.divide(emit.subtract(whole, emit.least(whole, 1)), divisor)
    return emit.add(before, emit.least(whole, 1))


def _blocks(binding: _ArgumentBinder, term: Blocks, to: TileType) -> Value:
    return binding.builder.add(GetNumTileBlocks()).x


_LARGEST = 2**31 - 1  # of the type of extents and counts

_MAKERS: dict[type[Any], Callable[[_ArgumentBinder, Any, TileType], Value]] = {
    Blocks: _blocks,
    TileCount: _tile_count,
}


def _name(term: LaunchTerm) -> str:
    """The parameter's name in the IR text."""
    if isinstance(term, GridExtent):
        return f"grid{term.axis}"
    return str(getattr(term, "param", "record"))

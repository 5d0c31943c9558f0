"""Programs drawn at random from the table of ops, for what must hold of any program.

They are put together as Tile IR is, with operands that are visible and results by the type rule,
but seldom obey the rules of the verifier: writing, printing and reading do not ask for that.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir import attributes as a
from tilewright.ir import codecs
from tilewright.ir.elements import numbers_of_bits
from tilewright.ir.function import Function, Global, Module
from tilewright.ir.op import Block, Effect, Field, FieldKind, Op, Value
from tilewright.ir.ops import TILE_IR_OPS
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.memory import MakeTensorView
from tilewright.ir.ops.reduction import Reduce, Scan
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import (
    TOKEN,
    GatherScatterViewType,
    Padding,
    PartitionViewType,
    PtrType,
    StridedViewType,
    TensorViewType,
    TileType,
    Type,
    scalar,
)

_ELEMENTS = tuple(Element)
_OLD_ELEMENTS = tuple(element for element in Element if element.value.since == (13, 1))
_SIMPLE = tuple(
    op
    for op in TILE_IR_OPS
    if not op.region_fields and op.effect is not Effect.CONTROL and op is not MakeTensorView
)
_TEXTS = ("", "plain", 'a "b" \\ c', "é漢\n", "%d: %f\t")
_DEEPEST = 3


class RandomProgram:
    """One module, drawn from a source of random numbers."""

    def __init__(self, source: random.Random, size: int = 12) -> None:
        self._random = source
        self._size = size
        self._visible: list[Value] = []

    def module(self) -> Module:
        """A module with one or two entries and perhaps globals."""
        functions = tuple(self._function(f"entry_{n}") for n in range(self._random.randint(1, 2)))
        globals_ = tuple(self._global(f"global_{n}") for n in range(self._random.randint(0, 2)))
        return Module(functions, globals=globals_)

    def _function(self, name: str) -> Function:
        params = tuple(Value(self._type()) for _ in range(self._random.randint(0, 4)))
        self._visible = list(params)
        ops = self._ops(self._size, 0)
        hints = self._hints() if self._random.random() < 0.3 else None
        return Function(name, Block(params, [*ops, Return()]), hints)

    def _global(self, name: str) -> Global:
        type_ = self._tile()
        alignment = self._random.choice((0, 16, 128))
        visibility = self._random.choice(tuple(a.Visibility))
        return Global(name, type_, self._elements(type_), alignment, visibility, self._truth())

    def _ops(self, count: int, depth: int) -> list[Op]:
        ops: list[Op] = []
        for _ in range(self._random.randint(1, count)):
            op = self._nested(depth) if depth < _DEEPEST and self._random.random() < 0.15 else None
            op = op or self._simple()
            if op is not None:
                self._visible += op.results
                ops.append(op)
        return ops

    # --- ops --------------------------------------------------------------------------------------

    def _simple(self) -> Op | None:
        kind = self._random.choice((*_SIMPLE, Constant, MakeTensorView))
        build = self._tensor_view_op if kind is MakeTensorView else lambda: self._any_op(kind)
        tries = (build() for _ in range(10))
        return next((op for op in tries if op is not None), None)

    def _any_op(self, kind: type[Op]) -> Op | None:
        parts = {field.name: self._part(field) for field in kind.fields if _is_given(field)}
        if kind is Constant:
            parts["to"] = self._tile()
            parts["value"] = self._elements(parts["to"])
        if parts.get("mask", 0) is None:
            parts.pop("padding_value", None)  # which only a mask lets in
        if None in [parts[f.name] for f in kind.fields if f.kind is FieldKind.OPERAND]:
            return None
        try:
            return kind(**parts)
        except (AssertionError, AttributeError, IndexError):
            return None  # the rule asks for other operands

    def _part(self, field: Field) -> Any:
        if field.kind is FieldKind.OPERAND:
            return self._value()
        if field.kind is FieldKind.OPERANDS:
            return self._values(self._random.randint(0, 3))
        if field.kind is FieldKind.OPTIONAL_OPERAND:
            return self._value() if self._truth() else None
        if field.kind is FieldKind.FLAG:
            return self._truth()
        if field.codec is None:
            return self._type()
        if field.optional and self._truth():
            return None
        return _ATTRIBUTES[type(field.codec)](self, field.codec)

    def _tensor_view_op(self) -> Op | None:
        base, to = self._value(), self._tensor_view()
        shape, strides = (self._values(held.count(None)) for held in (to.shape, to.strides))
        gaps = (len(shape), len(strides)) == (to.shape.count(None), to.strides.count(None))
        if base is None or not gaps:
            return None
        return MakeTensorView(base=base, dynamic_shape=shape, dynamic_strides=strides, to=to)

    def _nested(self, depth: int) -> Op | None:
        kind = self._random.choice((For, Loop, If, Reduce, Scan))
        return _NESTED[kind](self, depth + 1)

    def _block(self, args: tuple[Value, ...], ending: type[Op], count: int, depth: int) -> Block:
        outside = len(self._visible)
        self._visible += args
        ops = self._ops(3, depth)
        values = self._values(count)
        del self._visible[outside:]
        return Block(args, [*ops, ending(values=values)])

    def _for(self, depth: int) -> Op | None:
        bounds, start = self._values(3), self._values(self._random.randint(0, 2))
        if len(bounds) < 3:
            return None
        args = (Value(bounds[0].type), *(Value(value.type) for value in start))
        body = self._block(args, Continue, len(start), depth)
        lower, upper, step = bounds
        return For(
            lower_bound=lower, upper_bound=upper, step=step, init_values=start, body=body,
            unsigned_cmp=self._truth(),
        )  # fmt: skip

    def _loop(self, depth: int) -> Op:
        start = self._values(self._random.randint(0, 2))
        types = tuple(self._type() for _ in range(self._random.randint(0, 2)))
        args = tuple(Value(value.type) for value in start)
        ending = self._random.choice((Continue, Break))
        body = self._block(args, ending, len(start), depth)
        return Loop(init_values=start, body=body, types=types)

    def _if(self, depth: int) -> Op | None:
        condition = self._value()
        types = tuple(self._type() for _ in range(self._random.randint(0, 2)))
        then, other = (self._block((), Yield, len(types), depth) for _ in range(2))
        if condition is None:
            return None
        return If(condition=condition, then_body=then, else_body=other, types=types)

    def _combination(self, kind: type[Op], depth: int) -> Op | None:
        sources = tuple(
            value
            for value in self._visible
            if isinstance(value.type, TileType) and value.type.shape
        )[:2]
        if not sources:
            return None
        args = tuple(Value(scalar(value.type.element)) for value in sources for _ in range(2))
        body = self._block(args, Yield, len(sources), depth)
        identities = tuple(self._identity() for _ in sources)
        return kind(sources=sources, dim=0, identities=identities, body=body)

    # --- values, types and attributes -------------------------------------------------------------

    def _truth(self) -> bool:
        return self._random.random() < 0.5

    def _value(self) -> Value | None:
        return self._random.choice(self._visible) if self._visible else None

    def _values(self, count: int) -> tuple[Value, ...]:
        return tuple(self._random.choice(self._visible) for _ in range(count * bool(self._visible)))

    def _type(self) -> Type:
        return self._random.choice(
            (self._tile, self._tile, self._pointers, self._tensor_view, self._view, lambda: TOKEN)
        )()

    def _extents(self, least: int = 0) -> tuple[int, ...]:
        return tuple(2 ** self._random.randint(0, 3) for _ in range(self._random.randint(least, 3)))

    def _tile(self) -> TileType:
        return TileType(self._random.choice(_ELEMENTS), self._extents())

    def _pointers(self) -> TileType:
        return TileType(PtrType(self._random.choice(_ELEMENTS)), self._extents())

    def _tensor_view(self) -> TensorViewType:
        shape = tuple(None if self._truth() else extent for extent in self._extents())
        strides = tuple(None if self._truth() else 2**n for n in range(len(shape)))
        return TensorViewType(self._random.choice(_ELEMENTS), shape, strides)

    def _view(self) -> Type:
        view, tile = self._tensor_view(), self._extents(1)
        padding = self._random.choice((None, *Padding))
        axes = list(range(len(tile)))
        self._random.shuffle(axes)
        return self._random.choice(
            (
                PartitionViewType(tile, view, tuple(axes), padding),
                StridedViewType(tile, tuple(n + 1 for n in tile), view, tuple(axes), padding),
                GatherScatterViewType(tile, view, axes[0], padding),
            )
        )

    def _bits(self, element: Element, count: int) -> np.ndarray[Any, Any]:
        width = 19 if element is Element.TF32 else element.bits
        bits = [self._random.getrandbits(width) for _ in range(count)]
        return numbers_of_bits(np.array(bits, np.uint64), element)

    def _elements(self, type_: TileType) -> Any:
        if self._truth():
            return self._bits(type_.element, 1)[0]
        return self._bits(type_.element, type_.size).reshape(type_.shape)

    def _identity(self) -> a.FloatIdentity | a.IntIdentity:
        element = self._random.choice(_OLD_ELEMENTS)  # its source is not asked which it has
        if element.is_integer:
            return a.IntIdentity(element, self._random.getrandbits(element.bits))
        return a.FloatIdentity(element, self._bits(element, 1)[0])

    def _hints(self) -> a.TargetHints:
        targets = self._random.sample(("default", "sm_90", "sm_100"), self._random.randint(1, 3))
        return a.TargetHints(
            tuple(
                (
                    target,
                    a.Dictionary((("allow_tma", self._truth()), ("latency", len(target)))),
                )
                for target in targets
            )
        )

    def _promise(self) -> a.Promise:
        numbers = [self._random.choice((None, n)) for n in (-(2**63), 7)]
        return self._random.choice(
            (
                a.DivBy(16, *((2, 0) if self._truth() else ())),
                a.Bounded(*numbers),
                a.SameElements(self._extents()),
            )
        )


def _is_given(field: Field) -> bool:
    return field.kind not in (FieldKind.RESULT, FieldKind.RESULTS, FieldKind.NOTE)


_NESTED: dict[type[Op], Callable[[Any, int], Op | None]] = {
    For: RandomProgram._for,
    Loop: RandomProgram._loop,
    If: RandomProgram._if,
    Reduce: lambda program, depth: program._combination(Reduce, depth),
    Scan: lambda program, depth: program._combination(Scan, depth),
}

_ATTRIBUTES: dict[type, Callable[[Any, Any], Any]] = {
    codecs.EnumCodec: lambda p, codec: p._random.choice(tuple(codec.enum)),
    codecs.IntCodec: lambda p, _: p._random.choice((0, 1, 2, 200)),
    codecs.BoolCodec: lambda p, _: p._truth(),
    codecs.StringCodec: lambda p, _: p._random.choice(_TEXTS),
    codecs.SymbolCodec: lambda p, _: p._random.choice(("global_0", "not plain")),
    codecs.Int32ArrayCodec: lambda p, _: p._random.choice(((), (0,), (1, 0), (0, 2, 1))),
    codecs.BoolArrayCodec: lambda p, _: (),
    codecs.ConstantCodec: lambda p, _: 0,
    codecs.ArrayCodec: lambda p, _: (p._identity(),),
    codecs.PredicateCodec: lambda p, _: p._promise(),
    codecs.HintsCodec: lambda p, _: p._hints(),
}

__all__ = ["RandomProgram"]

"""Whether two modules say the same: values by where they are defined, numbers by their bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tilewright.dtypes import Element
from tilewright.ir.attributes import (
    DenseElements,
    Dictionary,
    FloatIdentity,
    IntIdentity,
    TargetHints,
)
from tilewright.ir.codecs import ConstantCodec
from tilewright.ir.elements import constant_bytes, element_bits
from tilewright.ir.function import Function, Global, Module
from tilewright.ir.op import Block, Field, FieldKind, Op, Value
from tilewright.source import Location


def assert_same(first: Module, second: Module, *, locations: bool = False) -> None:
    """Fail with the first things that differ; names of values and locations do not count."""
    found = [text for _, text in zip(range(5), differences(first, second, locations), strict=False)]
    assert found == []


def differences(first: Module, second: Module, locations: bool = False) -> Iterator[str]:
    """Everything that one module says and the other does not."""
    for held in ("functions", "globals"):
        if len(getattr(first, held)) != len(getattr(second, held)):
            yield f"{len(getattr(first, held))} and {len(getattr(second, held))} {held}"
    for one, other in zip(first.globals, second.globals, strict=False):
        if _of_global(one) != _of_global(other):
            yield f"global {one.name}: {_of_global(one)} and {_of_global(other)}"
    for one, other in zip(first.functions, second.functions, strict=False):
        yield from _Comparison(locations).functions(one, other)


def _of_global(held: Global) -> tuple[Any, ...]:
    data = _spread(held.value, held.type)
    return held.name, held.type, data, held.alignment, held.visibility, held.constant


def _spread(value: Any, type_: Any) -> list[int]:
    """The bits of all elements, also of a constant that gives one number for all."""
    whole = np.broadcast_to(np.asarray(value), type_.shape)
    return element_bits(whole.reshape(-1), type_.element).tolist()


class _Comparison:
    def __init__(self, locations: bool) -> None:
        self._locations = locations
        self._same: dict[Value, Value] = {}

    def functions(self, one: Function, other: Function) -> Iterator[str]:
        if (one.name, _plain(one.hints)) != (other.name, _plain(other.hints)):
            yield f"{one.name} {one.hints} and {other.name} {other.hints}"
        if self._locations and _outermost(one.loc) != _outermost(other.loc):
            yield f"{one.name} at {one.loc} and {other.loc}"
        yield from self._blocks(one.body, other.body, one.name)

    def _blocks(self, one: Block, other: Block, place: str) -> Iterator[str]:
        yield from self._define(one.args, other.args, place)
        if len(one.ops) != len(other.ops):
            yield f"{place}: {len(one.ops)} and {len(other.ops)} ops"
        for number, pair in enumerate(zip(one.ops, other.ops, strict=False)):
            yield from self._ops(*pair, f"{place}.{number}")

    def _define(
        self, one: tuple[Value, ...], other: tuple[Value, ...], place: str
    ) -> Iterator[str]:
        if [value.type for value in one] != [value.type for value in other]:
            yield f"{place}: defines {one} and {other}"
        self._same.update(zip(one, other, strict=False))

    def _ops(self, one: Op, other: Op, place: str) -> Iterator[str]:
        place = f"{place} {one.mnemonic}"
        if type(one) is not type(other):
            yield f"{place} and {other.mnemonic}"
            return
        for field in one.fields:
            held, found = getattr(one, field.name), getattr(other, field.name)
            if field.kind.is_operand:
                if self._mapped(held) != found:
                    yield f"{place}: other values of {field.name}"
            elif field.kind is FieldKind.REGION:
                yield from self._blocks(held, found, f"{place}.{field.name}")
            elif isinstance(field.codec, ConstantCodec):
                type_ = one.results[0].type
                if _spread(held, type_) != _spread(found, type_):
                    yield f"{place}: {held} and {found}"
            elif _says_something(field) and _plain(held) != _plain(found):
                yield f"{place}: {field.name} is {held} and {found}"
        if self._locations and _spans(one.loc) != _spans(other.loc):
            yield f"{place}: at {one.loc} and {other.loc}"
        yield from self._define(one.results, other.results, place)

    def _mapped(self, held: Any) -> Any:
        if isinstance(held, tuple):
            return tuple(self._same.get(value) for value in held)
        return None if held is None else self._same.get(held)


def _says_something(field: Field) -> bool:
    """Whether a field is a property of its own; the results' types are compared as such."""
    return field.kind in (FieldKind.ATTR, FieldKind.FLAG) and field.from_types is None


def _plain(held: Any) -> Any:
    """An attribute by its bits."""
    if isinstance(held, FloatIdentity | IntIdentity):
        return held.element, int(element_bits([held.value], held.element)[0])
    if type(held) is int:
        return Element.I32, held & 0xFFFFFFFF
    if isinstance(held, DenseElements):
        return held.type, constant_bytes(held.value, held.type)
    if isinstance(held, tuple):
        return tuple(map(_plain, held))
    if isinstance(held, Dictionary):
        return {name: _plain(item) for name, item in held.items}
    if isinstance(held, TargetHints):
        return {target: _plain(known) for target, known in held.targets}
    if is_dataclass(held) and not isinstance(held, type):
        return type(held), tuple(_plain(getattr(held, part.name)) for part in fields(held))
    return held


def _spans(loc: Location | None) -> list[tuple[str, int, int]]:
    spans = () if loc is None else (loc.span, *loc.calls)
    return [(s.file.path, s.line, s.file.characters(s.line, s.column)) for s in spans]


def _outermost(loc: Location | None) -> list[tuple[str, int, int]]:
    """All that the format keeps of a function's own place."""
    return _spans(loc)[-1:]

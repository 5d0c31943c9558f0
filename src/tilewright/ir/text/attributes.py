"""The text of attributes: one formatter for each codec class, as in the bytecode."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir import codecs
from tilewright.ir.attributes import (
    Attribute,
    Bounded,
    DenseElements,
    Dictionary,
    DivBy,
    FloatIdentity,
    IntIdentity,
    Overflow,
    Promise,
    SameElements,
    TargetHints,
)
from tilewright.ir.op import Op
from tilewright.ir.text.numbers import (
    constant_text,
    key_text,
    number_text,
    quoted,
    symbol_text,
)
from tilewright.ir.types import FunctionType, TileType

__all__ = ["attribute_text", "hints_text", "spelling"]

# Elements that MLIR assumes for an untyped number; hexadecimal bits are always typed.
_ASSUMED = (Element.I1, Element.I64, Element.F64)

# Members of enums whose text differs from their name here.
_SPELLINGS: dict[Enum, str] = {
    Overflow.NSW: "no_signed_wrap",
    Overflow.NUW: "no_unsigned_wrap",
    Overflow.NW: "no_wrap",
}


def attribute_text(codec: codecs.AttributeCodec, value: Any, op: Op) -> str:
    """Return the text of an attribute of `op`."""
    return _FORMATTERS[type(codec)](value, op)


def hints_text(hints: TargetHints) -> str:
    """Return the text of hints by target, on an entry or on an op."""
    targets = (f"{target} = {{{_advice(known)}}}" for target, known in _by_name(hints.targets))
    return f"<{', '.join(targets)}>"


def spelling(member: Enum) -> str:
    """Return the text of an enum member."""
    return _SPELLINGS.get(member) or member.name.lower()


def _enum_text(value: Enum, _op: Op) -> str:
    return spelling(value)


def _plain_text(value: Any, _op: Op) -> str:
    return str(value)


def _bool_text(value: bool, _op: Op) -> str:
    return "true" if value else "false"


def _string_text(value: str, _op: Op) -> str:
    return quoted(value)


def _symbol(value: str, _op: Op) -> str:
    return symbol_text(value)


def _list_text(value: tuple[int, ...], _op: Op) -> str:
    return ", ".join(map(str, value))


def _bools_text(value: tuple[bool, ...], op: Op) -> str:
    return ", ".join(_bool_text(item, op) for item in value)


def _constant_text(value: Any, op: Op) -> str:
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    return constant_text(value, type_)


def _items_text(value: tuple[Attribute, ...], _op: Op) -> str:
    return ", ".join(map(_tagged_text, value))


def _promise_text(value: Promise, _op: Op) -> str:
    return _PROMISES[type(value)](value)


def _op_hints_text(value: TargetHints, _op: Op) -> str:
    return hints_text(value)


def _by_name(items: tuple[tuple[str, Any], ...]) -> list[tuple[str, Any]]:
    """Sort by name, the order of MLIR dictionaries."""
    return sorted(items, key=lambda item: item[0])


def _advice(known: Dictionary) -> str:
    """Return names and values; a number is printed without its element."""
    return ", ".join(f"{name} = {_untyped(value)}" for name, value in _by_name(known.items))


def _untyped(value: Attribute) -> str:
    if isinstance(value, IntIdentity | FloatIdentity):
        return number_text(value.value, value.element)
    return str(value) if type(value) is int else _tagged_text(value)


def _tagged_text(value: Attribute) -> str:
    """Return the text of any attribute; those of the dialect carry its name."""
    promise = _PROMISES.get(type(value))
    if promise is not None:
        return f"#cuda_tile.{promise(value)}"
    return _TAGGED.get(type(value), _type_text)(value)


def _typed_number(value: FloatIdentity | IntIdentity) -> str:
    number = number_text(value.value, value.element)
    untyped = value.element in _ASSUMED and not number.startswith("0x")
    return number if untyped else f"{number} : {value.element.spelling}"


def _small_integer(value: int) -> str:
    return _typed_number(IntIdentity(Element.I32, value))


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _array(value: tuple[Attribute, ...]) -> str:
    return f"[{', '.join(map(_tagged_text, value))}]"


def _dictionary(value: Dictionary) -> str:
    items = (f"{key_text(name)} = {_tagged_text(item)}" for name, item in _by_name(value.items))
    return f"{{{', '.join(items)}}}"


def _nested_hints(value: TargetHints) -> str:
    return f"#cuda_tile.optimization_hints{hints_text(value)}"


def _elements(value: DenseElements) -> str:
    return f"dense{constant_text(value.value, value.type)} : {_type_text(value.type)}"


def _type_text(value: Any) -> str:
    if isinstance(value, Element):
        return value.spelling
    if isinstance(value, FunctionType):
        params, results = (
            ", ".join(map(_type_text, group)) for group in (value.params, value.results)
        )
        return f"({params}) -> {results if len(value.results) == 1 else f'({results})'}"
    return f"!cuda_tile.{value}"


def _div_by(value: DivBy) -> str:
    every = "" if value.every is None else f", every {value.every}"
    along = "" if value.along is None else f" along {value.along}"
    return f"div_by<{value.divisor}{every}{along}>"


def _same_elements(value: SameElements) -> str:
    return f"same_elements<[{', '.join(map(str, value.groups))}]>"


def _bounded(value: Bounded) -> str:
    lower, upper = ("?" if bound is None else bound for bound in (value.lower, value.upper))
    return f"bounded<{lower}, {upper}>"


_PROMISES: dict[type, Callable[[Any], str]] = {
    DivBy: _div_by,
    SameElements: _same_elements,
    Bounded: _bounded,
}

# Every other self-describing attribute, types aside.
_TAGGED: dict[type, Callable[[Any], str]] = {
    bool: _truth,
    int: _small_integer,
    str: quoted,
    IntIdentity: _typed_number,
    FloatIdentity: _typed_number,
    tuple: _array,
    Dictionary: _dictionary,
    TargetHints: _nested_hints,
    DenseElements: _elements,
}


_FORMATTERS: dict[type[codecs.AttributeCodec], Callable[[Any, Op], str]] = {
    codecs.EnumCodec: _enum_text,
    codecs.IntCodec: _plain_text,
    codecs.BoolCodec: _bool_text,
    codecs.StringCodec: _string_text,
    codecs.SymbolCodec: _symbol,
    codecs.Int32ArrayCodec: _list_text,
    codecs.BoolArrayCodec: _bools_text,
    codecs.ConstantCodec: _constant_text,
    codecs.ArrayCodec: _items_text,
    codecs.PredicateCodec: _promise_text,
    codecs.HintsCodec: _op_hints_text,
}

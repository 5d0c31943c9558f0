"""The text of attributes: one formatter a codec class, as for their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.attributes import (
    ArrayCodec,
    AttributeCodec,
    BoolArrayCodec,
    BoolCodec,
    Bounded,
    ConstantCodec,
    DivBy,
    EnumCodec,
    FloatIdentity,
    HintsCodec,
    Int32ArrayCodec,
    IntCodec,
    IntIdentity,
    LoadHints,
    Overflow,
    PredicateCodec,
    StringCodec,
)
from tilewright.ir.function import EntryHints
from tilewright.ir.op import Op
from tilewright.ir.text.numbers import constant_text, number_text, quoted
from tilewright.ir.types import TileType

__all__ = ["attribute_text", "entry_hints_text"]

# The elements a bare number is taken for; bits in hexadecimal are always typed.
_ASSUMED = (Element.I1, Element.I64, Element.F64)

# What is not called in the text as it is here.
_SPELLINGS: dict[Enum, str] = {
    Overflow.NSW: "no_signed_wrap",
    Overflow.NUW: "no_unsigned_wrap",
    Overflow.NW: "no_wrap",
}


def attribute_text(codec: AttributeCodec, value: Any, op: Op) -> str:
    """An attribute of `op`."""
    return _FORMATTERS[type(codec)](value, op)


def entry_hints_text(hints: EntryHints) -> str:
    """The advice on a whole entry."""
    return _hints_text(
        {
            "num_cta_in_cga": hints.num_ctas,
            "num_worker_warps_per_cta": hints.num_worker_warps,
            "occupancy": hints.occupancy,
        }
    )


def _enum_text(value: Enum, _op: Op) -> str:
    return _SPELLINGS.get(value) or value.name.lower()


def _plain_text(value: Any, _op: Op) -> str:
    return str(value)


def _bool_text(value: bool, _op: Op) -> str:
    return "true" if value else "false"


def _string_text(value: str, _op: Op) -> str:
    return quoted(value)


def _list_text(value: tuple[int, ...], _op: Op) -> str:
    return ", ".join(map(str, value))


def _bools_text(value: tuple[bool, ...], op: Op) -> str:
    return ", ".join(_bool_text(item, op) for item in value)


def _constant_text(value: Any, op: Op) -> str:
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    return constant_text(value, type_)


def _identities_text(value: tuple[FloatIdentity | IntIdentity, ...], _op: Op) -> str:
    return ", ".join(map(_identity_text, value))


def _identity_text(identity: FloatIdentity | IntIdentity) -> str:
    number = number_text(identity.value, identity.element)
    untyped = identity.element in _ASSUMED and not number.startswith("0x")
    return number if untyped else f"{number} : {identity.element.spelling}"


def _predicate_text(value: DivBy | Bounded, _op: Op) -> str:
    if isinstance(value, DivBy):
        return f"div_by<{value.divisor}>"
    lower, upper = ("?" if bound is None else bound for bound in (value.lower, value.upper))
    return f"bounded<{lower}, {upper}>"


def _load_hints_text(value: LoadHints, _op: Op) -> str:
    return _hints_text({"allow_tma": value.allow_tma, "latency": value.latency})


def _hints_text(given: Mapping[str, int | None]) -> str:
    items = [f"{name} = {_hint(value)}" for name, value in given.items() if value is not None]
    return f"<default = {{{', '.join(items)}}}>"


def _hint(value: int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_FORMATTERS: dict[type[AttributeCodec], Callable[[Any, Op], str]] = {
    EnumCodec: _enum_text,
    IntCodec: _plain_text,
    BoolCodec: _bool_text,
    StringCodec: _string_text,
    Int32ArrayCodec: _list_text,
    BoolArrayCodec: _bools_text,
    ConstantCodec: _constant_text,
    ArrayCodec: _identities_text,
    PredicateCodec: _predicate_text,
    HintsCodec: _load_hints_text,
}

"""Codecs: the encoding of each kind of attribute, as the ops declare it.

`bytecode` has one writer and one reader for each codec class, the printer one formatter, and the
parser one parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "ArrayCodec",
    "AttributeCodec",
    "BoolArrayCodec",
    "BoolCodec",
    "ConstantCodec",
    "EnumCodec",
    "HintsCodec",
    "Int32ArrayCodec",
    "IntCodec",
    "PredicateCodec",
    "StringCodec",
    "SymbolCodec",
]


class AttributeCodec:
    """Encoding of one kind of attribute."""


@dataclass(frozen=True)
class EnumCodec(AttributeCodec):
    """A member of an enum, by its number."""

    enum: type[Enum]


class IntCodec(AttributeCodec):
    """An unsigned integer."""


class BoolCodec(AttributeCodec):
    """A byte, 0 or 1."""


class StringCodec(AttributeCodec):
    """A string, by its index in the string table."""


class SymbolCodec(AttributeCodec):
    """The name of a global, by its index in the string table."""


class Int32ArrayCodec(AttributeCodec):
    """A tuple of 32-bit integers."""


@dataclass(frozen=True)
class BoolArrayCodec(AttributeCodec):
    """A tuple of truth values, one for each value of an operand group; empty means all false."""

    along: str


class ConstantCodec(AttributeCodec):
    """A NumPy array, or one number for every element, by its index in the constant table."""


class ArrayCodec(AttributeCodec):
    """A tuple of self-describing attributes."""


class PredicateCodec(AttributeCodec):
    """One self-describing attribute, a `Promise`."""


class HintsCodec(AttributeCodec):
    """`TargetHints`, as a dictionary of hints by target."""

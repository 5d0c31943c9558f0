"""Tags of the bytecode's parts, shared by writer and reader.

Elements carry their own tag (`Element.value.tag`), ops their own opcode.
"""

from __future__ import annotations

from enum import IntEnum

from tilewright.ir.op import Version

__all__ = [
    "ALIGNMENT",
    "GLOBAL_FLAGS",
    "HAS_ALIGNMENT",
    "MAGIC",
    "PRODUCER_SINCE",
    "AttributeTag",
    "DebugTag",
    "FunctionFlag",
    "Section",
    "TypeTag",
]

MAGIC = b"\x7fTileIR\x00"  # first bytes of every file


class Section(IntEnum):
    """Kind of a section."""

    END = 0
    STRINGS = 1
    FUNCTIONS = 2
    DEBUG = 3
    CONSTANTS = 4
    TYPES = 5
    GLOBALS = 6
    PRODUCER = 7


HAS_ALIGNMENT = 0x80  # flag beside the number of a section: its alignment follows
PRODUCER_SINCE: Version = (13, 3)  # first version with a producer section
GLOBAL_FLAGS: Version = (13, 3)  # first version with visibility and constancy of globals

# Alignment of a section's payload in the file.
ALIGNMENT: dict[Section, int] = {
    Section.STRINGS: 4,
    Section.FUNCTIONS: 8,
    Section.DEBUG: 8,
    Section.CONSTANTS: 8,
    Section.TYPES: 4,
    Section.GLOBALS: 1,
    Section.PRODUCER: 1,
}


class FunctionFlag(IntEnum):
    """Bits of the byte that describes a function."""

    PRIVATE = 1
    ENTRY = 2
    HINTS = 4


class TypeTag(IntEnum):
    """Kinds of types other than elements."""

    POINTER = 12
    TILE = 13
    TENSOR_VIEW = 14
    PARTITION_VIEW = 15
    FUNCTION = 16
    TOKEN = 17
    GATHER_SCATTER_VIEW = 20
    STRIDED_VIEW = 21


class AttributeTag(IntEnum):
    """Kinds of self-describing attributes."""

    INTEGER = 1
    FLOAT = 2
    BOOL = 3
    TYPE = 4
    STRING = 5
    ARRAY = 6
    DENSE_ELEMENTS = 7
    DIV_BY = 8
    SAME_ELEMENTS = 9
    DICTIONARY = 10
    HINTS = 11
    BOUNDED = 12


class DebugTag(IntEnum):
    """Kinds of debug information."""

    COMPILE_UNIT = 1
    FILE = 2
    LEXICAL_BLOCK = 3
    LOCATION = 4
    SUBPROGRAM = 5
    CALL_SITE = 6

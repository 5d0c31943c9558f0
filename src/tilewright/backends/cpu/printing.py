"""Formats in the manner of C's `printf`, for scalars and for whole tiles.

A tile is written as nested brackets, every element by the format. What a letter cannot show, such
as a fraction as `%d`, is cut or converted as Python does: Tile IR leaves such output undefined.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Field", "fields", "show"]

_FIELD = re.compile(r"%([-+ #0]*)(\d*)((?:\.\d*)?)(?:hh|h|ll|l|j|z|t|q|L)?([diuoxXeEfFgGaAcsp%])")
_UNSIGNED = frozenset("uoxXp")
_INTEGER = frozenset("diuoxXpc")


@dataclass(frozen=True)
class Field:
    """One place in a format: what stands before it, and how the value is written."""

    before: str
    flags: str
    letter: str  # empty behind the last value

    def text(self, number: Any, bits: int) -> str:
        """One number, whose integers have a width."""
        if not self.letter:
            return ""
        if self.letter in "aA":
            shown = float(number).hex()
            return f"%{self.flags}s" % (shown.upper() if self.letter == "A" else shown)
        if self.letter in _INTEGER:
            number = int(number)
            if self.letter in _UNSIGNED:
                number &= (1 << bits) - 1
            return _INTEGERS[self.letter](self.flags, number)
        return str(f"%{self.flags}{self.letter}" % number)


_INTEGERS: dict[str, Callable[[str, int], str]] = {
    "p": lambda flags, number: f"%{flags}s" % hex(number),
    "c": lambda flags, number: f"%{flags}s" % chr(number & 0xFF),
    **{
        letter: lambda flags, number, letter=letter: f"%{flags}{letter}" % number  # type: ignore[misc]
        for letter in "dioxX"
    },
    "u": lambda flags, number: f"%{flags}d" % number,
}


def fields(format_: str) -> list[Field]:
    """The parts of a format; the last one has only what stands behind all values."""
    found, text, at = [], "", 0
    for match in _FIELD.finditer(format_):
        text += format_[at : match.start()]
        at = match.end()
        flags, width, precision, letter = match.groups()
        if letter == "%":
            text += "%"
        else:
            found.append(Field(text, flags + width + precision, letter))
            text = ""
    return [*found, Field(text + format_[at:], "", "")]


def show(parts: list[Field], bits: tuple[int, ...], *values: Any) -> None:
    """Write to standard output, in one piece, so that blocks do not mix within a line.

    There are as many values as the format has places: the verifier has seen to that.
    """
    text = ""
    for part, value, width in zip(parts, (*values, 0), (*bits, 0), strict=True):
        text += part.before + _nested(part, np.asarray(value), width)
    sys.stdout.write(text)


def _nested(part: Field, value: Any, bits: int) -> str:
    if value.ndim == 0:
        return part.text(value.item() if value.dtype.kind in "biuf" else float(value), bits)
    return "[" + ", ".join(_nested(part, row, bits) for row in value) + "]"

"""Formats in the manner of C's `printf`, for scalars and for whole tiles.

A tile is written as nested brackets, every element by the format. What a letter cannot show, such
as a fraction or a NaN as `%d`, is cut or converted as Python does: Tile IR leaves such output
undefined. A place that C has no meaning for (`%kd`, `%*d`, `%n`), or that asks for more characters
than C promises, is an `UnprintableError` with the reason.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.ir.print_formats import Place

__all__ = ["Field", "UnprintableError", "fields", "show"]

_MODIFIERS = re.compile(r"([-+ #0]*)([0-9]*)(?:\.([0-9]*))?(?:hh|h|ll|l|j|z|t|q|L)?")
_LONGEST = 4095  # characters of one conversion that C promises
_UNSIGNED = frozenset("uoxXp")
_INTEGER = frozenset("diuoxXpc")
_NUMBER_LENGTH = 400  # characters of the longest number that is printed without a width


class UnprintableError(ValueError):
    """A place of a format has no meaning."""


@dataclass(frozen=True)
class Field:
    """One place of a format: what stands before it, and how the value is written."""

    before: str
    flags: str
    letter: str
    length: int  # the most characters of a value, but for numbers without a width

    def text(self, number: Any, bits: int) -> str:
        """One number, whose integers have a width."""
        if self.letter in "aA":
            shown = float(number).hex()
            return f"%{self.flags}s" % (shown.upper() if self.letter == "A" else shown)
        if self.letter in _INTEGER and math.isfinite(number):
            number = int(number)
            if self.letter in _UNSIGNED:
                number &= (1 << bits) - 1
            return _INTEGERS[self.letter](self.flags, number)
        letter = "s" if self.letter in _INTEGER else self.letter
        return str(f"%{self.flags}{letter}" % number)


_INTEGERS: dict[str, Callable[[str, int], str]] = {
    "p": lambda flags, number: f"%{flags}s" % hex(number),
    "c": lambda flags, number: f"%{flags}s" % chr(number & 0xFF),
    **{
        letter: lambda flags, number, letter=letter: f"%{flags}{letter}" % number  # type: ignore[misc]
        for letter in "dioxX"
    },
    "u": lambda flags, number: f"%{flags}d" % number,
}


def fields(places: Sequence[Place]) -> tuple[Field, ...]:
    """How the values of a format are written."""
    return tuple(map(_field, places))


def _field(place: Place) -> Field:
    found = _MODIFIERS.fullmatch(place.modifiers)
    shown = f"%{place.modifiers}{place.letter}"
    if found is None or place.letter == "n":
        raise UnprintableError(f"`{shown[:40]}` has no meaning for a value that is printed")
    flags, width, precision = found[1], found[2].lstrip("0"), (found[3] or "").lstrip("0")
    if any(len(digits) > 4 or int(digits or 0) > _LONGEST for digits in (width, precision)):
        raise UnprintableError(
            f"`{shown[:40]}` asks for more than the {_LONGEST} characters that C promises"
        )
    dot = "" if found[3] is None else f".{precision or 0}"
    letter = "s" if place.letter == "S" else place.letter
    length = max(int(width or 0), int(precision or 0)) + _NUMBER_LENGTH
    return Field(place.before, f"{flags}{width}{dot}", letter, length)


def show(parts: Sequence[Field], end: str, bits: tuple[int, ...], *values: Any) -> None:
    """Write to standard output, in one piece, so that blocks do not mix within a line.

    There are as many values as the format has places: the verifier has seen to that.
    """
    text = ""
    for part, value, width in zip(parts, values, bits, strict=True):
        text += part.before + _nested(part, np.asarray(value), width)
    if sys.stdout is not None:  # a process may have closed it
        sys.stdout.write(text + end)


def _nested(part: Field, value: Any, bits: int) -> str:
    if value.ndim == 0:
        return part.text(value.item() if value.dtype.kind in "biuf" else float(value), bits)
    return "[" + ", ".join(_nested(part, row, bits) for row in value) + "]"

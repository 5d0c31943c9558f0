"""Formats in the manner of C's `printf`, for scalars and for whole tiles.

A tile is printed as nested brackets, with the conversion applied to every element. A number that a
conversion cannot show, such as a fraction or a NaN as `%d`, is truncated or converted as Python
does: Tile IR leaves such output undefined. A conversion that C does not define (`%kd`, `%*d`,
`%n`), or that needs more characters than C guarantees, is an `UnprintableError` with the reason.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.ir.print_formats import PrintPlaceholder

__all__ = ["FormatField", "UnprintableError", "fields", "show"]

_MODIFIERS = re.compile(r"([-+ #0]*)([0-9]*)(?:\.([0-9]*))?(?:hh|h|ll|l|j|z|t|q|L)?")
_LONGEST = 4095  # characters of one conversion that C guarantees
_UNSIGNED = frozenset("uoxXp")
_INTEGER = frozenset("diuoxXpc")
_NUMBER_LENGTH = 400  # characters of the longest number printed without a width


class UnprintableError(ValueError):
    """A conversion of a format is undefined."""


@dataclass(frozen=True)
class FormatField:
    """One conversion of a format: the text before it, and the format of the value."""

    before: str
    flags: str
    letter: str
    length: int  # upper bound of a value's characters, except for numbers without a width

    def text(self, number: Any, bits: int) -> str:
        """Format one number; `bits` is the width of an integer."""
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


def fields(places: Sequence[PrintPlaceholder]) -> tuple[FormatField, ...]:
    """Return the fields of a format's conversions."""
    return tuple(map(_field, places))


def _field(place: PrintPlaceholder) -> FormatField:
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
    return FormatField(place.before, f"{flags}{width}{dot}", letter, length)


def show(parts: Sequence[FormatField], end: str, bits: tuple[int, ...], *values: Any) -> None:
    """Print to standard output in one write, so that lines of different blocks do not mix.

    The verifier has checked that values and conversions match in number.
    """
    text = ""
    for part, value, width in zip(parts, values, bits, strict=True):
        text += part.before + _nested(part, np.asarray(value), width)
    if sys.stdout is not None:  # a process may have closed it
        sys.stdout.write(text + end)


def _nested(part: FormatField, value: Any, bits: int) -> str:
    if value.ndim == 0:
        return part.text(value.item() if value.dtype.kind in "biuf" else float(value), bits)
    return "[" + ", ".join(_nested(part, row, bits) for row in value) + "]"

"""The grammar of what `print_tko` prints, in one place for the verifier and for the CPU.

A place for a value begins with `%` and ends with the first letter that names a conversion; `%%` is
a percent sign. This is how tileiras counts, whatever stands between the two: it takes `%kd` for a
place, which C leaves undefined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Place", "is_format", "split_format"]

_CONVERSIONS = "diuoxXeEfFgGaAcsSpn"
_PLACE = re.compile(rf"%(?:%|([^%{_CONVERSIONS}]*)([{_CONVERSIONS}]))")


@dataclass(frozen=True)
class Place:
    """Where a value is printed: what stands before it, how it is printed, as which kind."""

    before: str
    modifiers: str  # between the percent sign and the letter
    letter: str


def is_format(text: str) -> bool:
    """Whether every place of a format has an end."""
    return "%" not in _PLACE.sub("", text)


def split_format(text: str) -> tuple[tuple[Place, ...], str]:
    """The places of a format in order, and what stands behind the last of them."""
    places, before, at = [], "", 0
    for match in _PLACE.finditer(text):
        before += text[at : match.start()]
        at = match.end()
        if match[2] is None:
            before += "%"
        else:
            places.append(Place(before, match[1], match[2]))
            before = ""
    return tuple(places), before + text[at:]

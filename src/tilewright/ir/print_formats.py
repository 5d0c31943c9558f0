"""The grammar of `print_tko` formats, shared by the verifier and the CPU backend.

A conversion begins with `%` and ends with the first letter that names one; `%%` is a percent sign.
tileiras counts conversions this way, whatever characters stand between: it accepts `%kd`, which C
leaves undefined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["PrintPlaceholder", "is_format", "split_format"]

_CONVERSIONS = "diuoxXeEfFgGaAcsSpn"
_PLACE = re.compile(rf"%(?:%|([^%{_CONVERSIONS}]*)([{_CONVERSIONS}]))")


@dataclass(frozen=True)
class PrintPlaceholder:
    """One conversion of a format: the text before it, its modifiers and its letter."""

    before: str
    modifiers: str  # between the percent sign and the letter
    letter: str


def is_format(text: str) -> bool:
    """Whether every conversion of a format is terminated."""
    return "%" not in _PLACE.sub("", text)


def split_format(text: str) -> tuple[tuple[PrintPlaceholder, ...], str]:
    """Return the conversions of a format in order, and the text after the last one."""
    places, before, at = [], "", 0
    for match in _PLACE.finditer(text):
        before += text[at : match.start()]
        at = match.end()
        if match[2] is None:
            before += "%"
        else:
            places.append(PrintPlaceholder(before, match[1], match[2]))
            before = ""
    return tuple(places), before + text[at:]

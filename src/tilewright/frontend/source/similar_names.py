"""Spelling suggestions: known names within a few typing errors of an unknown one.

A wrong suggestion misleads, so names are compared within their kind (a class is no function), and
may differ by one key in four at most.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["similar_names"]

_MOST = 3


def similar_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Known names of the same kind that are nearly this one, nearest first."""
    allowed = max(1, len(name) // 4)
    found = []
    for each in dict.fromkeys(known):
        if each.startswith("_") or _kind(each) != _kind(name) or len(name) < 2:
            continue
        if abs(len(each) - len(name)) <= allowed:
            distance = _slips(name, each)
            if distance <= allowed and distance < len(name) - 1:
                found.append((distance, each))
    return tuple(each for _, each in sorted(found)[:_MOST])


def _kind(name: str) -> tuple[bool, bool]:
    """Whether a name is written like a class, and whether like a constant."""
    return name[:1].isupper(), name.isupper()


def _slips(left: str, right: str) -> int:
    """The least number of keys that were left out, added, mistaken or transposed."""
    rows = [list(range(len(right) + 1))]
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            least = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                least = min(least, rows[-2][j - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]

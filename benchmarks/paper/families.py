"""Families of candidates that differ in one setting; the best one represents its family."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.bench import Comparison

__all__ = ["Best", "Families"]


class Best(NamedTuple):
    """The fastest candidate of a family, and its setting."""

    seconds: float
    how: str


class Families:
    """Names of candidates, each with its family and its setting."""

    def __init__(self) -> None:
        self._members: dict[str, tuple[str, str]] = {}

    def name(self, family: str, how: str = "") -> str:
        """The name of a candidate."""
        name = f"{family}, {how}" if how else family
        self._members[name] = family, how
        return name

    def best(self, found: Comparison) -> dict[str, Best]:
        """The fastest candidate of each timed family."""
        best: dict[str, Best] = {}
        for name, (family, how) in self._members.items():
            if name in found:
                one = Best(found.seconds(name), how)
                best[family] = min(best.get(family, one), one)
        return best

"""Timings as data: seconds of one run, one figure for each repetition."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

__all__ = ["Effort", "Timing"]

_FEWEST = 3  # figures of a run that is too long for more


@dataclass(frozen=True)
class Effort:
    """Amount of measurement."""

    repetitions: int = 25  # figures of one timing
    warmup: float = 0.05  # seconds of running before the first figure
    shortest: float = 2e-4  # seconds of a figure, so that reading the clock is negligible
    rounds: int = 5  # timings of each candidate of a comparison
    longest: float = math.inf  # seconds of a timing: slower runs get fewer figures, at least a few

    def __post_init__(self) -> None:
        if self.repetitions < 1 or self.rounds < 1:
            raise ValueError(
                "at least one repetition and one round are needed, not "
                f"repetitions={self.repetitions} and rounds={self.rounds}"
            )
        if self.warmup < 0 or self.shortest < 0 or not self.longest > 0:
            raise ValueError(
                "warmup and shortest are seconds, not below zero, and longest is above, not "
                f"warmup={self.warmup}, shortest={self.shortest} and longest={self.longest}"
            )

    def figures(self, seconds: float) -> int:
        """Return the number of figures of a timing if each takes about so many seconds."""
        if self.repetitions * seconds <= self.longest:
            return self.repetitions
        return min(self.repetitions, max(_FEWEST, int(self.longest / seconds)))


@dataclass(frozen=True)
class Timing:
    """Seconds of one run, in the order they were measured."""

    seconds: tuple[float, ...]
    batch: int = 1  # runs averaged in each figure

    @property
    def median(self) -> float:
        """Median of the figures."""
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        """Least of the figures."""
        return min(self.seconds)

    def quantile(self, fraction: float) -> float:
        """Return the quantile of the figures, with linear interpolation."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"a quantile is between 0 and 1, and {fraction} is not")
        ordered = sorted(self.seconds)
        place = fraction * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    def per(self, count: int) -> Timing:
        """Return the timing of one item of `count` in each run, such as a node of a graph."""
        return Timing(tuple(second / count for second in self.seconds), self.batch * count)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "median": self.median,
            "least": self.least,
            "p20": self.quantile(0.2),
            "p80": self.quantile(0.8),
            "repetitions": len(self.seconds),
            "batch": self.batch,
        }

"""What was measured of one thing: seconds a run, one figure for each repetition. Only data."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

__all__ = ["Effort", "Timing"]

_FEWEST = 3  # figures of what takes so long that there is no time for more


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    repetitions: int = 25  # figures of one timing
    warmup: float = 0.05  # seconds of running before the first figure
    shortest: float = 2e-4  # seconds of a figure: the cost of looking at the clock must not show
    rounds: int = 5  # timings of each candidate of a comparison
    longest: float = math.inf  # seconds of a timing: what takes longer has fewer figures, not one

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
        """How many figures a timing has if each takes about so many seconds."""
        if self.repetitions * seconds <= self.longest:
            return self.repetitions
        return min(self.repetitions, max(_FEWEST, int(self.longest / seconds)))


@dataclass(frozen=True)
class Timing:
    """Seconds of one run, in the order they were measured."""

    seconds: tuple[float, ...]
    batch: int = 1  # runs that each figure is the mean of

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        """The shortest one."""
        return min(self.seconds)

    def quantile(self, fraction: float) -> float:
        """The time that this fraction of the runs stayed within, between two figures linearly."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"a quantile is between 0 and 1, and {fraction} is not")
        ordered = sorted(self.seconds)
        place = fraction * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    def per(self, count: int) -> Timing:
        """The time of one, where a run was many of them: the nodes of a graph."""
        return Timing(tuple(second / count for second in self.seconds), self.batch * count)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "median": self.median,
            "least": self.least,
            "p20": self.quantile(0.2),
            "p80": self.quantile(0.8),
            "repetitions": len(self.seconds),
            "batch": self.batch,
        }

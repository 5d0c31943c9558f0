"""Data of a search: its budget, its progress and its result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.bench.timing import Effort
from tilewright.errors import TuneError
from tilewright.tune.attempts import Attempt, Verdict

__all__ = ["Progress", "Report", "SearchPlan", "SearchResult"]

_SHORT = Effort(repetitions=5, warmup=0.004, shortest=1e-4, rounds=1, longest=0.01)
_THOROUGH = Effort(repetitions=9, warmup=0.01, rounds=5, longest=0.02)
_LEAST_GAIN = 0.005  # as a fraction: a smaller gain is not worth a record, however low the noise


@dataclass(frozen=True)
class SearchPlan:
    """Budget of a search."""

    seconds: float = math.inf  # after which no further candidate is tried
    finalists: int = 4  # candidates of the final comparison, which the first candidate joins
    near: float = 1.15  # times the best short timing: a slower candidate is no finalist
    spilled: int = 512  # bytes per thread, above which a candidate is not run
    hopeless: float = 2.0  # times the best so far: a candidate with slower first runs is not timed
    first: Effort = field(default_factory=lambda: _SHORT)
    last: Effort = field(default_factory=lambda: _THOROUGH)

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.finalists >= 1 and min(self.near, self.hopeless) >= 1):
            raise TuneError(
                "a search takes some seconds, has at least one finalist and gives none up that is "
                f"faster (near and hopeless are at least 1), not seconds={self.seconds}, "
                f"finalists={self.finalists}, near={self.near} and hopeless={self.hopeless}"
            )


@dataclass(frozen=True)
class Progress:
    """Progress of a search; `latest` is the last attempt."""

    done: int
    total: int
    best: Attempt | None
    latest: Attempt | None


@dataclass(frozen=True)
class SearchResult:
    """Result of a search."""

    winner: Attempt
    seconds: float  # of the winner, in the final comparison
    noise: float  # of the final comparison, as a fraction
    untuned: float | None  # seconds of the default, if known
    attempts: tuple[Attempt, ...]  # of all candidates tried, in the order of the space
    skipped: int  # candidates for which there was no time

    @property
    def gain(self) -> float | None:
        """Speed of the winner relative to the default."""
        return None if self.untuned is None else self.untuned / self.seconds

    @property
    def is_better(self) -> bool:
        """Whether the winner is faster than the default by more than the noise."""
        return self.gain is None or self.gain > 1 + max(self.noise, _LEAST_GAIN)

    @property
    def counts(self) -> dict[Verdict, int]:
        """Return the number of candidates by outcome."""
        return dict(Counter(attempt.verdict for attempt in self.attempts))


# Callback for the progress of a search.
Report = Callable[[Progress], None]

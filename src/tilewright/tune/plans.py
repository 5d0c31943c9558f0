"""How much a search does, how far it is, and what it came to: only data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.bench.timing import Effort
from tilewright.errors import TuneError
from tilewright.tune.attempts import Attempt, Verdict

__all__ = ["Found", "Plan", "Progress", "Report"]

_SHORT = Effort(repetitions=5, warmup=0.004, shortest=1e-4, rounds=1, longest=0.01)
_THOROUGH = Effort(repetitions=9, warmup=0.01, rounds=5, longest=0.02)
_LEAST_GAIN = 0.005  # as a fraction: less is not worth a record, however quiet the machine


@dataclass(frozen=True)
class Plan:
    """How much to search."""

    seconds: float = math.inf  # after which no further candidate is tried
    finalists: int = 4  # that run off against each other, and the first candidate with them
    near: float = 1.15  # times the best of short timings: one that is slower is no finalist
    spilled: int = 512  # bytes a thread, above which a candidate is not run
    hopeless: float = 2.0  # times the best so far: one whose first runs take longer is not timed
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
    """How far a search is; `latest` is what was found last."""

    done: int
    total: int
    best: Attempt | None
    latest: Attempt | None


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    winner: Attempt
    seconds: float  # the winner's, in the run-off
    noise: float  # of the run-off, as a fraction
    untuned: float | None  # seconds of what runs without a record, if that is known
    attempts: tuple[Attempt, ...]  # of all candidates that were tried, in the order of the space
    skipped: int  # for which there was no time

    @property
    def gain(self) -> float | None:
        """How many times as fast the winner is as what runs without a record."""
        return None if self.untuned is None else self.untuned / self.seconds

    @property
    def is_better(self) -> bool:
        """Whether the winner is faster, by more than the noise, than what runs without a record."""
        return self.gain is None or self.gain > 1 + max(self.noise, _LEAST_GAIN)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many candidates came how far."""
        return dict(Counter(attempt.verdict for attempt in self.attempts))


# Who wants to know how far a search is.
Report = Callable[[Progress], None]

"""Comparison of ways to do the same work, robust to a machine that changes meanwhile.

A GPU slows down as it heats up, so candidates alternate in rounds, and the figure of each is the
best of its medians. The first candidate, the base, is timed a second time at the end of every
round: the distance between its two figures is the noise, and a smaller difference between two
candidates is meaningless. A candidate with a wrong result is reported and never timed.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.bench.subjects import Run
from tilewright.bench.timer import Timer
from tilewright.bench.timing import Effort, Timing
from tilewright.runtime.devices.stream import Stream

__all__ = ["Candidate", "Comparison", "compare"]


@dataclass(frozen=True)
class Candidate:
    """One way to do the work.

    `error` runs it on poisoned outputs and returns its relative error, which `limit` bounds.
    """

    name: str
    run: Run
    error: Callable[[], float] | None = None
    limit: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """Timings of all candidates, one for each round; a failed candidate has a reason instead."""

    base: str
    timings: Mapping[str, tuple[Timing, ...]]
    again: tuple[Timing, ...]  # the base, at the end of each round
    errors: Mapping[str, float]
    failures: Mapping[str, str]

    def __contains__(self, name: object) -> bool:
        """Whether a candidate was timed."""
        return name in self.timings

    def seconds(self, name: str) -> float:
        """Return the best of a candidate's medians; NaN if it failed."""
        if name not in self.timings and name not in self.failures:
            known = ", ".join((*self.timings, *self.failures))
            raise ValueError(f"there was no candidate `{name}`; there were: {known}")
        return _best(self.timings.get(name, ()))

    def speed(self, name: str, against: str | None = None) -> float:
        """Return the speed of a candidate relative to another, by default the base."""
        return self.seconds(self.base if against is None else against) / self.seconds(name)

    def per(self, count: int) -> Comparison:
        """Return the comparison for one item of `count` in each run, such as a node of a graph."""
        each = {
            name: tuple(timing.per(count) for timing in timings)
            for name, timings in self.timings.items()
        }
        again = tuple(timing.per(count) for timing in self.again)
        return replace(self, timings=each, again=again)

    @property
    def noise(self) -> float:
        """Relative distance between the two figures of the base."""
        return abs(_best(self.again) / self.seconds(self.base) - 1)

    @property
    def fastest(self) -> str | None:
        """Name of the fastest candidate, if any was timed."""
        return min(self.timings, key=self.seconds, default=None)

    def to_json(self) -> dict[str, Any]:
        """Return plain data: seconds, ratios to the base, all medians, errors and failures."""
        rows = {
            name: {
                "seconds": self.seconds(name),
                "speed": self.speed(name),
                "medians": [timing.median for timing in timings],
                "error": self.errors.get(name),
            }
            for name, timings in self.timings.items()
        }
        return {
            "base": self.base,
            "noise": self.noise,
            "candidates": rows,
            "failures": dict(self.failures),
        }


def _best(timings: Sequence[Timing]) -> float:
    return min((timing.median for timing in timings), default=math.nan)


def compare(
    candidates: Iterable[Candidate] | Mapping[str, Run],
    *,
    stream: Stream | None = None,
    effort: Effort | None = None,
    flush: bool = False,
    timer: Timer | None = None,
) -> Comparison:
    """Time candidates in turns; the first one is the base of the comparison.

    A mapping from names to callables stands for candidates without a check.
    """
    if isinstance(candidates, Mapping):
        candidates = [Candidate(str(name), run) for name, run in candidates.items()]
    chosen = tuple(candidates)
    _check(chosen)
    timer = timer or Timer(stream, effort, flush=flush)
    race = _Race(timer)
    for candidate in chosen:
        race.enter(candidate)
    race.run(chosen[0].name)
    return Comparison(
        chosen[0].name,
        {name: tuple(found) for name, found in race.found.items()},
        tuple(race.again),
        race.errors,
        race.failures,
    )


def _check(candidates: tuple[Candidate, ...]) -> None:
    names = [candidate.name for candidate in candidates]
    if not names:
        raise ValueError("there is nothing to compare: no candidate was given")
    if len(set(names)) < len(names):
        raise ValueError(f"candidates are told apart by their names, and these are not: {names}")


class _Race:
    """The correct candidates, and their timings so far."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._prepared: dict[str, Any] = {}
        self.found: dict[str, list[Timing]] = {}
        self.again: list[Timing] = []
        self.errors: dict[str, float] = {}
        self.failures: dict[str, str] = {}

    def enter(self, candidate: Candidate) -> None:
        """Check a candidate and warm it up; a failure does not affect the others."""
        try:
            if candidate.error is not None:
                error = self.errors[candidate.name] = candidate.error()
                if not error <= candidate.limit:
                    self.failures[candidate.name] = (
                        f"wrong: relative error {error:.3g}, and {candidate.limit:.3g} is allowed"
                    )
                    return
            self._prepared[candidate.name] = self._timer.prepare(candidate.run)
            self.found[candidate.name] = []
        except Exception as error:  # noqa: BLE001
            self._drop(candidate.name, error)

    def run(self, base: str) -> None:
        """Time all candidates in rounds, each with the base again at its end."""
        for _ in range(self._timer.effort.rounds):
            for name in tuple(self._prepared):
                self._time(name, self.found[name])
            if base in self._prepared:
                self._time(base, self.again)

    def _time(self, name: str, figures: list[Timing]) -> None:
        try:
            figures.append(self._timer.measure(*self._prepared[name]))
        except Exception as error:  # noqa: BLE001 (other candidates continue)
            self._drop(name, error)

    def _drop(self, name: str, error: Exception) -> None:
        self.failures[name] = "".join(traceback.format_exception_only(error)).strip()
        self._prepared.pop(name, None)
        self.found.pop(name, None)

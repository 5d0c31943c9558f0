"""Attempts: the outcome of one candidate of a search, as data for the journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tilewright.backends.cuda.cubin import Resources
from tilewright.backends.cuda.residency import blocks_at_once
from tilewright.errors import TuneError
from tilewright.tune.config import Config

__all__ = ["Attempt", "Usage", "Verdict", "tally"]


class Verdict(Enum):
    """Outcome of a candidate."""

    REFUSED = "refused"  # it does not compile, or the launch is refused
    PRUNED = "pruned"  # its resources rule it out
    FAILED = "failed"  # it could not be run
    WRONG = "wrong"  # its result differs from the reference
    LOST = "lost"  # the process ended, or was ended, while it ran
    SLOW = "slow"  # its first runs took so long that it was not timed
    TIMED = "timed"


@dataclass(frozen=True)
class Usage:
    """Resources of one launch: the maximum over its kernels."""

    registers: int  # per thread
    shared_memory: int  # bytes per block
    spilled: int  # bytes per thread, on the stack
    at_once: int | None = None  # resident blocks of a multiprocessor, if known

    @staticmethod
    def of(kernels: tuple[Resources, ...], target: str) -> Usage | None:
        """Return the resources of kernels on a target, or None if the assembler reports none."""
        if not kernels:
            return None
        fitting = [blocks_at_once(one, target) for one in kernels]
        return Usage(
            max(one.registers for one in kernels),
            max(one.shared_memory for one in kernels),
            max(one.stack_bytes for one in kernels),
            min((count for count in fitting if count is not None), default=None),
        )

    def against(self, config: Config, most_spilled: int) -> str:
        """Return the reason not to run a launch with these resources, or an empty string."""
        if self.spilled > most_spilled:
            return f"it spills {self.spilled} bytes a thread"
        if self.at_once == 0:
            return f"no multiprocessor takes a block of it ({self})"
        asked = config["occupancy"]
        if asked is not None and self.at_once is not None and self.at_once < asked:
            return f"it asks for {asked} blocks at once, and {self.at_once} fit ({self})"
        return ""

    def __str__(self) -> str:
        return (
            f"{self.registers} registers, {self.shared_memory:,} bytes shared, "
            f"{self.spilled} bytes spilled"
        )


@dataclass(frozen=True)
class Attempt:
    """One candidate, its outcome, and the reason."""

    config: Config
    verdict: Verdict
    seconds: float | None = None  # median, if it was timed, or that of its first runs
    error: float | None = None  # relative to the reference, if it was checked
    reason: str = ""
    usage: Usage | None = None

    def to_json(self) -> dict[str, Any]:
        """Return data for `from_json`."""
        return {
            "config": self.config.to_json(),
            "verdict": self.verdict.value,
            "seconds": self.seconds,
            "error": self.error,
            "reason": self.reason,
            "usage": None if self.usage is None else list(vars(self.usage).values()),
        }

    @staticmethod
    def from_json(data: Any) -> Attempt:
        """Return an attempt that `to_json` wrote; other data is a `TuneError`."""
        try:
            return Attempt(
                Config.from_json(data["config"]),
                Verdict(data["verdict"]),
                data["seconds"],
                data["error"],
                data["reason"],
                None if data["usage"] is None else Usage(*data["usage"]),
            )
        except (TypeError, KeyError, ValueError) as error:
            raise TuneError(f"this is no attempt of a candidate: {data!r}") from error


def tally(attempts: Iterable[Attempt]) -> list[str]:
    """Count the attempts of each outcome, a line each, with the first reason where there is one."""
    found: dict[Verdict, list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.verdict, []).append(attempt)
    return [_line(verdict, alike) for verdict, alike in found.items()]


def _line(verdict: Verdict, alike: list[Attempt]) -> str:
    first = alike[0]
    reason = f": {first.reason} ({first.config})" if first.reason else ""
    return f"{len(alike)} {verdict.value}{reason}"

"""What became of one candidate of a search: only data, as it stands in the journal."""

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
    """How far a candidate came."""

    REFUSED = "refused"  # it does not compile, or the launch is refused
    PRUNED = "pruned"  # what the assembler says of it rules it out
    FAILED = "failed"  # it could not be run
    WRONG = "wrong"  # what it computes differs from the reference
    LOST = "lost"  # the process ended, or was ended, while it ran
    SLOW = "slow"  # its first runs took so long that it was not timed
    TIMED = "timed"


@dataclass(frozen=True)
class Usage:
    """What the kernels of one launch take: the most of each."""

    registers: int  # a thread
    shared_memory: int  # bytes a block
    spilled: int  # bytes a thread, on the stack
    at_once: int | None = None  # blocks that a multiprocessor takes, if that is known

    @staticmethod
    def of(kernels: tuple[Resources, ...], target: str) -> Usage | None:
        """What several kernels take on a target, or None where the assembler does not say."""
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
        """Why a launch that takes this much is not worth running; nothing if it may be."""
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
    """One candidate, how far it came, and why no further."""

    config: Config
    verdict: Verdict
    seconds: float | None = None  # its median, if it was timed, or that of its first runs
    error: float | None = None  # relative to the reference, if it was checked
    reason: str = ""
    usage: Usage | None = None

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
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
        """An attempt that was written by `to_json`; anything else is a `TuneError`."""
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
    """How many came how far, a line each, with the reason of the first where there is one."""
    found: dict[Verdict, list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.verdict, []).append(attempt)
    return [_line(verdict, alike) for verdict, alike in found.items()]


def _line(verdict: Verdict, alike: list[Attempt]) -> str:
    first = alike[0]
    reason = f": {first.reason} ({first.config})" if first.reason else ""
    return f"{len(alike)} {verdict.value}{reason}"

"""The ledger: every check of a kernel, with its outcome and the reason.

Data only; `bounds` fills it, `tilewright explain` prints it and a ratchet test pins its counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from tilewright.source import Location

__all__ = ["Counts", "Ledger", "LedgerEntry", "Rung"]


class Rung(Enum):
    """The rung of the ladder that settled a check, the best first."""

    PROVED = "proved"
    LAUNCH = "launch"
    HOISTED = "hoisted"
    IN_PLACE = "in place"

    @property
    def is_in_kernel(self) -> bool:
        """Whether the check runs in the kernel."""
        return self in (Rung.HOISTED, Rung.IN_PLACE)


@dataclass(frozen=True)
class LedgerEntry:
    """One check."""

    outcome: Rung
    location: Location | None
    subject: str  # the indexed object or the divisor, as in the source
    axis: int | None  # None for a divisor
    reason: str  # a sentence for messages

    def to_json(self) -> dict[str, Any]:
        """The entry as plain data."""
        return {
            "outcome": self.outcome.value,
            "location": None if self.location is None else str(self.location),
            "subject": self.subject,
            "axis": self.axis,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Counts:
    """Number of checks by outcome."""

    proved: int
    launch: int
    hoisted: int
    in_place: int


@dataclass(frozen=True)
class Ledger:
    """All checks of a kernel, in program order."""

    entries: tuple[LedgerEntry, ...] = ()

    @property
    def counts(self) -> Counts:
        """Number of checks by outcome."""
        found = [entry.outcome for entry in self.entries]
        return Counts(*(found.count(outcome) for outcome in Rung))

    @property
    def in_kernel(self) -> tuple[LedgerEntry, ...]:
        """The checks that `deny_checks` refuses."""
        return tuple(entry for entry in self.entries if entry.outcome.is_in_kernel)

    def to_json(self) -> list[dict[str, Any]]:
        """The ledger as plain data."""
        return [entry.to_json() for entry in self.entries]

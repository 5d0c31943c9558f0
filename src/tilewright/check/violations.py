"""Certain violations of a kernel's checks, as data; `check.errors` has their texts."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.check_sites import CheckSite
from tilewright.source import Location

__all__ = [
    "IndexOutOfRange",
    "RequireNeverHolds",
    "RequireNotLaunchKnown",
    "StepNotAboveZero",
    "Violation",
    "ZeroDivisor",
]


@dataclass(frozen=True)
class IndexOutOfRange:
    """An index that leaves its axis on every launch that reaches it."""

    location: Location | None
    site: CheckSite
    index: str  # the offending index, in the author's names: `-2`, `ceil(x.shape[1] / 64)`
    count: str  # the number of places along the axis
    is_negative: bool  # below zero; otherwise past the end


@dataclass(frozen=True)
class ZeroDivisor:
    """A divisor that is always zero."""

    location: Location | None


@dataclass(frozen=True)
class RequireNotLaunchKnown:
    """A precondition on a value that is not known at launch."""

    location: Location | None
    text: str
    culprit: str  # the name of the unknown value, if it has one
    why: str  # its origin: "read from memory"


@dataclass(frozen=True)
class RequireNeverHolds:
    """A precondition that no launch satisfies."""

    location: Location | None
    text: str


@dataclass(frozen=True)
class StepNotAboveZero:
    """The step of a loop that is not known to be above zero."""

    location: Location | None
    step: str
    why: str  # its origin: "read from memory"


# Every certain violation.
Violation = (
    IndexOutOfRange | ZeroDivisor | RequireNotLaunchKnown | RequireNeverHolds | StepNotAboveZero
)

"""What is certainly wrong with a kernel's checks: data, for `check.errors` to put into words."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.ops.internal import CheckSite
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
    """An index that leaves its axis on every launch that gets there."""

    location: Location | None
    site: CheckSite
    index: str  # the offending index, in the author's names: `-2`, `ceil(x.shape[1] / 64)`
    count: str  # how many there are along the axis
    is_negative: bool  # below zero; otherwise past the end


@dataclass(frozen=True)
class ZeroDivisor:
    """A divisor that is always zero."""

    location: Location | None


@dataclass(frozen=True)
class RequireNotLaunchKnown:
    """A precondition on something that is not known when the kernel is launched."""

    location: Location | None
    text: str
    culprit: str  # the name of what is not known, if it has one
    why: str  # how it comes about: "read from memory"


@dataclass(frozen=True)
class RequireNeverHolds:
    """A precondition that no launch satisfies."""

    location: Location | None
    text: str


@dataclass(frozen=True)
class StepNotAboveZero:
    """The step of a loop of which nothing says that it is above zero."""

    location: Location | None
    step: str
    why: str  # how it comes about: "read from memory"


# Everything that a kernel can get certainly wrong here.
Violation = (
    IndexOutOfRange | ZeroDivisor | RequireNotLaunchKnown | RequireNeverHolds | StepNotAboveZero
)

"""Problems of bounds: indices that certainly leave their axis, and checks that are not allowed."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.check.violations import (
    IndexOutOfRange,
    RequireNeverHolds,
    RequireNotLaunchKnown,
    StepNotAboveZero,
    Violation,
    ZeroDivisor,
)
from tilewright.diagnostics import Problem

__all__ = [
    "CertainViolation",
    "CheckDenied",
    "DivisionByZero",
    "FalseRequire",
    "ImpossibleRequire",
    "StepOfUnknownSign",
    "UncheckableRequire",
    "violation_problem",
]


@dataclass(frozen=True)
class BoundsProblem(Problem):
    """Base of the family."""

    code = "bounds"


@dataclass(frozen=True)
class CertainViolation(BoundsProblem):
    """An index that is outside on every launch that reaches it."""

    violation: IndexOutOfRange

    @property
    def title(self) -> str:
        site = self.violation.site
        side = "below the start" if self.violation.is_negative else "past the end"
        return (
            f"index {self.violation.index} is {side} of {site.place} along axis {site.axis}, "
            f"which has {site.counted(self.violation.count)}"
        )

    @property
    def helps(self) -> tuple[str, ...]:
        if self.violation.site.of_tile:
            return ("parts are numbered from 0, and not by elements",)
        return ("they are numbered from 0 to `num_tiles(axis) - 1`",)


@dataclass(frozen=True)
class CheckDenied(BoundsProblem):
    """A check that would stay in a kernel that allows none."""

    subject: str
    axis: int | None
    reason: str

    @property
    def title(self) -> str:
        if self.axis is None:
            return "this divisor would need a check inside the kernel, and deny_checks is set"
        return (
            f"this index of `{self.subject}` along axis {self.axis} would need a check inside the "
            f"kernel, and deny_checks is set"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.reason,)

    @property
    def helps(self) -> tuple[str, ...]:
        if self.axis is None:
            return ("guard it with `if`, or state `tw.require(…)` on values of the launch",)
        return (
            "count over the axis itself (`range(p.num_tiles(axis))`), guard the access with `if`, "
            "or state facts of the launch with `tw.require(…)`",
            "a place read from memory is brought inside with `p.clip(i, axis)`, or read with "
            "`x.gather(…)`, which pads the elements outside",
        )


@dataclass(frozen=True)
class UncheckableRequire(BoundsProblem):
    """A precondition on a value that is known in the kernel only."""

    violation: RequireNotLaunchKnown

    @property
    def title(self) -> str:
        return "tw.require is about values of the launch: extents, tile counts, scalars, constants"

    @property
    def notes(self) -> tuple[str, ...]:
        subject = f"`{self.violation.culprit}`" if self.violation.culprit else "a part of it"
        return (f"{subject} is {self.violation.why}, which no launch knows",)

    @property
    def helps(self) -> tuple[str, ...]:
        return ("inside the kernel use `if`, which also proves the accesses that it guards",)


@dataclass(frozen=True)
class StepOfUnknownSign(BoundsProblem):
    """A loop whose step may be zero or negative."""

    violation: StepNotAboveZero

    @property
    def title(self) -> str:
        return "nothing says that the step of this `range` is above zero"

    @property
    def notes(self) -> tuple[str, ...]:
        why = f" is {self.violation.why}, which no launch knows" if self.violation.why else ""
        return (f"`{self.violation.step}`{why}",) if why else ()

    @property
    def helps(self) -> tuple[str, ...]:
        return (
            "`if` around the loop proves it: `if step > 0:`; `max(step, 1)` makes it so",
            "a loop that counts down has a negative constant as its step, or is a `while`",
        )


@dataclass(frozen=True)
class ImpossibleRequire(BoundsProblem):
    """A precondition that no launch satisfies."""

    text: str

    @property
    def title(self) -> str:
        return f"no launch can satisfy `{self.text}`"


@dataclass(frozen=True)
class FalseRequire(BoundsProblem):
    """A precondition that the constants of a call break."""

    text: str

    @property
    def title(self) -> str:
        return f"`{self.text}` is false for the constants of this call"

    @property
    def helps(self) -> tuple[str, ...]:
        return ("call the kernel with other tiles or constants",)


@dataclass(frozen=True)
class DivisionByZero(BoundsProblem):
    """Division by a value that is always zero."""

    @property
    def title(self) -> str:
        return "division by zero"


def violation_problem(violation: Violation) -> Problem:
    """The problem to report for a certain violation."""
    location = violation.location
    assert location is not None, "checks of the front end have a place in the source"
    span, calls = location.span, location.calls
    match violation:
        case IndexOutOfRange():
            return CertainViolation(span, violation, calls=calls)
        case RequireNotLaunchKnown():
            return UncheckableRequire(span, violation, calls=calls)
        case StepNotAboveZero():
            return StepOfUnknownSign(span, violation, calls=calls)
        case RequireNeverHolds():
            return ImpossibleRequire(span, violation.text, calls=calls)
        case ZeroDivisor():
            return DivisionByZero(span, calls=calls)

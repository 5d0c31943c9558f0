"""Problems of bounds: indices that certainly leave their axis, and checks that are not allowed."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import Problem

__all__ = ["CertainViolation", "CheckDenied", "RequireNotLaunchKnown", "ZeroDivisor"]


@dataclass(frozen=True)
class BoundsProblem(Problem):
    """Base of the family."""

    code = "bounds"


@dataclass(frozen=True)
class CertainViolation(BoundsProblem):
    """An index that is outside on every launch."""

    subject: str
    axis: int
    reason: str

    @property
    def title(self) -> str:
        return f"this index is outside `{self.subject}` along axis {self.axis}: {self.reason}"


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
            return ("guard it with `if`, or state `tw.require(…)` on what the launch knows",)
        return (
            "count over the axis itself (`range(p.num_tiles(axis))`), guard the access with `if`, "
            "or state what the launch knows with `tw.require(…)`",
        )


@dataclass(frozen=True)
class RequireNotLaunchKnown(BoundsProblem):
    """A precondition over things that only the kernel knows."""

    @property
    def title(self) -> str:
        return "tw.require is about what a launch knows: extents, tile counts, scalars, constants"

    @property
    def helps(self) -> tuple[str, ...]:
        return ("inside the kernel use `if`, which also proves what it guards",)


@dataclass(frozen=True)
class ZeroDivisor(BoundsProblem):
    """Division by a constant zero."""

    @property
    def title(self) -> str:
        return "division by zero"

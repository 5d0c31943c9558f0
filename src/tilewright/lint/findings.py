"""Findings of the host check: each with the line at fault and the line that it conflicts with."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import Label, Problem
from tilewright.source import Span

__all__ = [
    "AliasedLaunch",
    "HeldTensor",
    "HostFinding",
    "MovedWhileHeld",
    "NeverRun",
    "UsedAfterMove",
]

_RUN = "submit, sync or await that operation first, or close it"


@dataclass(frozen=True)
class HostFinding(Problem):
    """A mistake in host code; `other` is the line of the borrow, of the move or of the drop."""

    other: Span


@dataclass(frozen=True)
class HeldTensor(HostFinding):
    """A tensor is used while a built operation holds it."""

    code = "borrow"

    tensor: str
    wish: str  # read or write
    by: str
    holder: str
    purpose: str  # reading or writing

    @property
    def title(self) -> str:
        return (
            f"`{self.tensor}` would be {self.wish} by {self.by} while `{self.holder}` holds it for"
            f" {self.purpose}"
        )

    @property
    def others(self) -> tuple[Label, ...]:
        return (Label(self.other, f"`{self.holder}` is built here and has not been run"),)

    @property
    def notes(self) -> tuple[str, ...]:
        return ("the order of the two is not stated before the first is submitted",)

    @property
    def helps(self) -> tuple[str, ...]:
        return (_RUN,)


@dataclass(frozen=True)
class MovedWhileHeld(HostFinding):
    """A tensor is moved while a built operation holds it."""

    code = "borrow"

    tensor: str
    holder: str

    @property
    def title(self) -> str:
        return f"`{self.tensor}` is moved while `{self.holder}` holds it"

    @property
    def others(self) -> tuple[Label, ...]:
        return (Label(self.other, f"`{self.holder}` is built here and has not been run"),)

    @property
    def helps(self) -> tuple[str, ...]:
        return (_RUN,)


@dataclass(frozen=True)
class AliasedLaunch(HostFinding):
    """One launch writes a tensor and uses it a second time."""

    code = "borrow"

    tensor: str
    callee: str
    verb: str  # read or written
    role: str  # parameter at fault

    @property
    def title(self) -> str:
        return (
            f"`{self.tensor}` is written by this launch of `{self.callee}` and also {self.verb} by"
            f" it as `{self.role}`"
        )

    @property
    def label(self) -> str:
        return f"{self.verb} here"

    @property
    def others(self) -> tuple[Label, ...]:
        return (Label(self.other, "written here"),)

    @property
    def helps(self) -> tuple[str, ...]:
        return ("give it its own tensor, or slices that do not overlap",)


@dataclass(frozen=True)
class UsedAfterMove(HostFinding):
    """A handle is used whose tensor was moved away."""

    code = "moved"

    tensor: str

    @property
    def title(self) -> str:
        return f"`{self.tensor}` is used after its tensor was moved away"

    @property
    def others(self) -> tuple[Label, ...]:
        return (Label(self.other, "moved here"),)

    @property
    def helps(self) -> tuple[str, ...]:
        return ("use the handle that `tw.move` gave there",)


@dataclass(frozen=True)
class NeverRun(HostFinding):
    """An operation is built and dropped."""

    code = "never-run"

    operation: str

    @property
    def title(self) -> str:
        return f"operation `{self.operation}` is built and never run"

    @property
    def label(self) -> str:
        return "built here" if self.other != self.span else ""

    @property
    def others(self) -> tuple[Label, ...]:
        return (Label(self.other, "dropped here"),) if self.other != self.span else ()

    @property
    def helps(self) -> tuple[str, ...]:
        return ("`.submit()` queues it, `.sync()` and `await` also wait, `.close()` gives it up",)

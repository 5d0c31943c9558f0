"""Problems of unsafe code: operations outside an unsafe block, and blocks without a reason."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import Problem

__all__ = ["BadMemoryOrder", "NoReason", "OutsideUnsafe"]


@dataclass(frozen=True)
class UnsafetyProblem(Problem):
    """Base of the family."""

    code = "unsafe"


@dataclass(frozen=True)
class OutsideUnsafe(UnsafetyProblem):
    """An operation that the compiler cannot check, outside an unsafe block."""

    what: str
    why: str
    instead: str = ""

    @property
    def title(self) -> str:
        return f"{self.what} is unsafe, and this is not inside `with tw.unsafe(…)`"

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.why,)

    @property
    def helps(self) -> tuple[str, ...]:
        block = 'say why it is sound: `with tw.unsafe("…"):` around it, in this function'
        return (self.instead, block) if self.instead else (block,)


@dataclass(frozen=True)
class NoReason(UnsafetyProblem):
    """An unsafe block without a reason."""

    got: str

    @property
    def title(self) -> str:
        return f"`tw.unsafe` takes one reason, written out as a string; this is {self.got}"

    @property
    def notes(self) -> tuple[str, ...]:
        return ("`tilewright check` lists every unsafe block with its reason",)

    @property
    def helps(self) -> tuple[str, ...]:
        return ('`with tw.unsafe("rows of two blocks never meet: …"):`',)


@dataclass(frozen=True)
class BadMemoryOrder(UnsafetyProblem):
    """A memory order that this kind of access cannot have."""

    callee: str
    reason: str
    way_out: str

    @property
    def title(self) -> str:
        return f"`{self.callee}`: {self.reason}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,)

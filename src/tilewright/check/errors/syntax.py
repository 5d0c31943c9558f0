"""Problems of syntax: unsupported Python, with the nearest supported construct."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import Problem

__all__ = ["BadCall", "FalseAssertion", "TooDeep", "TooLong", "Unsupported"]


@dataclass(frozen=True)
class SyntaxProblem(Problem):
    """Base of the family."""

    code = "syntax"


@dataclass(frozen=True)
class Unsupported(SyntaxProblem):
    """A construct that is not in the language."""

    construct: str
    instead: str

    @property
    def title(self) -> str:
        return f"{self.construct} is not part of the kernel language"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.instead,) if self.instead else ()


@dataclass(frozen=True)
class BadCall(SyntaxProblem):
    """A call whose arguments do not match."""

    callee: str
    reason: str
    way_out: str = ""

    @property
    def title(self) -> str:
        return f"`{self.callee}`: {self.reason}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,) if self.way_out else ()


@dataclass(frozen=True)
class TooDeep(SyntaxProblem):
    """Unbounded recursion."""

    name: str

    @property
    def title(self) -> str:
        return f"`{self.name}` calls itself: functions are inlined, so a recursion has no end"

    @property
    def helps(self) -> tuple[str, ...]:
        return ("write it as a loop: `for i in range(n):`",)


@dataclass(frozen=True)
class TooLong(SyntaxProblem):
    """A kernel that is endless in practice, once its loops and calls are written out."""

    most: int

    @property
    def title(self) -> str:
        with_all = "with its unrolled loops and calls written out"
        return f"{with_all}, the kernel has over {self.most:,} expressions"

    @property
    def helps(self) -> tuple[str, ...]:
        return ("loop over `range(…)`, whose body is compiled once",)


@dataclass(frozen=True)
class FalseAssertion(Problem):
    """A `tw.static_assert` that does not hold, with its author's message."""

    code = "assert"

    message: str

    @property
    def title(self) -> str:
        return self.message

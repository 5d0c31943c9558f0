"""Problems of names: undefined ones, and values that a kernel cannot capture."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import Problem

__all__ = ["ForeignName", "NotCapturable", "UndefinedName", "UnknownAttribute", "UnsetName"]


@dataclass(frozen=True)
class NameProblem(Problem):
    """Base of the family."""

    code = "names"


@dataclass(frozen=True)
class UndefinedName(NameProblem):
    """A name without a definition."""

    name: str
    similar: str | None = None
    hint: str = ""

    @property
    def title(self) -> str:
        return f"`{self.name}` is not defined"

    @property
    def helps(self) -> tuple[str, ...]:
        meant = () if self.similar is None else (f"did you mean `{self.similar}`?",)
        return (*meant, self.hint) if self.hint else meant


@dataclass(frozen=True)
class ForeignName(NameProblem):
    """A function of another kernel language."""

    name: str
    hint: str

    @property
    def title(self) -> str:
        return f"`{self.name}` belongs to another kernel language"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.hint,)


@dataclass(frozen=True)
class UnsetName(NameProblem):
    """A name without a single value at this point."""

    name: str
    reason: str
    way_out: str

    @property
    def title(self) -> str:
        return f"`{self.name}` cannot be used here: {self.reason}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,)


@dataclass(frozen=True)
class NotCapturable(NameProblem):
    """A value from outside that a kernel cannot capture."""

    name: str
    what: str
    reason: str
    way_out: str

    @property
    def title(self) -> str:
        return f"a kernel cannot use `{self.name}` from outside: it is {self.what}"

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.reason,)

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,)


@dataclass(frozen=True)
class UnknownAttribute(NameProblem):
    """An attribute that a value does not have."""

    owner: str
    name: str
    known: tuple[str, ...]
    hint: str = ""

    @property
    def title(self) -> str:
        return f"{self.owner} has no `{self.name}`"

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.hint,) if self.hint else ()

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"it has: {', '.join(self.known)}",) if self.known else ()

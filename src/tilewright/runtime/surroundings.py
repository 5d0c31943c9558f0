"""What the surroundings of a call say about it: which stream it uses, whether it is an unusual one.

Contexts that change how launches are made (`race_check`, a graph that is recorded) say so in
`UNUSUAL` as well as in a variable of their own. Hardly any launch is made in one, and to ask a
variable of the context is a call. So each of ours has a set next to it, which is empty as long as
no context of the process, of any thread or task, has anything to say: to look at that is no call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Generic, TypeVar
from weakref import ref

__all__ = ["UNUSUAL", "Before", "Said", "Surrounding", "unusual"]

T = TypeVar("T")


class Said(Generic[T]):
    """A value, for as long as some context has it: tasks take over the context they start in."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: T) -> None:
        self.value = value


# What a context said before it said something else.
Before = Token["Said[T] | None"]


class Surrounding(Generic[T]):
    """A variable of the context, None where nobody has set it: `if some.said and some.get(): …`."""

    __slots__ = ("_variable", "said")

    said: set[ref[Said[T]]]  # in all contexts there are, or will be

    def __init__(self, name: str) -> None:
        self._variable: ContextVar[Said[T] | None] = ContextVar(name, default=None)
        self.said = set()

    def get(self) -> T | None:
        """What this context says."""
        said = self._variable.get() if self.said else None
        return None if said is None else said.value

    def saying(self, value: T) -> Said[T]:
        """A value to be set, once or many times."""
        said = Said(value)
        self.said.add(ref(said, self.said.discard))
        return said

    def set(self, said: Said[T]) -> Before[T]:
        """Say it from now on; what comes back is for `reset`."""
        return self._variable.set(said)

    def reset(self, before: Before[T]) -> None:
        """Say what was said before."""
        self._variable.reset(before)


# Whether somebody has to look around. It may stay so longer than it has to.
UNUSUAL: Surrounding[bool] = Surrounding("unusual")


@contextmanager
def unusual() -> Iterator[None]:
    """Inside, launches are not to be made as they were before."""
    before = UNUSUAL.set(UNUSUAL.saying(True))
    try:
        yield
    finally:
        UNUSUAL.reset(before)

"""What the surroundings of a call say about it: which stream it uses, whether it is intercepted.

Contexts that change how launches are made (`race_check`, a graph that is recorded) say so in
`INTERCEPTED` as well as in a variable of their own. Hardly any launch is made in one, and to ask a
variable of the context is a call. So each of ours has a set next to it, which is empty as long as
no context of the process, of any thread or task, has anything to say: to look at that is no call.

A signal may raise before the first instruction of an `__exit__`, or behind the last of an
`__enter__`, and then nothing of ours runs at the end of the block. So what a `with` statement says
holds for as long as Python keeps its exit: the statement alone refers to that object, and lets go
of it however it ends. Whether it is there still is asked, and needs no telling.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from weakref import ref

__all__ = ["INTERCEPTED", "Before", "ContextFlag", "Exit", "Said", "Setting", "intercepted"]

T = TypeVar("T")
G = TypeVar("G")


class Said(Generic[T]):
    """A value, for as long as some context has it: tasks take over the context they start in."""

    __slots__ = ("__weakref__", "before", "exit", "has_ended", "value")

    def __init__(self, value: T) -> None:
        self.value = value
        self.before: Said[T] | None = None  # what was said around the block that says it
        self.exit: ref[Any] | None = None  # of that block
        self.has_ended = False  # in order; tasks that have begun in the block go on with it

    @property
    def holds(self) -> bool:
        """Whether the block has not been left without its exit."""
        return self.exit is None or self.has_ended or self.exit() is not None


# What a context said before it said something else.
Before = Token["Said[T] | None"]


class ContextFlag(Generic[T]):
    """A variable of the context, None where nobody has set it: `if some.said and some.get(): …`."""

    __slots__ = ("said", "variable")

    said: set[ref[Said[T]]]  # in all contexts there are, or will be

    def __init__(self, name: str) -> None:
        self.variable: ContextVar[Said[T] | None] = ContextVar(name, default=None)
        self.said = set()

    def get(self) -> T | None:
        """What this context says."""
        said = self.find() if self.said else None
        return None if said is None else said.value

    def find(self) -> Said[T] | None:
        """What this context says, as it was said; what does not hold any more is forgotten."""
        said = first = self.variable.get()
        while said is not None and not said.holds:
            said = said.before
        if said is not first:
            self.variable.set(said)
        return said

    def saying(self, value: T) -> Said[T]:
        """A value to be set, once or many times."""
        said = Said(value)
        self.said.add(ref(said, self.said.discard))
        return said

    def set(self, said: Said[T] | None) -> Before[T]:
        """Say it from now on; what comes back is for `reset`."""
        return self.variable.set(said)

    def reset(self, before: Before[T]) -> None:
        """Say what was said before."""
        self.variable.reset(before)


class Exit:
    """An `__exit__` that Python asks an object for when a `with` statement begins.

    Each statement gets one of its own. The object knows it as `exit`, and does not keep it.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., None]:
        if instance is None:  # an `ExitStack` calls the function itself
            return self._function
        made = partial(self._function, instance)
        instance.exit = ref(made)
        return made


class Setting(ContextDecorator, Generic[G]):
    """A `with` statement that says something: `with Setting(given, (flag, value)): …`."""

    def __init__(self, given: G, *values: tuple[ContextFlag[Any], Any]) -> None:
        self.exit: ref[Any] | None = None
        self.given = given
        self._values = values
        self._open: list[tuple[ContextFlag[Any], Said[Any], Before[Any]]] = []

    def __enter__(self) -> G:
        self.open(self.exit)
        return self.given

    def open(self, exit_: ref[Any] | None) -> None:
        """Say it, for as long as an exit is there."""
        for flag, value in self._values:
            said = flag.saying(value)
            said.exit, said.before = exit_, flag.find()
            self._open.append((flag, said, flag.set(said)))

    def close(self) -> None:
        """Say what was said before, the last first."""
        while self._open:
            flag, said, before = self._open[-1]
            flag.reset(before)
            said.has_ended = True
            del self._open[-1]

    def _leave(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.close()

    if TYPE_CHECKING:

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None: ...

    else:
        __exit__ = Exit(_leave)

    def _recreate_cm(self) -> Self:
        return type(self)(self.given, *self._values)


# Whether a launch has to look around. It may stay so longer than it has to.
INTERCEPTED: ContextFlag[bool] = ContextFlag("intercepted")


def intercepted() -> Setting[None]:
    """Inside, launches are not to be made as they were before."""
    return Setting(None, (INTERCEPTED, True))

"""Context flags: values that a `with` statement sets for the calls inside it.

Contexts that change launches (`race_check`, recording a graph) set `INTERCEPTED` in addition to a
flag of their own. Few launches run in one, and `ContextVar.get()` is a call. Each flag therefore
has a set, which is empty as long as no context of any thread or task sets the flag: an attribute
test avoids the call.

A signal handler may raise before the first instruction of an `__exit__`, or after the last one of
an `__enter__`, and then no code of ours runs at the end of the block. A value therefore holds as
long as Python keeps the exit of its `with` statement: only the statement refers to that object, and
drops it however it ends. A weak reference tells whether it still exists.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from functools import partial
from typing import Any, Generic, Self, TypeVar
from weakref import ref

from tilewright.errors import LaunchError
from tilewright.native import slots_in_c

__all__ = [
    "INTERCEPTED",
    "ContextFlag",
    "ContextValue",
    "Exit",
    "Setting",
    "is_watching",
    "race_check",
    "require_watchable",
]

T = TypeVar("T")
G = TypeVar("G")


class ContextValue(Generic[T]):
    """A value, as long as some context has it: tasks inherit the context they start in."""

    __slots__ = ("__weakref__", "before", "exit", "has_ended", "value")

    def __init__(self, value: T) -> None:
        self.value = value
        self.before: ContextValue[T] | None = None  # the value set around the block
        self.exit: ref[Any] | None = None  # of the block
        self.has_ended = False  # by its exit; tasks begun in the block keep the value

    @property
    def holds(self) -> bool:
        """Whether the block is open, or has ended by its exit."""
        return self.exit is None or self.has_ended or self.exit() is not None


@slots_in_c
class ContextFlag(Generic[T]):
    """A variable of the context, None if it is not set: `if some.values and some.get(): …`."""

    __slots__ = ("values", "variable")

    values: set[ref[ContextValue[T]]]  # set in any context of the process

    def __init__(self, name: str) -> None:
        self.variable: ContextVar[ContextValue[T] | None] = ContextVar(name, default=None)
        self.values = set()

    def get(self) -> T | None:
        """The value in this context."""
        entry = self.find() if self.values else None
        return None if entry is None else entry.value

    def find(self) -> ContextValue[T] | None:
        """The entry of this context; entries of abandoned blocks are removed."""
        entry = first = self.variable.get()
        while entry is not None and not entry.holds:
            entry = entry.before
        if entry is not first:
            self.variable.set(entry)
        return entry

    def new_value(self, value: T) -> ContextValue[T]:
        """An entry for a value, to be set any number of times."""
        entry = ContextValue(value)
        self.values.add(ref(entry, self.values.discard))
        return entry


class Exit:
    """An `__exit__` that Python looks up when a `with` statement begins.

    Each statement gets an exit of its own. The object has a weak reference to it, `exit`.
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
    """A `with` statement that sets context flags: `with Setting(given, (flag, value)): …`."""

    def __init__(self, given: G, *values: tuple[ContextFlag[Any], Any]) -> None:
        self.exit: ref[Any] | None = None
        self.given = given
        self._values = values
        self._open: list[tuple[ContextFlag[Any], ContextValue[Any], Token[Any]]] = []

    def __enter__(self) -> G:
        self.open(self.exit)
        return self.given

    def open(self, exit_: ref[Any] | None) -> None:
        """Set the values, as long as an exit exists."""
        for flag, value in self._values:
            entry = flag.new_value(value)
            entry.exit, entry.before = exit_, flag.find()
            self._open.append((flag, entry, flag.variable.set(entry)))

    def close(self, *_: object) -> None:
        """Restore the earlier values, in reverse order; the exception of a block is passed on."""
        while self._open:
            flag, entry, before = self._open[-1]
            flag.variable.reset(before)
            entry.has_ended = True
            del self._open[-1]

    __exit__ = Exit(close)

    def _recreate_cm(self) -> Self:
        return type(self)(self.given, *self._values)


# Whether a launch has to check the contexts around it. It may stay set longer than needed.
INTERCEPTED: ContextFlag[bool] = ContextFlag("intercepted")


# --- race checks ----------------------------------------------------------------------------------

# Only the CPU device can watch: it records the reads and writes of every block, and the order that
# tokens give them.
_watching: ContextFlag[bool] = ContextFlag("race_check")


def race_check(watch: bool = True) -> Setting[None]:
    """Watch the launches inside for races; on the CPU only.

    Two accesses of one element race if nothing orders them, one of them writes and one is not
    atomic: of two blocks, which have no order, or of one block, where only tokens order them. A
    race is raised as `UndefinedBehaviourError` by the call that waits for the operation: it names
    both blocks, the element and both lines of the kernel. Outputs are written nevertheless. A graph
    is watched at every replay if its block ends inside.
    """
    return Setting(None, (_watching, watch), (INTERCEPTED, True))


def is_watching() -> bool:
    """Whether a launch put on a stream now is watched."""
    return bool(_watching.get())


def require_watchable(kind: str, kernel: str) -> None:
    """Refuse a watched launch on a device that cannot watch."""
    if is_watching() and kind != "cpu":
        raise LaunchError(
            f"kernel `{kernel}`: race_check watches launches on the CPU, and these tensors are on "
            f"a {kind} device: make them with `with tw.device('cpu'):`"
        )

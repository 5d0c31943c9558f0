"""What a kernel found outside itself when it was compiled, to tell whether that has changed since.

A global, a variable of an enclosing function, an attribute of a module, a helper with its code and
defaults: each is compiled into the kernel as it was. Before a compiled kernel is used again, all of
them are looked up again, but for what this package itself says at the top level of its modules, and
what Python's `math` does: `tw.exp2` and `math.inf` do not become something else. The places,
without the values, can be written down and looked up by another process (`places`, `look_up`).
"""

# pyright takes a function in a field for a method.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from tilewright.frontend.source.capture import SourceFunction, is_free, lookup

__all__ = ["CapturePlace", "Captures", "PlaceKind"]


class PlaceKind(Enum):
    """How a value is found at its owner."""

    NAME = "name"  # as Python finds a name in a function
    ATTRIBUTE = "attribute"  # of a module, a function or a partial function
    DEFAULT = "default"  # of a keyword parameter
    KEYWORDS = "keywords"  # all that a partial function has been given by name
    CONSTANT = "constant"  # that a specialisation has for a parameter


class CapturePlace(NamedTuple):
    """Where a value was found: at the kernel itself (None) or at the value of an earlier place."""

    owner: int | None
    kind: PlaceKind
    name: str


class Captures:
    """The values that one compilation found, and how to find each again."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, PlaceKind, str], tuple[Callable[[], Any], Any]] = {}
        self._watched: list[tuple[Callable[[], Any], Any]] = []  # those that may change

    def name(self, source: SourceFunction, name: str) -> Any:
        """What a name means in a function that was captured; `NameError` if nothing."""
        return self._look(source.function, PlaceKind.NAME, name)

    def constant(self, kernel: FunctionType, name: str, value: Any) -> None:
        """A function or a member of an enum that the kernel is compiled for."""
        self._found[kernel, PlaceKind.CONSTANT, name] = (lambda: value, value)

    def attribute(self, owner: ModuleType | FunctionType | partial[Any], name: str) -> Any:
        """An attribute of a module or a function; `AttributeError` if it has none."""
        return self._look(owner, PlaceKind.ATTRIBUTE, name)

    def partial(self, function: partial[Any]) -> None:
        """A partial function: what it calls, and what it has been given, which can be changed."""
        self.attribute(function, "func")
        self.attribute(function, "args")
        self._look(function, PlaceKind.KEYWORDS, "keywords")

    def helper(self, function: FunctionType) -> None:
        """A function that is inlined: what it does, and what it does without arguments."""
        for name in ("__code__", "__defaults__"):
            self.attribute(function, name)
        for name in function.__kwdefaults__ or ():
            self._look(function, PlaceKind.DEFAULT, name)

    def helpers(self) -> tuple[FunctionType, ...]:
        """The functions that were inlined, each once."""
        owners = (owner for owner, _, name in self._found if name == "__code__")
        return tuple(dict.fromkeys(f for f in owners if isinstance(f, FunctionType)))

    def values(self) -> tuple[Any, ...]:
        """What was found, in order."""
        return tuple(value for _, value in self._found.values())

    @property
    def are_fixed(self) -> bool:
        """Whether nothing was found that could change."""
        return not self._watched

    def are_current(self) -> bool:
        """Whether everything is still what it was."""
        try:
            for read, value in self._watched:
                now = read()
                if now is not value and not _is_same(value, now):
                    return False
        except _GONE:
            return False
        return True

    def places(self, kernel: FunctionType) -> tuple[CapturePlace, ...] | None:
        """Where everything was found, starting from the kernel; None if something is not so."""
        found: list[CapturePlace] = []
        numbers: dict[int, int | None] = {id(kernel): None}
        for (owner, kind, name), (_, value) in self._found.items():
            if id(owner) not in numbers:
                return None
            numbers.setdefault(id(value), len(found))
            found.append(CapturePlace(numbers[id(owner)], kind, name))
        return tuple(found)

    @staticmethod
    def look_up(
        kernel: FunctionType,
        places: Iterable[CapturePlace],
        constants: Mapping[str, Any] | None = None,
    ) -> Captures | None:
        """What is at these places now, and what constants are; None if something is gone.

        The places may come from a file: nothing is asked but functions and modules, and of a module
        only what it has, since its own `__getattr__` is code.
        """
        found = Captures()
        values: list[Any] = []
        try:
            for place in places:
                if place.kind is PlaceKind.CONSTANT:
                    values.append((constants or {})[place.name])
                    found.constant(kernel, place.name, values[-1])
                    continue
                owner = kernel if place.owner is None else values[place.owner]
                if not _is_plain(owner, place):
                    return None
                values.append(found._look(owner, place.kind, place.name))
        except (*_GONE, TypeError, IndexError):  # it is gone, or something else is in its place
            return None
        return found

    def _look(self, owner: Any, kind: PlaceKind, name: str) -> Any:
        key = (owner, kind, name)
        if key not in self._found:  # one meaning for the whole compilation
            read = _READERS[kind](owner, name)
            self._found[key] = found = (read, read())
            if not _is_ours(owner, name):
                self._watched.append(found)
        return self._found[key][1]


_PACKAGE = __name__.partition(".")[0]


def _is_ours(owner: Any, name: str) -> bool:
    """Whether a module of this package, or `math`, has said what is found there for good."""
    if isinstance(owner, FunctionType):
        module = owner.__globals__.get("__name__", "")
        is_fixed = not (owner.__closure__ and is_free(owner, name))
    else:
        module, is_fixed = getattr(owner, "__name__", ""), True
    return is_fixed and (module.partition(".")[0] == _PACKAGE or owner is math)


def _is_plain(owner: Any, place: CapturePlace) -> bool:
    """Whether looking there runs no code but Python's own."""
    if type(owner) is ModuleType:
        return place.kind is PlaceKind.ATTRIBUTE and place.name in vars(owner)
    return type(owner) is FunctionType


_GONE = (NameError, AttributeError, KeyError)


def _name_reader(function: FunctionType, name: str) -> Callable[[], Any]:
    namespace = function.__globals__
    if name in namespace and not is_free(function, name):
        return partial(namespace.__getitem__, name)
    return partial(lookup, function, name)


def _attribute_reader(owner: Any, name: str) -> Callable[[], Any]:
    return partial(getattr, owner, name)


def _default_reader(function: FunctionType, name: str) -> Callable[[], Any]:
    return partial(_keyword_default, function, name)


def _keyword_default(function: FunctionType, name: str) -> Any:
    return (function.__kwdefaults__ or {})[name]


def _keywords_reader(function: partial[Any], _: str) -> Callable[[], Any]:
    return lambda: tuple(function.keywords.items())


_READERS: dict[PlaceKind, Callable[[Any, str], Callable[[], Any]]] = {
    PlaceKind.NAME: _name_reader,
    PlaceKind.ATTRIBUTE: _attribute_reader,
    PlaceKind.DEFAULT: _default_reader,
    PlaceKind.KEYWORDS: _keywords_reader,
}


def _is_same(old: Any, new: Any) -> bool:
    """Whether a kernel could not tell two values apart; 0.0 and -0.0 it can."""
    if old is new or type(old) is not type(new):
        return old is new
    if isinstance(old, tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    if is_dataclass(old):
        names = [field.name for field in fields(old)]
        return all(_is_same(getattr(old, name), getattr(new, name)) for name in names)
    if isinstance(old, float):
        return bool(old.hex() == new.hex())
    if isinstance(old, np.generic):
        return bool(old.dtype == new.dtype and old.tobytes() == new.tobytes())
    return isinstance(old, (int, str)) and bool(old == new)

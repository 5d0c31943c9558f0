"""Captures: the values from outside a kernel at compile time, and whether they are current.

A global, a variable of an enclosing function, an attribute of a module, a helper with its code and
defaults: each is compiled into the kernel with its value. Before a compiled kernel is used again,
all of them are looked up again, except the top-level names of this package and of Python's `math`:
`tw.exp2` and `math.inf` are fixed. The places, without the values, can be stored and looked up by
another process (`places`, `look_up`).
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

from tilewright.frontend.memory.segment_search import find_piece
from tilewright.frontend.source.capture import SourceFunction, is_free, lookup

__all__ = ["CapturePlace", "Captures", "PlaceKind"]


class PlaceKind(Enum):
    """How a value is found at its owner."""

    NAME = "name"  # by Python's lookup of a name in a function
    ATTRIBUTE = "attribute"  # of a module, a function or a partial function
    DEFAULT = "default"  # of a keyword parameter
    KEYWORDS = "keywords"  # all keyword arguments of a partial function
    CONSTANT = "constant"  # of a parameter in the specialisation
    ITEM = "item"  # of a tuple, by its position
    OURS = "ours"  # a function that the front end inlines, by its name


class CapturePlace(NamedTuple):
    """The place of a value: at the kernel itself (None) or at the value of an earlier place."""

    owner: int | None
    kind: PlaceKind
    name: str


class Captures:
    """The captured values of one compilation, and how to look each up again."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, PlaceKind, str], tuple[Callable[[], Any], Any]] = {}
        self._watched: list[tuple[Callable[[], Any], Any]] = []  # those that may change

    def name(self, source: SourceFunction, name: str) -> Any:
        """The value of a name in a captured function; `NameError` if it is undefined."""
        return self._look(source.function, PlaceKind.NAME, name)

    def constant(self, kernel: FunctionType, name: str, value: Any) -> None:
        """Record a constant argument that is a function or a member of an enum."""
        self._found[kernel, PlaceKind.CONSTANT, name] = (lambda: value, value)

    def attribute(self, owner: ModuleType | FunctionType | partial[Any], name: str) -> Any:
        """An attribute of a module or a function; `AttributeError` if it has none."""
        return self._look(owner, PlaceKind.ATTRIBUTE, name)

    def partial(self, function: partial[Any]) -> None:
        """Record a partial function: its function and its bound arguments, which are mutable."""
        self.attribute(function, "func")
        self.attribute(function, "args")
        self._look(function, PlaceKind.KEYWORDS, "keywords")

    def helper(self, function: FunctionType) -> None:
        """Record an inlined function: its code and its defaults."""
        self._record_way(function)
        for name in ("__code__", "__defaults__"):
            self.attribute(function, name)
        for name in function.__kwdefaults__ or ():
            self._look(function, PlaceKind.DEFAULT, name)

    def _record_way(self, function: FunctionType) -> None:
        """Record how an inlined function is found again, if no name of a kernel leads to it.

        It is an item of a captured tuple, or one that the front end itself inlines.
        """
        values = self.values()
        if any(value is function for value in values):
            return
        for value in values:
            if type(value) is tuple and all(type(item) is FunctionType for item in value):
                positions = [at for at, item in enumerate(value) if item is function]
                if positions:
                    self._look(value, PlaceKind.ITEM, str(positions[0]))
                    return
        if _INLINED.get(function.__name__) is function:
            self._look(None, PlaceKind.OURS, function.__name__)

    def helpers(self) -> tuple[FunctionType, ...]:
        """The functions that were inlined, each once."""
        owners = (owner for owner, _, name in self._found if name == "__code__")
        return tuple(dict.fromkeys(f for f in owners if isinstance(f, FunctionType)))

    def values(self) -> tuple[Any, ...]:
        """The captured values, in order."""
        return tuple(value for _, value in self._found.values())

    @property
    def are_fixed(self) -> bool:
        """Whether no captured value can change."""
        return not self._watched

    def are_current(self) -> bool:
        """Whether every captured value is current."""
        try:
            for read, value in self._watched:
                now = read()
                if now is not value and not _is_same(value, now):
                    return False
        except _GONE:
            return False
        return True

    def places(self, kernel: FunctionType) -> tuple[CapturePlace, ...] | None:
        """The places of all values, starting from the kernel; None if one has no such place."""
        found: list[CapturePlace] = []
        numbers: dict[int, int | None] = {id(kernel): None, id(None): None}
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
        """The current values at these places, and the constants; None if one is gone.

        The places may come from a file: only functions and modules are read, and of a module only
        its own attributes, since its `__getattr__` is code.
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
                if place.kind is PlaceKind.OURS:
                    owner = None
                if not _is_plain(owner, place):
                    return None
                values.append(found._look(owner, place.kind, place.name))
        except (*_GONE, TypeError, IndexError):  # it is gone, or has another type
            return None
        return found

    def _look(self, owner: Any, kind: PlaceKind, name: str) -> Any:
        key = (owner, kind, name)
        if key not in self._found:  # one value for the whole compilation
            read = _READERS[kind](owner, name)
            self._found[key] = found = (read, read())
            if kind not in _FIXED and not _is_ours(owner, name):
                self._watched.append(found)
        return self._found[key][1]


_PACKAGE = __name__.partition(".")[0]
# Functions that the front end inlines, and no kernel names.
_INLINED: dict[str, Any] = {find_piece.__name__: find_piece}
# A tuple is looked up again itself, and keeps its items; the package is part of every key.
_FIXED = (PlaceKind.ITEM, PlaceKind.OURS)


def _is_ours(owner: Any, name: str) -> bool:
    """Whether the attribute is a fixed one, of a module of this package or of `math`."""
    if isinstance(owner, FunctionType):
        module = owner.__globals__.get("__name__", "")
        is_fixed = not (owner.__closure__ and is_free(owner, name))
    else:
        module, is_fixed = getattr(owner, "__name__", ""), True
    return is_fixed and (module.partition(".")[0] == _PACKAGE or owner is math)


def _is_plain(owner: Any, place: CapturePlace) -> bool:
    """Whether the lookup runs no code but Python's own."""
    if place.kind is PlaceKind.OURS:
        return place.name in _INLINED
    if place.kind is PlaceKind.ITEM:
        return type(owner) is tuple and place.name.isdecimal()
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


def _item_reader(owner: tuple[Any, ...], position: str) -> Callable[[], Any]:
    return partial(owner.__getitem__, int(position))


def _own_reader(_: None, name: str) -> Callable[[], Any]:
    return partial(_INLINED.__getitem__, name)


_READERS: dict[PlaceKind, Callable[[Any, str], Callable[[], Any]]] = {
    PlaceKind.NAME: _name_reader,
    PlaceKind.ATTRIBUTE: _attribute_reader,
    PlaceKind.DEFAULT: _default_reader,
    PlaceKind.KEYWORDS: _keywords_reader,
    PlaceKind.ITEM: _item_reader,
    PlaceKind.OURS: _own_reader,
}


def _is_same(old: Any, new: Any) -> bool:
    """Whether two values are the same for a kernel; 0.0 and -0.0 are not."""
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

"""What a kernel found outside itself when it was compiled, to tell whether that has changed since.

A global, a variable of an enclosing function, an attribute of a module, a helper with its code and
defaults: each is compiled into the kernel as it was. Before a compiled kernel is used again, all of
them are looked up again.
"""

# pyright takes a function in a field for a method.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from tilewright.frontend.capture import SourceFunction

__all__ = ["Captures"]


class Captures:
    """The values that one compilation found, and how to find each again."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, str], tuple[Callable[[], Any], Any]] = {}

    def name(self, source: SourceFunction, name: str) -> Any:
        """What a name means in a function that was captured; `NameError` if nothing."""
        namespace = source.function.__globals__
        is_global = name in namespace and not source.is_free(name)
        read = partial(namespace.__getitem__ if is_global else source.lookup, name)
        return self._look(source.function, name, read)

    def attribute(self, owner: ModuleType | FunctionType, name: str) -> Any:
        """An attribute of a module or a function; `AttributeError` if it has none."""
        return self._look(owner, name, partial(getattr, owner, name))

    def helper(self, function: FunctionType) -> None:
        """A function that is inlined: what it does, and what it does without arguments."""
        for name in ("__code__", "__defaults__"):
            self.attribute(function, name)
        for name in function.__kwdefaults__ or ():
            self._look(function, f"{name}=", partial(_keyword_default, function, name))

    def helpers(self) -> tuple[FunctionType, ...]:
        """The functions that were inlined, each once."""
        owners = (owner for owner, name in self._found if name == "__code__")
        return tuple(dict.fromkeys(f for f in owners if isinstance(f, FunctionType)))

    def are_current(self) -> bool:
        """Whether everything is still what it was."""
        try:
            for read, value in self._found.values():
                now = read()
                if now is not value and not _is_same(value, now):
                    return False
        except (NameError, AttributeError, KeyError):  # it is gone
            return False
        return True

    def _look(self, owner: object, name: str, read: Callable[[], Any]) -> Any:
        if (owner, name) not in self._found:  # one meaning for the whole compilation
            self._found[owner, name] = (read, read())
        return self._found[owner, name][1]


def _keyword_default(function: FunctionType, name: str) -> Any:
    return (function.__kwdefaults__ or {})[name]


def _is_same(old: Any, new: Any) -> bool:
    """Whether a kernel could not tell two values apart; 0.0 and -0.0 it can."""
    if type(old) is not type(new):
        return False
    if isinstance(old, tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    if is_dataclass(old):
        names = [field.name for field in fields(old)]
        return all(_is_same(getattr(old, name), getattr(new, name)) for name in names)
    if isinstance(old, float):
        return bool(old.hex() == new.hex())
    return isinstance(old, (int, str)) and bool(old == new)

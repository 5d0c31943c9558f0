"""The launch path in C, where the extension has been built. The Python code defines what it does.

A function that C speeds up is written in Python and marked by `in_c`. The extension handles the
common case, with the same effect, and leaves every other call to the Python function, from the
start. It reads and writes the slots of the classes marked by `slots_in_c`, so an object may be
handled by both in turn. Without the extension the marks have no effect.

`python -m tilewright.native` builds the extension in place. `TILEWRIGHT_NATIVE=0` leaves it
unused. Free-threaded builds of Python run the Python code.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tilewright.native.checksum import checksum
from tilewright.settings import current_settings

__all__ = ["EXTENSION", "WHY_NOT", "in_c", "know_objects", "slots_in_c"]

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def _load() -> tuple[Any, str]:
    """The extension, and the reason why there is none."""
    if not current_settings().native:
        return None, "TILEWRIGHT_NATIVE=0 is set"
    if "t" in getattr(sys, "abiflags", ""):
        return None, "this Python is free-threaded"
    try:
        found = importlib.import_module("tilewright.native._native")
    except ImportError:
        return None, "the part in C is not built"
    if checksum() not in (None, found.CHECKSUM):
        return None, "the part in C was built from other sources"
    return found, ""


# The module in C, or None; the reason why it is None.
EXTENSION, WHY_NOT = _load()


def in_c(name: str) -> Callable[[F], F]:
    """Mark the definition of a function or method whose common case is in C."""

    def mark(python: F) -> F:
        of, _, own = name.rpartition(".")
        made: F = python if EXTENSION is None else EXTENSION.define(of or None, own, python)
        return made

    return mark


def slots_in_c(cls: C) -> C:
    """Mark a class whose slots C reads and writes; its methods in C replace their definitions."""
    if EXTENSION is not None:
        EXTENSION.learn(cls)
    return cls


def know_objects(objects: Mapping[str, Any]) -> None:
    """Give C the objects that it refers to; from then on it is used."""
    if EXTENSION is not None:
        EXTENSION.learn_objects(objects)

"""Objects from users: integers are converted once, and messages show any object.

A subclass of `int` may override comparison, hash and conversion, so a check of the object does not
hold for the number that is passed later, and a table keyed by the object may return any entry.
`as_int` returns the number that Python stores in it, an exact `int`. Not for numbers that kernels
compute.
"""

from __future__ import annotations

from math import isinf
from operator import index
from typing import Any

__all__ = ["as_int", "as_ints", "int_or", "narrowed", "plain_number", "shown"]

_LONGEST = 80  # characters of an object in a message


def as_int(value: Any) -> int:
    """The value of an integer object as an exact `int`; raises `TypeError` for other objects."""
    if type(value) is int:
        return value
    try:
        return int.__index__(index(value))  # `index` returns a subclass of `int` unchanged
    except TypeError:
        raise
    except Exception as error:  # raised by the object's own `__index__`
        raise TypeError(f"an object of type {type(value).__name__} is no integer") from error


def as_ints(values: Any) -> tuple[int, ...]:
    """`as_int` of each of several objects; raises `TypeError` if one is no integer."""
    try:
        return tuple([as_int(value) for value in values])
    except TypeError:
        raise
    except Exception as error:  # raised by the object's own `__iter__`
        raise TypeError(f"an object of type {type(values).__name__} has no items") from error


def int_or(value: Any, otherwise: int) -> int:
    """The value of an integer object that is no truth value; another number for other objects."""
    try:
        return otherwise if isinstance(value, bool) else as_int(value)
    except TypeError:
        return otherwise


def plain_number(value: Any) -> Any:
    """The number that Python stores in an object of a subclass of `int` or `float`.

    Any other object is returned unchanged.
    """
    kind = type(value)
    if kind is int or kind is float or kind is bool:
        return value
    if issubclass(kind, int):
        return int.__index__(value)
    return float.__float__(value) if issubclass(kind, float) else value


def narrowed(value: Any) -> int | float:
    """A float that may be wider than Python's: the nearest of those.

    A finite number beyond all of them is a whole one, and stays exact as an integer: an infinity in
    its place would be a value of every float dtype.
    """
    number = float(value)
    return int(value) if isinf(number) and value != number else number


def shown(value: Any) -> str:
    """An object as messages show it: one short line, even if its `__repr__` raises."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 (its own, or that of an integer with thousands of digits)
        if type(value) is int:
            return "an integer of thousands of digits"
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

"""What library functions make of a handle to launch with, kept as long as the handle.

A launch with handles that it has seen finds everything in a table; a function that made a view at
every call would never launch so. A view refers to the memory of a handle and not to the handle, so
it goes when the handle goes, and no memory lives longer than it would have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import tilewright as tw

__all__ = ["kept"]

R = TypeVar("R")
_made: WeakKeyDictionary[tw.Tensor, dict[Hashable, Any]] = WeakKeyDictionary()


def kept(tensor: tw.Tensor, make: Callable[..., R], *how: Hashable) -> R:
    """`make(tensor, *how)`: the same each time, for as long as there is the handle.

    What is made must not refer to the handle itself, which would then never go.
    """
    made = _made.get(tensor)
    if made is None:
        made = _made.setdefault(tensor, {})
    place = (make, *how)
    try:
        found: R = made[place]
    except KeyError:
        found = made.setdefault(place, make(tensor, *how))
    return found

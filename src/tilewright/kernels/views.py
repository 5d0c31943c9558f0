"""Cached views of tensor handles, for library functions.

A launch with known handles is found in a table; a function that made a new view at every call would
always miss it. A view refers to the memory of a handle, not to the handle itself, so the cache
entry ends with the handle and extends no lifetime.
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
    """`make(tensor, *how)`, made once and cached for the lifetime of the handle.

    The result must not refer to the handle itself, which would then never be freed.
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

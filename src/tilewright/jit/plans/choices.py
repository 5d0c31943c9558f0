"""What decides a call besides its arguments: configurations that were measured, or are forced.

A function of the library looks them up, and what it finds is remembered with all that follows from
it. So whoever changes them says so here, and everything that was remembered is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakSet

from tilewright.runtime.devices.context import ContextFlag
from tilewright.runtime.devices.fork import ForkedLock

__all__ = ["CHOICES", "FORCED", "Choices", "Forgetful"]


class Forgetful(Protocol):
    """Who remembers anything that was chosen."""

    def forget(self) -> None:
        """It may be chosen otherwise from now on."""


class Choices:
    """Who remembers anything, for as long as they are there, and how often all was forgotten."""

    __slots__ = ("_all", "age", "lock")

    def __init__(self) -> None:
        self.age = 0
        # Held while something is kept whose choice was made in this age, and no other.
        self.lock = ForkedLock()
        self._all: WeakSet[Forgetful] = WeakSet()

    def tell(self, one: Forgetful) -> None:
        """Have somebody forget whenever what was chosen may be chosen otherwise."""
        with self.lock:
            self._all.add(one)

    def forget(self) -> None:
        """What choices are made by has changed."""
        with self.lock:
            for one in self._all:
                one.forget()
            self.age += 1  # last: who has read it before may have found what is forgotten now


# Those of this process.
CHOICES = Choices()
# What is chosen whatever was measured, by the names of kernels.
FORCED: ContextFlag[Mapping[str, Any]] = ContextFlag("forced")

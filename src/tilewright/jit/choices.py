"""What decides a call besides its arguments: configurations that were measured, or are forced.

A function of the library looks them up, and what it finds is remembered with all that follows from
it. So whoever changes them says so here, and everything that was remembered is forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.runtime.surroundings import Surrounding

__all__ = ["CHOICES", "FORCED", "Choices"]


class Choices:
    """Who remembers anything that was chosen, and how often all of it was forgotten."""

    __slots__ = ("_forgetting", "age", "lock")

    def __init__(self) -> None:
        self.age = 0
        # Held while something is kept whose choice was made in this age, and no other.
        self.lock = threading.Lock()
        self._forgetting: list[Callable[[], None]] = []

    def tell(self, forget: Callable[[], None]) -> None:
        """Call a function whenever what was chosen may be chosen otherwise."""
        self._forgetting.append(forget)

    def forget(self) -> None:
        """What choices are made by has changed."""
        with self.lock:
            self.age += 1
            for forget in self._forgetting:
                forget()


# Those of this process.
CHOICES = Choices()
# What is chosen whatever was measured, by the names of kernels.
FORCED: Surrounding[Mapping[str, Any]] = Surrounding("forced")

"""A bounded table with eviction by generations."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from tilewright.native import slots_in_c

__all__ = ["BoundedTable"]

Kept = TypeVar("Kept")


@slots_in_c
class BoundedTable(Generic[Kept]):
    """A table of two generations: a full young generation replaces the old one, which is dropped.

    A look-up in the young generation is that of a dictionary. Concurrent threads may lose entries,
    but never find a wrong one, nor one from before `clear`.
    """

    __slots__ = ("_old", "_size", "_times_cleared", "get", "young")

    def __init__(self, size: int) -> None:
        self._size = size
        self._times_cleared = 0
        self._old: dict[Hashable, Kept] = {}
        # The young generation. Generated code inserts into it, and calls `age` when it is full.
        self.young: dict[Hashable, Kept] = {}
        self.get = self.young.get  # finds recently used entries

    def find(self, key: Hashable) -> Kept | None:
        """Find an entry of either generation; an old one moves to the young generation."""
        found = self.young.get(key)
        if found is None:
            times = self._times_cleared
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
                if times != self._times_cleared:
                    self.young.pop(key, None)
        return found

    def put(self, key: Hashable, kept: Kept) -> None:
        """Insert or replace an entry."""
        if len(self.young) >= self._size:
            self.age()
        self.young[key] = kept

    def age(self) -> None:
        """Start a new young generation."""
        times = self._times_cleared
        self._old = self.young.copy()
        if times != self._times_cleared:
            self._old = {}
        self.young.clear()

    def clear(self) -> None:
        """Drop all entries."""
        self._times_cleared += 1  # first: a concurrent `find` or `age` drops its copies
        self._old = {}
        self.young.clear()

    def __len__(self) -> int:
        return len(self.young.keys() | self._old.keys())

"""A bounded table that forgets what was not used for long."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["BoundedTable"]

Kept = TypeVar("Kept")


class BoundedTable(Generic[Kept]):
    """Two generations: when the young one is full it becomes the old one, and that is forgotten.

    A look-up costs no more than that of a dictionary. Threads may lose each other's entries, never
    find wrong ones, nor any that was there before all was forgotten.
    """

    __slots__ = ("_old", "_size", "_times_cleared", "get", "young")

    def __init__(self, size: int) -> None:
        self._size = size
        self._times_cleared = 0
        self._old: dict[Hashable, Kept] = {}
        # What was used lately. Whoever puts something here without a call lets it `age` in time.
        self.young: dict[Hashable, Kept] = {}
        self.get = self.young.get  # None for anything else

    def find(self, key: Hashable) -> Kept | None:
        """An entry of either generation; an old one is young again."""
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
        """Keep an entry, in place of another with the same key."""
        if len(self.young) >= self._size:
            self.age()
        self.young[key] = kept

    def age(self) -> None:
        """Begin another generation."""
        times = self._times_cleared
        self._old = self.young.copy()
        if times != self._times_cleared:
            self._old = {}
        self.young.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._times_cleared += 1  # first: who is about to keep something finds out
        self._old = {}
        self.young.clear()

    def __len__(self) -> int:
        return len(self.young.keys() | self._old.keys())

"""Locks that a forked child begins with anew: nobody is left there to release a held one.

A device and the table of foreign memory see to theirs themselves, since they have more to do then.
Not for a lock that is held while anything might fork.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType
from weakref import WeakSet

__all__ = ["ForkedLock", "in_children"]


class ForkedLock:
    """A lock for `with`; whoever holds it may take it again, as a finaliser may in the middle."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self.renew()
        _all.add(self)

    def renew(self) -> None:
        """Be free."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


_all: WeakSet[ForkedLock] = WeakSet()


def in_children(act: Callable[[], object]) -> None:
    """Have something done at the beginning of every forked child."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)


def _renew_all() -> None:
    for lock in list(_all):
        lock.renew()


in_children(_renew_all)

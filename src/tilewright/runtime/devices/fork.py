"""Locks that a forked child begins with anew: no thread is left there to release a held one.

A device and the table of foreign memory see to theirs themselves, since they have more to do then.
Not for a lock that is held while anything might fork.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

__all__ = ["ForkedLock", "in_children"]

if TYPE_CHECKING:
    RLock: Any = threading.RLock
else:
    RLock = type(threading.RLock())


class ForkedLock(RLock):  # type: ignore[misc]
    """A lock for `with`; its holder may take it again, as a finaliser may in the middle.

    It is a lock of Python's own and has no method for `with` that is written in Python: in that a
    signal could raise when the lock has been taken, and before the block begins.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        _all.add(self)

    def renew(self) -> None:
        """Be free, in a child."""
        self._at_fork_reinit()


_all: WeakSet[ForkedLock] = WeakSet()


def in_children(act: Callable[[], object]) -> None:
    """Have something done at the beginning of every forked child."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)


def _renew_all() -> None:
    for lock in list(_all):
        lock.renew()


in_children(_renew_all)

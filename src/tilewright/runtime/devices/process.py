"""The process: its cores, and locks that are free again in a forked child.

In a child no thread is left to release a held lock. Devices and the table of foreign ranges reset
their own locks, with more state. A lock of this kind must not be held around code that may fork.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

__all__ = ["ForkedLock", "in_children", "usable_cores"]

if TYPE_CHECKING:
    RLock: Any = threading.RLock
else:
    RLock = type(threading.RLock())


class ForkedLock(RLock):  # type: ignore[misc]
    """A lock for `with`; its holder may take it again, as a finaliser may in the middle.

    It derives from Python's own lock and has no `with` method written in Python: a signal handler
    could raise in such a method after the lock was taken and before the block begins.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        _all.add(self)

    def renew(self) -> None:
        """Make the lock free, in a child."""
        self._at_fork_reinit()


_all: WeakSet[ForkedLock] = WeakSet()


def in_children(act: Callable[[], object]) -> None:
    """Call a function at the start of every forked child."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)


def _renew_all() -> None:
    for lock in list(_all):
        lock.renew()


in_children(_renew_all)


def usable_cores() -> int:
    """Cores that the system lets this process run on; all if it cannot say, at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))

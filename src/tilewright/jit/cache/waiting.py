"""Waits between threads, and detection of circular ones.

A finaliser or a signal handler may run in the middle of a compilation, and launch the kernel that
its own thread is compiling, or a kernel compiled by a thread that waits for this one. Such a wait
is circular, and the caller compiles a copy instead. A thread registers its wait before it searches
for a cycle, so at least the last thread of a cycle finds it.
"""

from __future__ import annotations

from threading import get_ident
from typing import Protocol

__all__ = ["UnderWay", "forget_waits", "is_circular", "wait_for"]


class UnderWay(Protocol):
    """An entry or a task in the making."""

    @property
    def maker(self) -> int | None:
        """The thread that makes it; None before one has started."""

    def join(self) -> None:
        """Wait for its end."""


_waits: dict[int, UnderWay] = {}  # by thread; the innermost of its waits


def is_circular(wanted: UnderWay) -> bool:
    """Whether this thread would wait for itself, directly or through other threads."""
    me = get_ident()
    seen: set[int] = set()
    maker = wanted.maker
    while maker is not None and maker != me and maker not in seen:
        seen.add(maker)
        next_ = _waits.get(maker)
        maker = None if next_ is None else next_.maker
    return maker == me


def wait_for(wanted: UnderWay) -> bool:
    """Wait for the end; False, without waiting, if the wait is circular."""
    me = get_ident()
    before = _waits.get(me)  # the wait that this call has interrupted, in a signal handler
    try:
        _waits[me] = wanted
        if is_circular(wanted):
            return False
        wanted.join()
    finally:
        if before is None:
            _waits.pop(me, None)
        else:
            _waits[me] = before
    return True


def forget_waits() -> None:
    """Drop all waits in a forked child, which has no other threads."""
    _waits.clear()

"""Threads that wait for something another thread makes, and whether such a wait would ever end.

A finaliser or a signal handler runs in the middle of anything, also of a compilation: it may launch
the very kernel that its own thread is compiling, or one that is compiled by a thread which waits
for this one. Such a wait is circular, and the caller makes a copy instead. A thread registers its
wait before it looks, so of several threads that close a circle at least the last one sees it.
"""

from __future__ import annotations

from threading import get_ident
from typing import Protocol

__all__ = ["UnderWay", "forget_waits", "is_circular", "wait_for"]


class UnderWay(Protocol):
    """Something that a thread is making."""

    @property
    def maker(self) -> int | None:
        """The thread; None if none has begun."""

    def join(self) -> None:
        """Wait for its end."""


_waits: dict[int, UnderWay] = {}  # what each thread waits for, the innermost if there are several


def is_circular(wanted: UnderWay) -> bool:
    """Whether this thread would wait for itself, if need be by way of others."""
    me = get_ident()
    seen: set[int] = set()
    maker = wanted.maker
    while maker is not None and maker != me and maker not in seen:
        seen.add(maker)
        next_ = _waits.get(maker)
        maker = None if next_ is None else next_.maker
    return maker == me


def wait_for(wanted: UnderWay) -> bool:
    """Wait for something to end; False, at once, if that would never happen."""
    me = get_ident()
    before = _waits.get(me)  # of a call that a signal handler has interrupted
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
    """In a forked child, which has none of the other threads."""
    _waits.clear()

"""Stretches of code in which Python's collector runs no finaliser.

It is stopped for the whole process, as there is no other way, so they are short. They may overlap,
in other threads or one in another: the last one out starts it again. They are calls and no `with`:
a signal could raise in the `__exit__` of that, before anything is done there.
"""

from __future__ import annotations

from collections.abc import Callable
from gc import disable, enable, isenabled
from typing import ParamSpec, TypeVar

__all__ = ["forget_stretches", "uncollected"]

P = ParamSpec("P")
T = TypeVar("T")


class _Collector:
    """What we have done to it."""

    def __init__(self) -> None:
        self.has_been_stopped = False  # so that it is to be started again
        self.stretches: list[None] = []  # one for each

    def start_if_last(self) -> None:
        """Start it behind the last stretch, if it ran before."""
        # Between the question and the answer no other thread runs, as nothing is called.
        if self.has_been_stopped and not self.stretches:
            self.has_been_stopped = False
            enable()


_collector = _Collector()
_LAST = slice(-1, None)  # made before: where nothing is made, nothing happens in between


def uncollected(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call something; no finaliser runs in it but those of what is dropped there."""
    try:
        _collector.stretches.append(None)  # first: a signal may raise behind it, and not before
        while isenabled():  # and again if a finaliser that ran just now has started it
            _collector.has_been_stopped = True
            disable()
            _look_up()
        return act(*args, **kwargs)
    finally:
        # No signal raises in here before the end, as nothing is called but what C has.
        del _collector.stretches[_LAST]  # which is gone in a child that was forked in the middle
        if _collector.has_been_stopped and not _collector.stretches:
            _collector.has_been_stopped = False
            enable()


def _look_up() -> None:
    """From Python 3.12 on, a collection that was put off before comes at the next call."""


def forget_stretches() -> None:
    """In a forked child, whose other threads are gone with what they were at."""
    _collector.stretches.clear()
    _collector.start_if_last()

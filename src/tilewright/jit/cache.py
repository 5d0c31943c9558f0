"""Compiled kernels in memory: one compilation for each specialisation, whoever asks first.

Threads that ask for the same one wait for the first; a failed compilation is forgotten, so that the
next call tries again. Programs are assembled in a small pool of threads (the work is done by
another process, so threads are enough). A forked child has none of these threads: it begins again
what was under way when it was forked.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from tilewright.runtime.cores import usable_cores

__all__ = ["SingleFlight", "in_background"]

Made = TypeVar("Made")


class SingleFlight(Generic[Made]):
    """A table whose entries are made once."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # keys compare in Python, where finalisers may run
        self._entries: dict[Hashable, Future[Made]] = {}
        _tables.add(self)

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The entry for a key, made by the first who asks."""
        entry = self._entries.get(key)
        if entry is None:
            fresh: Future[Made] = Future()
            with self._lock:
                entry = self._entries.setdefault(key, fresh)
            if entry is fresh:
                self._make(key, entry, make)
        return entry.result()

    def _make(self, key: Hashable, entry: Future[Made], make: Callable[[], Made]) -> None:
        try:
            entry.set_result(make())
        except BaseException as error:  # noqa: BLE001 (all who wait must see it)
            with self._lock:
                del self._entries[key]
            entry.set_exception(error)

    def forget(self, key: Hashable, made: Made) -> None:
        """Drop an entry that turned out to be no good, unless it has been replaced."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.done() and entry.result() is made:
                del self._entries[key]

    def restart(self) -> None:
        """Go on in a forked child: whoever was making an entry is not here."""
        self._lock = threading.RLock()
        self._entries = {key: entry for key, entry in self._entries.items() if entry.done()}

    def __len__(self) -> int:
        return len(self._entries)


class _Background:
    """Threads, and what they are at."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: dict[Future[Any], Callable[[], Any]] = {}

    def start(self, work: Callable[[], Made]) -> Future[Made]:
        """Have a thread do it, as soon as one is free."""
        made: Future[Made] = Future()
        self._under_way[made] = work
        self._put(made)
        return made

    def _put(self, made: Future[Any]) -> None:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(usable_cores(), "tilewright-jit")
        self._pool.submit(self._run, made)

    def _run(self, made: Future[Any]) -> None:
        try:
            made.set_result(self._under_way[made]())
        except BaseException as error:  # noqa: BLE001 (whoever waits must see it)
            made.set_exception(error)
        del self._under_way[made]

    def restart(self) -> None:
        """Go on in a forked child, which has no threads."""
        self._lock = threading.RLock()
        self._pool = None
        self._under_way = {made: do for made, do in self._under_way.items() if not made.done()}
        for made in tuple(self._under_way):
            self._put(made)


_tables: WeakSet[SingleFlight[Any]] = WeakSet()
_background = _Background()


def in_background(work: Callable[[], Made]) -> Future[Made]:
    """Start something that takes long."""
    return _background.start(work)


def _restart() -> None:
    for table in _tables:
        table.restart()
    _background.restart()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart)

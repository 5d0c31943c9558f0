"""Compiled kernels in memory: one compilation for each specialisation, whoever asks first.

Threads that ask for the same one wait for the first; a failed compilation is forgotten, so that the
next call tries again. Programs are assembled in a small pool of threads (the work is done by
another process, so threads are enough).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Generic, TypeVar

from tilewright.runtime.cores import usable_cores

__all__ = ["SingleFlight", "in_background"]

Made = TypeVar("Made")


class SingleFlight(Generic[Made]):
    """A table whose entries are made once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[Hashable, Future[Made]] = {}

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The entry for a key, made by the first who asks."""
        entry = self._entries.get(key)
        if entry is None:
            with self._lock:
                entry = self._entries.get(key)
                mine = entry is None
                if entry is None:
                    entry = self._entries[key] = Future()
            if mine:
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

    def __len__(self) -> int:
        return len(self._entries)


def in_background(work: Callable[[], Made]) -> Future[Made]:
    """Start something that takes long."""
    return _pool().submit(work)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=usable_cores(), thread_name_prefix="tilewright-jit")

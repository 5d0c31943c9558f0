"""The cache in memory: one compilation for each specialisation, shared by all threads.

The first thread with a key compiles, and the others wait for it. A compile error is raised in all
of them and not cached, so the next call compiles again. An interrupt, or any other exception of the
first thread alone, is raised there, and one of the waiting threads compiles. A wait that would be
circular is replaced by a second compilation. Tables are bounded: the least recently used entries
are evicted, and operations keep their executables alive. Programs are assembled by a small pool of
threads, each of which waits for a tileiras process. A forked child has none of these threads: it
restarts all work that was in progress.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from itertools import count
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from tilewright.errors import LaunchError, TilewrightError
from tilewright.runtime.devices.process import usable_cores

__all__ = ["SingleFlight", "in_background"]

Made = TypeVar("Made")

_MOST = 512  # default number of entries of a table
_KEPT = 0.75  # fraction that an eviction leaves, so that evictions are rare


class _Flight(Generic[Made]):
    """An entry in the making, and its outcome for the waiting threads."""

    __slots__ = ("error", "made", "maker", "over", "used")

    def __init__(self) -> None:
        self.maker: int | None = threading.get_ident()
        self.made: tuple[Made] | None = None
        self.error: TilewrightError | None = None
        self.used = 0
        self.over = threading.Event()  # the entry was made, refused or abandoned

    def join(self) -> None:
        """Wait for its end."""
        self.over.wait()


class SingleFlight(Generic[Made]):
    """A bounded table whose entries are made once for all threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.RLock()  # keys compare in Python, where finalisers may run
        self._entries: dict[Hashable, _Flight[Made]] = {}
        self._uses = count(1)
        _tables.add(self)

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The entry of a key, made by the first thread that needs it."""
        while True:
            flight = self._entries.get(key)
            if flight is None:
                fresh = _Flight[Made]()
                try:  # covers the flight from its insertion to its end
                    flight = self._entries.setdefault(key, fresh)
                    if flight is fresh:
                        return self._make(key, fresh, make)
                finally:
                    if not fresh.over.is_set() and self._entries.get(key) is fresh:
                        del self._entries[key]
                    fresh.over.set()
            if not flight.over.is_set() and not _wait_for(flight):
                return make()
            if flight.made is not None:
                flight.used = next(self._uses)
                return flight.made[0]
            if flight.error is not None:
                raise flight.error

    def _make(self, key: Hashable, fresh: _Flight[Made], make: Callable[[], Made]) -> Made:
        try:
            made = make()
        except TilewrightError as error:  # the outcome of this key for every thread
            self._entries.pop(key, None)
            fresh.error = error
            raise
        fresh.used = next(self._uses)
        fresh.made = (made,)
        fresh.over.set()
        if len(self._entries) > self._most:
            self._forget_the_oldest()
        return made

    def _forget_the_oldest(self) -> None:
        """Evict the least recently used entries, but none in the making."""
        with self._lock:
            entries = list(self._entries.items())
            done = [(one.used, key) for key, one in entries if one.over.is_set()]
            excess = len(self._entries) - int(self._most * _KEPT)
            for _, key in sorted(done, key=lambda use: use[0])[: max(0, excess)]:
                self._entries.pop(key, None)

    def forget(self, key: Hashable, made: Made) -> None:
        """Remove an entry that has failed, unless it was replaced."""
        with self._lock:
            flight = self._entries.get(key)
            if flight is not None and flight.made is not None and flight.made[0] is made:
                del self._entries[key]

    def entries(self) -> tuple[Made, ...]:
        """All finished entries."""
        return tuple(one.made[0] for one in list(self._entries.values()) if one.made is not None)

    def restart(self) -> None:
        """Reset in a forked child, which lacks the threads that were making entries."""
        self._lock = threading.RLock()
        self._entries = {key: one for key, one in self._entries.items() if one.over.is_set()}

    def __len__(self) -> int:
        return len(self._entries)


class _Task(Future[Made]):
    """A task of the pool, started or not."""

    def __init__(self, work: Callable[[], Made]) -> None:
        super().__init__()
        self._work = work
        self._unclaimed = [None]  # the thread that pops the item runs the task
        self.maker: int | None = None

    def _claim(self) -> bool:
        """Whether this thread runs the task; True for one thread only."""
        try:
            self._unclaimed.pop()
        except IndexError:
            return False
        self.maker = threading.get_ident()
        return True

    def drop(self) -> None:
        """Cancel the task, unless a thread is running it."""
        if self._claim():
            self.set_exception(LaunchError("the process ends, and nothing more is compiled"))

    def run(self) -> None:
        """Run the task, unless another thread has claimed it."""
        if not self._claim():
            return
        try:
            self.set_result(self._work())
        except BaseException as error:  # noqa: BLE001 (the waiting threads raise it)
            self.set_exception(error)

    def renew(self) -> None:
        """Make the task claimable again in a forked child, which lacks its thread."""
        self._unclaimed, self.maker = [None], None

    def join(self) -> None:
        """Wait for its end."""
        super().exception()

    def result(self, timeout: float | None = None) -> Made:
        """The result; a thread of the pool runs the task itself instead of waiting."""
        if not self.done() and timeout is None:
            if threading.get_ident() in _background.workers:
                self.run()  # all other threads of the pool may be waiting as well
            if not self.done() and not _wait_for(self):
                return self._work()
        return super().result(timeout)


class _Background:
    """The pool: daemon threads and their tasks, neither of which delays the end of the process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[_Task[Any]] = deque()
        self._under_way: dict[_Task[Any], None] = {}
        self._threads = 0
        self._is_dropped_at_exit = False
        self.workers: set[int] = set()

    def start(self, work: Callable[[], Made]) -> Future[Made]:
        """Queue a task for the next free thread."""
        task = _Task(work)
        self._under_way[task] = None
        self._put(task)
        return task

    def _put(self, task: _Task[Any]) -> None:
        with self._lock:
            self._waiting.append(task)
            if not self._is_dropped_at_exit:
                self._is_dropped_at_exit = True
                atexit.register(self.drop)  # late, so it runs before the tools are terminated
            if self._threads >= usable_cores():
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name="tilewright-jit", daemon=True).start()
        except RuntimeError:  # no thread can be started, so the caller runs it
            self._work()

    def _work(self) -> None:
        """Run tasks until the queue is empty."""
        me = threading.get_ident()
        self.workers.add(me)
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    self.workers.discard(me)
                    return
                task = self._waiting.popleft()
            task.run()
            self._under_way.pop(task, None)

    def drop(self) -> None:
        """Cancel all tasks that have not started, at the end of the process."""
        with self._lock:
            left, self._waiting = self._waiting, deque()
        for task in left:
            task.drop()

    def restart(self) -> None:
        """Restart in a forked child, which has no threads."""
        self._lock = threading.RLock()
        self._threads = 0
        self.workers = set()
        self._waiting = deque()
        self._under_way = {task: None for task in self._under_way if not task.done()}
        for task in tuple(self._under_way):
            task.renew()
            self._put(task)


_waits: dict[int, _Flight[Any] | _Task[Any]] = {}  # by thread; the innermost of its waits


def _wait_for(wanted: _Flight[Any] | _Task[Any]) -> bool:
    """Wait for the end; False, without waiting, if the wait is circular.

    A finaliser or a signal handler may run in the middle of a compilation, and launch the kernel
    that its own thread is compiling, or a kernel compiled by a thread that waits for this one. The
    caller compiles a copy instead. A thread registers its wait before it searches for a cycle, so
    at least the last thread of a cycle finds it.
    """
    me = threading.get_ident()
    before = _waits.get(me)  # the wait that this call has interrupted, in a signal handler
    try:
        _waits[me] = wanted
        if _is_circular(wanted):
            return False
        wanted.join()
    finally:
        if before is None:
            _waits.pop(me, None)
        else:
            _waits[me] = before
    return True


def _is_circular(wanted: _Flight[Any] | _Task[Any]) -> bool:
    """Whether this thread would wait for itself, directly or through other threads."""
    me = threading.get_ident()
    seen: set[int] = set()
    maker = wanted.maker
    while maker is not None and maker != me and maker not in seen:
        seen.add(maker)
        next_ = _waits.get(maker)
        maker = None if next_ is None else next_.maker
    return maker == me


_tables: WeakSet[SingleFlight[Any]] = WeakSet()
_background = _Background()


def in_background(work: Callable[[], Made]) -> Future[Made]:
    """Run a slow function in the pool."""
    return _background.start(work)


def _restart() -> None:
    _waits.clear()
    for table in _tables:
        table.restart()
    _background.restart()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart)

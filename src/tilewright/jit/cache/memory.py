"""Compiled kernels in memory: one compilation for each specialisation, for all threads.

Threads that ask for the same one wait for the first. A refusal of the compiler is raised in all of
them and forgotten, so that the next call tries again; an interrupt, or any other exception that
concerns the first thread alone, stays there, and one of the others compiles. A thread that would
wait for itself compiles a copy (`waiting`). Tables are bounded: the least recently used entries go,
and operations that use one keep it alive. Programs are assembled in a small pool of threads (the
work is done by another process, so threads are enough). A forked child has none of these threads:
it begins again everything that was under way when it was forked.
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
from tilewright.jit.cache.waiting import forget_waits, wait_for
from tilewright.runtime.devices.cores import usable_cores

__all__ = ["SingleFlight", "finish_background_work", "in_background"]

Made = TypeVar("Made")

_MOST = 512  # entries of a table, if it does not say
_KEPT = 0.75  # of them when there are too many, so that not every entry looks for the oldest


class _Flight(Generic[Made]):
    """An entry and how it came about; threads that wait read it when it is over."""

    __slots__ = ("_over", "error", "made", "maker", "used")

    def __init__(self) -> None:
        self.maker = threading.get_ident()
        self.made: tuple[Made] | None = None
        self.error: TilewrightError | None = None
        self.used = 0
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether it was made, was refused or was given up."""
        return self._over.is_set()

    def end(self) -> None:
        """Wake all threads that wait. A second call does no harm."""
        self._over.set()

    def join(self) -> None:
        """Wait for its end."""
        self._over.wait()

    def result(self) -> Made:
        """The entry, which was made."""
        assert self.made is not None, "it is under way, or came to nothing"
        return self.made[0]


class SingleFlight(Generic[Made]):
    """A table of at most so many entries, each made once for all threads that ask for it."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.RLock()  # keys compare in Python, where finalisers may run
        self._entries: dict[Hashable, _Flight[Made]] = {}
        self._uses = count(1)
        _tables.add(self)

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The entry for a key, made by the first thread that asks."""
        while True:
            flight = self._entries.get(key)
            if flight is None:
                fresh = _Flight[Made]()
                try:  # from before it is in the table until it is over, whatever is raised
                    flight = self._entries.setdefault(key, fresh)
                    if flight is fresh:
                        return self._make(key, fresh, make)
                finally:
                    if not fresh.is_over and self._entries.get(key) is fresh:
                        del self._entries[key]
                    fresh.end()
            if not flight.is_over and not wait_for(flight):
                return make()
            if flight.made is not None:
                flight.used = next(self._uses)
                return flight.result()
            if flight.error is not None:
                raise flight.error

    def _make(self, key: Hashable, fresh: _Flight[Made], make: Callable[[], Made]) -> Made:
        try:
            made = make()
        except TilewrightError as error:  # the answer for this key, in every thread
            self._entries.pop(key, None)
            fresh.error = error
            raise
        fresh.used = next(self._uses)
        fresh.made = (made,)
        fresh.end()
        if len(self._entries) > self._most:
            self._forget_the_oldest()
        return made

    def _forget_the_oldest(self) -> None:
        """Drop the least recently used entries; those under way stay."""
        with self._lock:
            done = [(one.used, key) for key, one in list(self._entries.items()) if one.is_over]
            excess = len(self._entries) - int(self._most * _KEPT)
            for _, key in sorted(done, key=lambda use: use[0])[: max(0, excess)]:
                self._entries.pop(key, None)

    def forget(self, key: Hashable, made: Made) -> None:
        """Drop an entry that turned out to be no good, unless it has been replaced."""
        with self._lock:
            flight = self._entries.get(key)
            if flight is not None and flight.made is not None and flight.result() is made:
                del self._entries[key]

    def entries(self) -> tuple[Made, ...]:
        """The entries that are made and kept."""
        return tuple(one.result() for one in list(self._entries.values()) if one.made is not None)

    def restart(self) -> None:
        """Go on in a forked child, which has not the threads that were making entries."""
        self._lock = threading.RLock()
        self._entries = {key: one for key, one in self._entries.items() if one.is_over}

    def __len__(self) -> int:
        return len(self._entries)


class _Task(Future[Made]):
    """Work of a thread of the pool, begun or not."""

    def __init__(self, work: Callable[[], Made]) -> None:
        super().__init__()
        self._work = work
        self._unclaimed = [None]  # the thread that takes it out does the work
        self.maker: int | None = None

    def _claim(self) -> bool:
        """Whether it is for this thread to bring the work to an end, and for no other."""
        try:
            self._unclaimed.pop()
        except IndexError:
            return False
        self.maker = threading.get_ident()
        return True

    def drop(self) -> None:
        """Leave the work undone, unless a thread is at it."""
        if self._claim():
            self.set_exception(LaunchError("the process ends, and nothing more is compiled"))

    def run(self) -> None:
        """Do the work, unless another thread does."""
        if not self._claim():
            return
        try:
            self.set_result(self._work())
        except BaseException as error:  # noqa: BLE001 (threads that wait must see it)
            self.set_exception(error)

    def renew(self) -> None:
        """In a forked child, which has not the thread that was at it."""
        self._unclaimed, self.maker = [None], None

    def join(self) -> None:
        """Wait for its end."""
        super().exception()

    def result(self, timeout: float | None = None) -> Made:
        """The result. A thread of the pool, where a finaliser may run, does not just wait."""
        if not self.done() and timeout is None:
            if threading.get_ident() in _background.workers:
                self.run()  # no thread may be left for it
            if not self.done() and not wait_for(self):
                return self._work()
        return super().result(timeout)


class _Background:
    """Threads and their work. They are no reason for a process to stay, nor is their work."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[_Task[Any]] = deque()
        self._under_way: dict[_Task[Any], None] = {}
        self._threads = 0
        self._is_dropped_at_exit = False
        self.workers: set[int] = set()

    def start(self, work: Callable[[], Made]) -> Future[Made]:
        """Have a thread do it, as soon as one is free."""
        task = _Task(work)
        self._under_way[task] = None
        self._put(task)
        return task

    def _put(self, task: _Task[Any]) -> None:
        with self._lock:
            self._waiting.append(task)
            if not self._is_dropped_at_exit:
                self._is_dropped_at_exit = True
                atexit.register(self.drop)  # late, so that it comes before tools are ended
            if self._threads >= usable_cores():
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name="tilewright-jit", daemon=True).start()
        except RuntimeError:  # no thread can be started: this one does it
            self._work()

    def _work(self) -> None:
        """Do what there is, one after the other."""
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

    def finish(self) -> None:
        """Wait for everything that has been started."""
        for task in list(self._under_way):
            task.join()

    def drop(self) -> None:
        """At the end of the process: nothing more is begun."""
        with self._lock:
            left, self._waiting = self._waiting, deque()
        for task in left:
            task.drop()

    def restart(self) -> None:
        """Go on in a forked child, which has no threads."""
        self._lock = threading.RLock()
        self._threads = 0
        self.workers = set()
        self._waiting = deque()
        self._under_way = {task: None for task in self._under_way if not task.done()}
        for task in tuple(self._under_way):
            task.renew()
            self._put(task)


_tables: WeakSet[SingleFlight[Any]] = WeakSet()
_background = _Background()


def in_background(work: Callable[[], Made]) -> Future[Made]:
    """Start something that takes long."""
    return _background.start(work)


def finish_background_work() -> None:
    """Wait for everything that was started in the background."""
    _background.finish()


def _restart() -> None:
    forget_waits()
    for table in _tables:
        table.restart()
    _background.restart()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart)

"""The threads that run what the queues of CPU streams have ready.

A thread belongs to no queue: it runs one for as long as something is ready there, then the next. So
there are as many threads as queues that have something to do at the same time, and at most `MOST`;
a queue that waits for another one, or is held, has none. Threads that have nothing to do end after
a while. Where no thread can be started, those that wait for a queue run it themselves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

__all__ = ["MOST", "WORKERS", "Workers"]

# Threads at a time, on any number of streams.
MOST = 64
_IDLE_SECONDS = 2.0


class Workers:
    """All threads of the process that run queues."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._ready: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._threads: set[threading.Thread] = set()
        self._idle: list[None] = []  # one for each thread that waits for something to do

    def give(self, work: Callable[[], object]) -> None:
        """Have a thread call something, as soon as one is free. Spurious calls do no harm."""
        self._look_around()
        self._ready.put(work)
        self._add_thread()

    def help(self) -> bool:
        """Do something that is ready in this thread, if there is no other; whether it was done."""
        self._look_around()
        self._add_thread()
        if self._threads:
            return False
        try:
            work = self._ready.get_nowait()
        except Empty:
            return False
        work()
        return True

    def _look_around(self) -> None:
        """Begin anew in a forked child, which has none of the threads."""
        if self._process != os.getpid():
            self._begin()

    def includes_this(self) -> bool:
        """Whether this thread is one of them: it waits for no queue."""
        return threading.current_thread() in self._threads

    def _add_thread(self) -> None:
        """Start one more thread, if more is ready than threads are idle."""
        if self._ready.qsize() <= len(self._idle) or len(self._threads) >= MOST:
            return
        thread = threading.Thread(target=self._work, name="tilewright cpu worker", daemon=True)
        try:
            self._threads.add(thread)
            thread.start()
        except RuntimeError:  # the system has no room for one, or the process is about to end
            self._threads.discard(thread)
        except BaseException:  # of a signal handler: it may run all the same, and then says so
            self._threads.discard(thread)
            raise

    def _work(self) -> None:
        thread = threading.current_thread()
        self._threads.add(thread)
        try:
            while (work := self._next()) is not None:
                work()
                del work  # which may be the last to refer to its queue
        finally:
            self._threads.discard(thread)

    def _next(self) -> Callable[[], object] | None:
        while True:
            self._idle.append(None)
            try:
                work = self._ready.get(timeout=_IDLE_SECONDS)
            except Empty:
                work = None
            self._idle.pop()
            # Only now is it known that this thread waits no more: what came before has to be seen.
            if work is not None:
                self._add_thread()
                return work
            if self._ready.empty():
                return None


# Those of this process.
WORKERS = Workers()

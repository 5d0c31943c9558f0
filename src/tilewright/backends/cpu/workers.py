"""The worker threads that run the ready tasks of CPU queues, and blocks of their kernels.

A thread belongs to no queue: it runs one as long as tasks are ready there, then the next. There are
as many threads as busy queues and kernels ask for, and at most `MOST`; a queue that waits for
another one, or is held, has none. Idle threads end after a while. Where no thread can be started,
threads that wait for a queue run it themselves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

__all__ = ["MOST", "WORKERS", "Workers"]

# Limit of the threads, over all streams.
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
        self._idle: list[None] = []  # one entry for each idle thread

    def give(self, work: Callable[[], object]) -> None:
        """Have a thread call `work` as soon as one is free. Spurious calls are harmless."""
        self._look_around()
        self._ready.put(work)
        self._add_thread()

    def help(self) -> bool:
        """Run ready work in this thread if no worker exists; return whether it was run."""
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
        """Reset the state in a forked child, which has none of the threads."""
        if self._process != os.getpid():
            self._begin()

    def includes_this(self) -> bool:
        """Whether this thread is a worker, which never waits for a queue."""
        return threading.current_thread() in self._threads

    def _add_thread(self) -> None:
        """Start one more thread if ready work exceeds idle threads."""
        if self._ready.qsize() <= len(self._idle) or len(self._threads) >= MOST:
            return
        thread = threading.Thread(target=self._work, name="tilewright cpu worker", daemon=True)
        try:
            self._threads.add(thread)
            thread.start()
        except RuntimeError:  # the system cannot start one, or the process is about to end
            self._threads.discard(thread)
        except BaseException:  # from a signal handler; a started thread registers itself
            self._threads.discard(thread)
            raise

    def _work(self) -> None:
        thread = threading.current_thread()
        self._threads.add(thread)
        try:
            while (work := self._next()) is not None:
                work()
                del work  # it may be the last reference to its queue
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
            # The thread was still listed as idle, so work given meanwhile may have started none.
            if work is not None:
                self._add_thread()
                return work
            if self._ready.empty():
                return None


# The workers of this process.
WORKERS = Workers()

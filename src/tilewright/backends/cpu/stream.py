"""CPU streams: a queue of tasks with a worker thread of its own.

The worker starts with the first task, ends after a while without one, and starts anew in a forked
child. A task that raises does not stop the queue: the exception belongs to the operation that the
next mark ends. Nothing here takes a device's lock.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from tilewright.backends.cpu.memory import Memory
from tilewright.backends.cpu.pool import CpuPool
from tilewright.errors import DriverError
from tilewright.runtime.backend import Bytes, Tell

__all__ = ["CpuHold", "CpuQueue", "CpuStamp", "Tasks"]

_IDLE_SECONDS = 2.0
_PATTERNS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class _Task(NamedTuple):
    """One step of a queue."""

    run: Callable[[], object]
    repeatable: bool = False  # whether a forked child may do again what was under way


class CpuHold:
    """A queue stopped until `release`."""

    def __init__(self) -> None:
        self._gate = threading.Event()

    def release(self) -> None:
        """Let the queue go on."""
        self._gate.set()

    def wait(self) -> None:
        """Stop until released."""
        self._gate.wait()


class CpuStamp:
    """When the worker got there."""

    __slots__ = ("_nanoseconds",)

    def set(self) -> None:
        """It is there now."""
        self._nanoseconds = time.perf_counter_ns()

    def seconds_since(self, earlier: CpuStamp) -> float:
        """How much later it was than another."""
        return (self._nanoseconds - earlier._nanoseconds) / 1e9


class Tasks(ABC):
    """Fills and copies as tasks, wherever those are put."""

    @abstractmethod
    def put(self, run: Callable[[], object], *, repeatable: bool = False) -> None:
        """Add a task."""

    def fill(self, allocation: Memory, pattern: bytes, repeats: int, offset: int = 0) -> None:
        """Repeat a pattern."""
        kind = _PATTERNS[len(pattern)]
        elements = allocation.array[offset : offset + len(pattern) * repeats].view(kind)
        self.put(partial(elements.fill, np.frombuffer(pattern, kind)[0]), repeatable=True)

    def copy(
        self, target: Memory, target_offset: int, source: Memory, offset: int, nbytes: int
    ) -> None:
        """Copy bytes from one allocation to another."""
        to = target.array[target_offset : target_offset + nbytes]
        self.put(partial(np.copyto, to, source.array[offset : offset + nbytes]), repeatable=True)

    def upload(self, allocation: Memory, source: Bytes) -> None:
        """Copy host bytes in."""
        self.put(partial(np.copyto, allocation.array[: source.size], source), repeatable=True)

    def download(self, allocation: Memory, offset: int, target: Bytes) -> None:
        """Copy bytes out."""
        source = allocation.array[offset : offset + target.size]
        self.put(partial(np.copyto, target, source), repeatable=True)


class CpuQueue(Tasks):
    """Tasks in order, and how many operations of them have completed."""

    number = 0
    may_raise = True
    may_be_recorded = False

    def __init__(self, label: str) -> None:
        self._label = label
        self._tasks: deque[_Task] = deque()
        self._current: _Task | None = None
        self._error: BaseException | None = None
        self._errors: dict[int, BaseException] = {}
        self._holds: list[CpuHold] = []
        self._known = self._marked = 0
        self._listeners: list[tuple[int, Tell]] = []
        self._make_locks()

    def _make_locks(self) -> None:
        # A finaliser of the user's may run while it is held, and put something itself.
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._progressed = threading.Condition(self._lock)
        self._worker: threading.Thread | None = None

    @property
    def known(self) -> int:
        """The last operation that has completed."""
        return self._known

    def put(self, run: Callable[[], object], *, repeatable: bool = False) -> None:
        """Add a task."""
        with self._lock:
            self._tasks.append(_Task(run, repeatable))
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name=self._label, daemon=True)
                self._worker.start()
            else:
                self._arrived.notify()

    def _work(self) -> None:
        while self._next() is not None:
            assert self._current is not None
            try:
                self._current.run()
            except BaseException as error:  # noqa: BLE001
                self._error = self._error or error
            with self._lock:
                self._tasks.popleft()
                self._current = None

    def _next(self) -> _Task | None:
        with self._lock:
            while not self._tasks:
                if not self._arrived.wait(_IDLE_SECONDS) and not self._tasks:
                    self._worker = None
                    return None
            # It stays at the head while it runs, so that a forked child knows what was under way.
            self._current = self._tasks[0]
            return self._current

    def is_capturing(self) -> bool:
        """Never: nobody else puts work on it."""
        return False

    @property
    def marked(self) -> int:
        """The operation that ends with what has been put so far."""
        return self._marked

    @marked.setter
    def marked(self, count: int) -> None:
        self._marked = count
        self.put(partial(self._finish, count), repeatable=True)

    def _finish(self, count: int) -> None:
        with self._lock:
            if self._error is not None:
                self._errors[count] = self._error
                self._error = None
            self._known = count
            self._progressed.notify_all()
            told = [tell for wanted, tell in self._listeners if wanted <= count]
            self._listeners = [entry for entry in self._listeners if entry[0] > count]
        for tell in told:
            tell(None)

    def completed(self) -> int:
        """The last operation that has completed."""
        return self._known

    progress = completed

    def wait(self, count: int) -> None:
        """Block until operation `count` has completed."""
        with self._lock:
            while self._known < count:
                self._progressed.wait()

    def passes_soon(self, count: int) -> bool:
        """Whether operation `count` has completed: to spin would keep the worker from it."""
        return self._known >= count

    def when_completed(self, count: int, tell: Tell) -> None:
        """Call `tell` on the worker, when operation `count` has completed."""
        with self._lock:
            if self._known < count:
                self._listeners.append((count, tell))
                return
        tell(None)

    def order_after(self, other: CpuQueue, count: int) -> int:
        """Wait for operation `count` of another queue, and for no more of it."""
        self.put(partial(other.wait, count), repeatable=True)
        return count

    def take_error(self, count: int) -> BaseException | None:
        """What operation `count` raised, once."""
        with self._lock:
            return self._errors.pop(count, None)

    def hold(self) -> CpuHold:
        """Stop before whatever is put next, until released."""
        hold = CpuHold()
        self._holds.append(hold)
        self.put(hold.wait, repeatable=True)
        return hold

    def end_holds(self) -> None:
        """Release every hold."""
        while self._holds:
            self._holds.pop().release()

    def stamp(self) -> CpuStamp:
        """Note the time when the queue gets here."""
        made = CpuStamp()
        self.put(made.set, repeatable=True)
        return made

    def restart(self) -> None:
        """Go on in a forked child with what had not been started."""
        under_way = self._current
        self._listeners.clear()  # their loops ran in the parent
        self._make_locks()
        self._current = None
        self.end_holds()
        interrupted = under_way is not None and not under_way.repeatable
        if interrupted and self._tasks and self._tasks[0] is under_way:
            self._tasks.popleft()
            self._error = DriverError(
                f"the process forked while {self._label} was running an operation, so its result"
                " is not known here: synchronize before the fork"
            )
        if self._tasks:
            self.put(_nothing)

    def allocate(self, nbytes: int, pool: CpuPool) -> Memory:
        """Aligned host memory."""
        return pool.take(nbytes)

    def free(self, allocation: Memory, pool: CpuPool) -> None:
        """Give the memory back when the queue gets there."""
        self.put(partial(pool.give_back, allocation), repeatable=True)


def _nothing(*_: object) -> None:
    """A task that only keeps its arguments alive until the queue gets there."""

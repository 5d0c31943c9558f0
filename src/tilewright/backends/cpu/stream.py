"""CPU streams: a queue of tasks, which the threads of `workers` run one by one.

A queue has a thread while it has a task that can run. One that has to wait for another queue, or is
held, gives its thread back and is told when it may go on. A task that raises does not stop the
queue: the exception belongs to the operation that the next mark ends. A kernel is told to stop when
a wait is interrupted, as by Ctrl-C. Nothing here takes a device's lock.

Where a signal may raise, the order of the steps matters: to ask for a thread twice does no
harm, and a thread that was not asked for is when the next task comes or a wait begins.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from tilewright.backends.cpu.memory import Memory
from tilewright.backends.cpu.pool import CpuPool
from tilewright.backends.cpu.stopping import Stop
from tilewright.backends.cpu.tasks import Tasks
from tilewright.backends.cpu.workers import WORKERS
from tilewright.errors import DriverError, StoppedError
from tilewright.runtime.devices.backend import Tell

__all__ = ["CpuHold", "CpuQueue", "CpuStamp"]

# Tasks that may wait in one queue before submissions to it wait themselves.
MOST_TASKS = 4096
# Windows runs the handlers of signals only between waits.
_PATIENCE = 0.1 if os.name == "nt" else -1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """One step of a queue."""

    run: Callable[[], object]
    repeatable: bool = False  # whether a forked child may do again what was under way
    stop: Stop | None = None  # ends it, if it can be ended
    gate: CpuHold | _Passing | None = None  # has to be open before it runs


class CpuHold:
    """A queue stopped until `release`."""

    def __init__(self) -> None:
        self._is_released = False
        self._listeners: list[Tell] = []

    def release(self) -> None:
        """Let the queue go on."""
        self._is_released = True
        while self._listeners:
            self._listeners.pop()(None)

    @property
    def is_open(self) -> bool:
        """Whether it was released."""
        return self._is_released

    def when_open(self, tell: Tell) -> None:
        """Call something once it is released."""
        self._listeners.append(tell)
        if self._is_released:
            self.release()


class _Passing:
    """A queue that waits until another one has passed an operation."""

    def __init__(self, queue: CpuQueue, count: int) -> None:
        self.queue = queue
        self._count = count

    @property
    def is_open(self) -> bool:
        """Whether the operation has completed."""
        return self.queue.known >= self._count

    def when_open(self, tell: Tell) -> None:
        """Call something once the operation has completed."""
        self.queue.when_completed(self._count, tell)


class CpuStamp:
    """When the worker got there."""

    __slots__ = ("_nanoseconds",)

    def set(self) -> None:
        """It is there now."""
        self._nanoseconds = time.perf_counter_ns()

    def seconds_since(self, earlier: CpuStamp) -> float:
        """How much later it was than another."""
        return (self._nanoseconds - earlier._nanoseconds) / 1e9


class _State(Enum):
    """Which thread a queue has."""

    IDLE = "none, and none has been asked for"
    GIVEN = "none, but one has been asked for"
    RUNNING = "one, which runs its tasks"
    SUSPENDED = "none, until the gate of its first task opens"


class CpuQueue(Tasks):
    """Tasks in order, and how many operations of them have completed."""

    number = 0
    may_raise = True
    may_be_recorded = False

    def __init__(self, label: str) -> None:
        self._label = label
        self._tasks: deque[_Task] = deque()
        self.tail: object = None  # the last task that was put
        self._error: BaseException | None = None
        self._errors: dict[int, BaseException] = {}
        self._holds: list[CpuHold] = []
        self._known = self._marked = 0
        self._listeners: list[tuple[int, Tell]] = []
        self._is_ending = False
        self._begin()

    def _begin(self) -> None:
        # A finaliser of the user's may run while it is held, and put something itself.
        self._lock = threading.RLock()
        self._state = _State.IDLE

    @property
    def known(self) -> int:
        """The last operation that has completed."""
        return self._known

    # --- tasks ---

    def put(self, run: Callable[[], object], *, repeatable: bool = False) -> None:
        """Add a task."""
        self._put(_Task(run, repeatable))

    def put_kernel(self, run: Callable[[Stop], object]) -> None:
        """Add a task that ends when it is told to."""
        stop = Stop()
        self._put(_Task(partial(run, stop), stop=stop))

    def _put(self, task: _Task) -> None:
        with self._lock:
            self.tail = task  # in front of the call: behind that a signal may raise
            self._tasks.append(task)
            self._ask_for_thread()

    def _ask_for_thread(self) -> None:
        """Have the tasks run, if there are any. The lock is held."""
        if self._tasks and self._state is _State.IDLE:
            WORKERS.give(self._run)
            self._state = _State.GIVEN

    def _run(self) -> None:
        """Run tasks until none is left or one has to wait, if no other thread does that."""
        with self._lock:
            if self._state in (_State.RUNNING, _State.SUSPENDED):
                return
            self._state = _State.RUNNING
        while (task := self._first()) is not None:
            if task.gate is not None and not task.gate.is_open:
                with self._lock:
                    self._state = _State.SUSPENDED
                task.gate.when_open(self._go_on)
                return
            self._run_one(task)

    def _first(self) -> _Task | None:
        with self._lock:
            if not self._tasks:
                self._state = _State.IDLE
                return None
            # It stays at the head while it runs, so that a forked child knows what was under way.
            return self._tasks[0]

    def _run_one(self, task: _Task) -> None:
        try:
            if task.stop is not None and self._is_ending:
                task.stop.ask(self._stopped())
            task.run()
        except BaseException as error:  # noqa: BLE001
            self._error = self._error or error
        with self._lock:
            self._tasks.popleft()

    def _go_on(self, _: BaseException | None) -> None:
        """The gate of the first task has opened."""
        with self._lock:
            if self._state is _State.SUSPENDED:
                self._state = _State.IDLE
                self._ask_for_thread()

    def _obstacle(self) -> _Task | None:
        """The task that runs or is held here, or where this queue waits."""
        queue, seen = self, set[CpuQueue]()
        while queue not in seen:  # queues that seem to wait for each other have just moved on
            seen.add(queue)
            with queue._lock:
                first = queue._tasks[0] if queue._tasks else None
            if first is None or not isinstance(first.gate, _Passing) or first.gate.is_open:
                return first
            queue = first.gate.queue
        return None

    def make_room(self) -> None:
        """Wait as long as very many tasks are queued. Threads that run queues never wait."""
        while len(self._tasks) >= MOST_TASKS and self._known < self._marked:
            first = self._obstacle()
            if WORKERS.includes_this() or (first is not None and isinstance(first.gate, CpuHold)):
                return
            self._wait(self._known + 1, 0.1)

    # --- stopping ---

    def stop(self) -> None:
        """Tell the kernel that is running, here or where this queue waits, to end."""
        first = self._obstacle()
        if first is not None and first.stop is not None:
            first.stop.ask(self._stopped())

    def stop_all(self) -> None:
        """Stop the kernel that is running and all that come: the process ends."""
        self._is_ending = True
        self.stop()

    def _stopped(self) -> StoppedError:
        return StoppedError(
            f"a kernel on {self._label} was stopped while it ran, since a wait was interrupted"
            " (Ctrl-C): its outputs are not whole. Write them again before they are read"
        )

    # --- operations ---

    def is_capturing(self) -> bool:
        """Never: other libraries put no work on it."""
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
            told = [tell for wanted, tell in self._listeners if wanted <= count]
            self._listeners = [entry for entry in self._listeners if entry[0] > count]
        for tell in told:
            tell(None)

    def completed(self) -> int:
        """The last operation that has completed."""
        return self._known

    progress = completed

    def wait(self, count: int) -> None:
        """Block until operation `count` has completed; an interrupt stops the kernel that runs."""
        while self._known < count:
            self._wait(count)

    def _wait(self, count: int, seconds: float = _PATIENCE) -> None:
        """Block until operation `count` has completed, or for so many seconds at most."""
        # A lock of its own for each wait: what an interrupt leaves behind keeps no other waiting.
        passed = threading.Lock()
        try:
            passed.acquire()
            self.when_completed(count, lambda _: passed.release())
            while self._known < count and WORKERS.help():
                pass
            passed.acquire(timeout=seconds)
        except BaseException as error:
            if not isinstance(error, Exception):
                self.stop()
            raise

    def passes_soon(self, count: int) -> bool:
        """Whether operation `count` has completed: to spin would keep the worker from it."""
        return self._known >= count

    def when_completed(self, count: int, tell: Tell) -> None:
        """Call `tell` once operation `count` has completed, on the thread that completes it."""
        with self._lock:
            if self._known < count:
                self._listeners.append((count, tell))
                self._ask_for_thread()
                return
        tell(None)

    def order_after(self, other: CpuQueue, count: int) -> int:
        """Wait for operation `count` of another queue, and for no more of it."""
        self._put(_Task(_nothing, repeatable=True, gate=_Passing(other, count)))
        return count

    def take_error(self, count: int) -> BaseException | None:
        """What operation `count` raised, once."""
        with self._lock:
            return self._errors.pop(count, None)

    def hold(self) -> CpuHold:
        """Stop before whatever is put next, until released."""
        hold = CpuHold()
        self._holds.append(hold)
        self._put(_Task(_nothing, repeatable=True, gate=hold))
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
        """Go on in a forked child with what had not been started, at the next question.

        Not now: other queues, which have not been restarted yet, may be needed for it.
        """
        was_running = self._state is _State.RUNNING
        self._listeners.clear()  # their loops ran in the parent
        self._begin()
        self.end_holds()
        if was_running and self._tasks and not self._tasks[0].repeatable:
            self._tasks.popleft()
            self._error = DriverError(
                f"the process forked while {self._label} was running an operation, so its result"
                " is not known here: synchronize before the fork"
            )

    def allocate(self, nbytes: int, pool: CpuPool) -> Memory:
        """Aligned host memory."""
        return pool.take(nbytes)

    def free(self, allocation: Memory, pool: CpuPool) -> None:
        """Give the memory back when the queue gets there."""
        self.put(partial(pool.give_back, allocation), repeatable=True)


def _nothing() -> None:
    """What a queue does behind a gate."""

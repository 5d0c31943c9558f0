"""CPU streams: queues of tasks, which the threads of `workers` run one by one.

A queue has a thread while it has a task that can run. A queue that waits for another one, or is
held, returns its thread and is notified when it may continue. A task that raises does not stop the
queue: the exception belongs to the operation that the next mark ends. A kernel is asked to stop
when a wait is interrupted, as by Ctrl-C. No code here takes a device's lock.

A thread that waits runs the tasks in front itself, if no other thread does: two changes of threads
take longer than a short kernel, and on a busy machine longer than most. A caller that is about to
wait says so (`is_awaited`), and no worker is woken for the work that it puts. Tasks that may run
any code, completions that others wait for, and all tasks of a main thread with signal handlers of
its own are left to the workers.

Where a signal may raise, the order of steps matters: a second request for a thread is harmless, and
a missed request is repeated when the next task arrives or a wait begins. A kernel that was
interrupted in the thread that waits has failed, and a repeatable task is repeated.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.backends.cpu.pool import CpuPool
from tilewright.backends.cpu.stopping import Stop
from tilewright.backends.cpu.tasks import Tasks
from tilewright.backends.cpu.workers import WORKERS
from tilewright.errors import DriverError, StoppedError
from tilewright.runtime.devices.backend import Tell

__all__ = ["CpuHold", "CpuQueue", "CpuStamp"]

# Length of a queue at which submissions to it block.
MOST_TASKS = 4096
# Signals that programs handle; a system may lack some of them.
_HANDLED = [
    getattr(signal, name)
    for name in (
        "SIGINT",
        "SIGTERM",
        "SIGHUP",
        "SIGALRM",
        "SIGVTALRM",
        "SIGPROF",
        "SIGUSR1",
        "SIGUSR2",
    )
    if hasattr(signal, name)
]
# On Windows signal handlers run only between waits.
_PATIENCE = 0.1 if os.name == "nt" else -1.0


@dataclass(frozen=True, slots=True, eq=False)
class _QueuedStep:
    """One step of a queue."""

    run: Callable[[], object]
    repeatable: bool = False  # whether a forked child may repeat the task if it was in flight
    stop: Stop | None = None  # ends the task, if it can be ended
    may_be_taken: bool = False  # whether a thread that waits may run it
    mark: int | None = None  # the operation that it ends
    gate: CpuHold | _Passing | None = None  # must be open before the task runs


class CpuHold:
    """A queue stopped until `release`."""

    def __init__(self) -> None:
        self._is_released = False
        self._listeners: list[Tell] = []

    def release(self) -> None:
        """Let the queue continue."""
        self._is_released = True
        while self._listeners:
            self._listeners.pop()(None)

    @property
    def is_open(self) -> bool:
        """Whether the hold was released."""
        return self._is_released

    def when_open(self, tell: Tell) -> None:
        """Call `tell` once the hold is released."""
        self._listeners.append(tell)
        if self._is_released:
            self.release()


class _Passing:
    """The wait of a queue for an operation of another one."""

    def __init__(self, queue: CpuQueue, count: int) -> None:
        self.queue = queue
        self._count = count

    @property
    def is_open(self) -> bool:
        """Whether the operation has completed."""
        return self.queue.known >= self._count

    def when_open(self, tell: Tell) -> None:
        """Call `tell` once the operation has completed."""
        self.queue.when_completed(self._count, tell)


class CpuStamp:
    """Time at which the worker reached a point of its queue."""

    __slots__ = ("_nanoseconds",)

    def set(self) -> None:
        """Record the current time."""
        self._nanoseconds = time.perf_counter_ns()

    def seconds_since(self, earlier: CpuStamp) -> float:
        """Return the seconds since another stamp."""
        return (self._nanoseconds - earlier._nanoseconds) / 1e9


class _State(Enum):
    """Thread of a queue."""

    IDLE = "none, and none has been asked for"
    GIVEN = "none, but one has been asked for"
    RUNNING = "one, which runs its tasks"
    SUSPENDED = "none, until the gate of its first task opens"


class CpuQueue(Tasks):
    """Tasks in order, and the number of their completed operations."""

    number = 0
    may_raise = True
    may_be_recorded = False

    def __init__(self, label: str) -> None:
        self._label = label
        self._tasks: deque[_QueuedStep] = deque()
        self.tail: object = None  # the last task enqueued
        self._error: BaseException | None = None
        self._errors: dict[int, BaseException] = {}
        self._holds: list[CpuHold] = []
        self._known = self._marked = 0
        self._listeners: list[tuple[int, Tell]] = []
        self._is_ending = False
        self.is_awaited = False  # whether the caller is about to wait for the tasks that it puts
        self._begin()

    def _begin(self) -> None:
        # Reentrant, because a user's finaliser may run while the lock is held, and enqueue a task.
        self._lock = threading.RLock()
        self._state = _State.IDLE

    @property
    def known(self) -> int:
        """Number of the last completed operation."""
        return self._known

    # --- tasks ---

    def put(self, run: Callable[[], object], *, repeatable: bool = False) -> None:
        """Enqueue a task."""
        self._put(_QueuedStep(run, repeatable, may_be_taken=repeatable))

    def put_kernel(self, run: Callable[[Stop], object], *, may_be_taken: bool = False) -> None:
        """Enqueue a task that can be stopped."""
        stop = Stop()
        self._put(_QueuedStep(partial(run, stop), stop=stop, may_be_taken=may_be_taken))

    def _put(self, task: _QueuedStep) -> None:
        with self._lock:
            self.tail = task  # before the call, after which a signal may raise
            self._tasks.append(task)
            if not self.is_awaited:
                self._ask_for_thread()

    def _ask_for_thread(self) -> None:
        """Request a thread if there are tasks. The lock is held."""
        if self._tasks and self._state is _State.IDLE:
            WORKERS.give(self._run)
            self._state = _State.GIVEN

    def _run(self) -> None:
        """Run tasks until none is left or one has to wait, unless another thread does."""
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

    def _run_here(self, count: int) -> None:
        """Run tasks up to operation `count` in this thread, which waits for it.

        Tasks that another thread runs, or has to run, are left to it.
        """
        is_mine = False
        try:
            with self._lock:
                if self._state is _State.RUNNING or self._state is _State.SUSPENDED:
                    return
                is_mine, self._state = True, _State.RUNNING
            while self._known < count and self._run_first():
                pass
        finally:
            if is_mine:  # no call, behind which a signal could raise
                self._state = _State.IDLE

    def _run_first(self) -> bool:
        """Run the first task in a thread that waits; return whether it has."""
        # No call under the lock: a finaliser could run there, and wait for a thread that needs it.
        with self._lock:
            task = self._tasks[0] if self._tasks else None
            if task is None or not task.may_be_taken or (task.mark and self._listeners):
                return False
            if task.mark:
                if self._error is not None:
                    self._errors[task.mark] = self._error
                    self._error = None
                self._known = task.mark
                del self._tasks[0]
                return True
        try:
            self._start(task)
        except Exception as error:  # noqa: BLE001
            self._error = self._error or error
        except BaseException:  # from a signal handler
            if not task.repeatable:
                self._error = self._error or self._stopped()
                del self._tasks[0]
            raise
        del self._tasks[0]
        return True

    def _first(self) -> _QueuedStep | None:
        with self._lock:
            if not self._tasks:
                self._state = _State.IDLE
                return None
            # A running task stays at the head, so that a forked child knows it was in flight.
            return self._tasks[0]

    def _run_one(self, task: _QueuedStep) -> None:
        try:
            self._start(task)
        except BaseException as error:  # noqa: BLE001
            self._error = self._error or error
        with self._lock:
            self._tasks.popleft()

    def _start(self, task: _QueuedStep) -> None:
        if task.stop is not None and self._is_ending:
            task.stop.ask(self._stopped())
        task.run()

    def _go_on(self, _: BaseException | None) -> None:
        """Continue after the gate of the first task has opened."""
        with self._lock:
            if self._state is _State.SUSPENDED:
                self._state = _State.IDLE
                self._ask_for_thread()

    def _obstacle(self) -> _QueuedStep | None:
        """Return the task that runs or is held, here or in the queue that this one waits for."""
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
        """Wait while the queue is full. Threads that run queues never wait."""
        while len(self._tasks) >= MOST_TASKS and self._known < self._marked:
            first = self._obstacle()
            if WORKERS.includes_this() or (first is not None and isinstance(first.gate, CpuHold)):
                return
            self._wait(self._known + 1, 0.1)

    # --- stopping ---

    def stop(self) -> None:
        """Ask the running kernel, here or in the queue that this one waits for, to stop."""
        first = self._obstacle()
        if first is not None and first.stop is not None:
            first.stop.ask(self._stopped())

    def stop_all(self) -> None:
        """Stop the running kernel and all later ones: the process ends."""
        self._is_ending = True
        self.stop()

    def _stopped(self) -> StoppedError:
        return StoppedError(
            f"a kernel on {self._label} was stopped while it ran, since a wait was interrupted"
            " (Ctrl-C): its outputs are not whole. Write them again before they are read"
        )

    # --- operations ---

    def is_capturing(self) -> bool:
        """Return False: other libraries do not use CPU queues."""
        return False

    @property
    def marked(self) -> int:
        """Number of the operation that the tasks enqueued so far end; assigning it ends one."""
        return self._marked

    @marked.setter
    def marked(self, count: int) -> None:
        self._marked = count
        finish = partial(self._finish, count)
        self._put(_QueuedStep(finish, repeatable=True, may_be_taken=True, mark=count))

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
        """Return the number of the last completed operation."""
        self._see_to_rest()
        return self._known

    progress = completed

    def wait(self, count: int) -> None:
        """Block until operation `count` has completed; an interrupt stops the running kernel."""
        self.is_awaited = False
        if self._known < count and not _may_be_left():
            self._run_here(count)
        self._see_to_rest()
        while self._known < count:
            self._wait(count)
        self._see_to_rest()

    def _see_to_rest(self) -> None:
        """Request a thread for tasks that none runs, without the lock: one too many is harmless."""
        if self._tasks and self._state is _State.IDLE and not self.is_awaited:
            WORKERS.give(self._run)

    def _wait(self, count: int, seconds: float = _PATIENCE) -> None:
        """Block until operation `count` has completed, or for at most so many seconds."""
        # Each wait has its own lock, so that an interrupted wait never blocks another.
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
        """Whether operation `count` has completed; spinning would only delay the worker."""
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
        """Wait for operation `count` of another queue, and for no later one."""
        self._put(_QueuedStep(_nothing, repeatable=True, gate=_Passing(other, count)))
        return count

    def take_error(self, count: int) -> BaseException | None:
        """Return the exception of operation `count`, once."""
        with self._lock:
            return self._errors.pop(count, None)

    def hold(self) -> CpuHold:
        """Hold the queue before its next task, until released."""
        hold = CpuHold()
        self._holds.append(hold)
        self._put(_QueuedStep(_nothing, repeatable=True, gate=hold))
        return hold

    def end_holds(self) -> None:
        """Release every hold."""
        while self._holds:
            self._holds.pop().release()

    def stamp(self) -> CpuStamp:
        """Record the time when the queue reaches this point."""
        made = CpuStamp()
        self.put(made.set, repeatable=True)
        return made

    def restart(self) -> None:
        """Continue in a forked child with the tasks that had not started, at the next query.

        Not now: the tasks may need other queues, which have not been restarted yet.
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

    def allocate(self, nbytes: int, pool: CpuPool) -> KernelMemory:
        """Return aligned host memory."""
        return pool.take(nbytes)

    def free(self, allocation: KernelMemory, pool: CpuPool) -> None:
        """Release the memory when the queue reaches this point."""
        if self._tasks:
            self._put(_QueuedStep(partial(pool.give_back, allocation), repeatable=True))
        else:
            pool.give_back(allocation)


def _may_be_left() -> bool:
    """Whether a signal handler of the program may raise in this thread and end its wait.

    The wait alone ends then, and no kernel does. Ctrl-C ends both, so Python's own handler counts
    for none.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = (signal.getsignal(number) for number in _HANDLED)
    return any(callable(one) and one is not signal.default_int_handler for one in handlers)


def _nothing() -> None:
    """Do nothing, as the task of a gate."""

"""The life of an operation: built, submitted, completed, with its result or its failure.

This is common to all kinds of operations; each kind defines its own submission. An operation may
run others (`steps`): that is a loop over generators, never a recursion, so a chain may be as long
as memory allows. Borrows belong to the kinds with work of their own.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator
from concurrent.futures import Future
from enum import Enum
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar, cast

from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.call_site import CallSite
from tilewright.runtime.ops.inside_chains import refuse_waiting
from tilewright.runtime.order.critical import check_idle
from tilewright.runtime.order.failure import Fence, Outcome

__all__ = ["GONE", "Ends", "Gone", "Runnable", "State", "Steps", "run_steps"]

T = TypeVar("T")
# Parts of an operation, each with the ends that collect its fences; their results are sent back.
Steps: TypeAlias = "Generator[tuple[Runnable[Any], Ends], Any, T]"


class State(Enum):
    """The state of an operation."""

    BUILT = "built"
    TAKEN = "part of another operation"
    RECORDED = "recorded in a graph"
    SUBMITTED = "submitted"
    COMPLETED = "completed"
    CLOSED = "closed"
    FAILED = "failed"


# Looking up members of an enumeration is slow.
_BUILT, _SUBMITTED, _TAKEN = State.BUILT, State.SUBMITTED, State.TAKEN
_NOT_ITS_OWN = (State.CLOSED, State.TAKEN, State.RECORDED)


class Gone(Enum):
    """Marker in place of a result that does not exist yet, or has been handed over."""

    GONE = "gone"


# The only member.
GONE: Final = Gone.GONE


class Ends:
    """The end of an operation's work: a fence for each stream, and the outcomes."""

    __slots__ = ("_own", "fences", "outcomes")

    def __init__(self) -> None:
        self.fences: dict[Stream, Fence] = {}
        self._own: Fence | None = None  # a fence of this object alone, whose count may advance
        self.outcomes: list[Outcome] = []

    def add(self, fence: Fence) -> None:
        """Include one more piece of work; a later fence on a stream covers an earlier one."""
        last = self.fences.get(fence.stream)
        if last is None or last.count < fence.count:
            self.fences[fence.stream] = fence
        if fence.outcome is not None:
            self.outcomes.append(fence.outcome)

    def reach(self, stream: Stream, count: int) -> None:
        """Include a piece of work that cannot fail, and is the last on its stream so far."""
        own = self._own
        if own is None or self.fences.get(stream) is not own:
            self._own = self.fences[stream] = Fence(stream, count, None)
        else:
            own.count = count

    def include(self, others: Ends) -> None:
        """Include the ends of another operation."""
        for fence in others.fences.values():
            self.add(fence)
        self.outcomes += [one for one in others.outcomes if one not in self.outcomes]

    @property
    def have_passed(self) -> bool:
        """Whether all work has completed; never blocks."""
        return all(fence.has_passed for fence in self.fences.values())

    def failure(self) -> Outcome | None:
        """The first failure, once all work has completed. The device's lock is held."""
        for fence in self.fences.values():
            fence.stream.settle()
        return next((one for one in self.outcomes if one.error is not None), None)


class Runnable(ABC, Generic[T]):
    """An operation of any kind. Its result is handed over once."""

    # Attributes that few operations set are in the dictionary, and cost the others nothing.
    __slots__ = ("__dict__", "__weakref__", "_chosen", "_result", "_state", "device", "label")

    _chosen: Stream | None  # the stream chosen by a policy
    _result: T | Gone
    is_single = False  # whether it is put on a stream in one step, and has no parts
    _error: BaseException | None = None  # the failure of its submission
    _failure: Outcome | None = None  # its failure while it ran
    _has_done_all = False  # compiled, on a device that runs nothing

    def __init__(self, label: str, device: Device) -> None:
        self._state = State.CLOSED  # until a subclass has set all attributes
        self.label = label
        self.device = device
        self._chosen = None
        self._result = GONE

    # --- defined by each kind of operation ---

    @property
    @abstractmethod
    def site(self) -> CallSite:
        """The line that built it."""

    @property
    @abstractmethod
    def ends(self) -> Ends:
        """The fences of its work; empty before it was submitted."""

    def last_fences(self) -> tuple[Fence, ...]:
        """The fences after which all its work has completed."""
        return tuple(self.ends.fences.values())

    @abstractmethod
    def compile(self) -> Self:
        """Compile all programs that the launch needs."""

    @abstractmethod
    def start(self, stream: Stream) -> None:
        """Put all work on a stream; refused if another thread has done so."""

    @abstractmethod
    def steps(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Put the work on a stream, as part of an operation that ends with `ends`.

        Yields the operations that this one consists of; their results are sent back.
        """

    @abstractmethod
    def give_back(self) -> None:
        """Release its borrows and other operations without running."""

    # --- queries ---

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The programs being assembled since it was built; a submission waits for them."""
        return ()

    @property
    def state(self) -> State:
        """The state, as far as it is known without querying the device."""
        return self._state

    @property
    def done(self) -> bool:
        """Whether it has ended, with or without success. Never blocks."""
        if self._state is _SUBMITTED and self.ends.have_passed:
            self.conclude()
        return self._state not in (State.BUILT, State.TAKEN, State.SUBMITTED)

    # --- running ---

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream (by default the current one) without waiting."""
        self.check_built()
        with self.device.lock:
            check_idle(self.device)
        chosen = self.choose_stream(stream)
        try:
            self.compile()
            chosen.make_room()
            self.start(chosen)
        except BaseException as error:
            self.abandon(error)
            raise
        return self

    def choose_stream(self, stream: Stream | None) -> Stream:
        """The stream to use; it must be one of this operation's device."""
        chosen = stream if stream is not None else self._chosen or self.device.stream
        if not isinstance(chosen, Stream):
            chosen = self.device.adopt(chosen)
        if chosen.device is not self.device:
            raise LaunchError(
                f"{self.name} runs on {self.device.name}, where its tensors are, and cannot be"
                f" submitted to a stream of {chosen.device.name}"
            )
        return chosen

    def abandon(self, error: BaseException) -> None:
        """Record why the submission failed, unless another thread has submitted it meanwhile.

        Inside a critical section nothing changes: that is why the call was refused.
        """
        with self.device.lock:
            if self.device.busy is None and self._state in (State.BUILT, State.TAKEN):
                self.give_back()
                self._state, self._error = State.FAILED, self._reason(error)

    def _reason(self, error: BaseException) -> BaseException:
        """The exception for later calls; an interrupt belongs to the interrupted call alone."""
        if isinstance(error, Exception):
            return error
        return LaunchError(f"{self.name} was given up, as its submission was interrupted")

    def sync(self) -> T:
        """Submit if it has not been submitted, wait, and hand the result over."""
        refuse_waiting(self.label)
        if self._state is _BUILT:
            self.submit()
        self._check_run()
        if self._state is _SUBMITTED:
            for fence in self.last_fences():
                fence.stream.wait(fence.count)
        return self.finish()

    def sync_on(self, stream: Stream) -> T:
        """Submit to a stream, wait, and hand the result over."""
        return self.submit(stream).sync()

    def finish(self) -> T:
        """Hand the result over, or raise the failure. All work has completed."""
        if self._state is _SUBMITTED:
            self.conclude()
        if self._failure is not None:
            self._failure.surface()
        if self._error is not None:
            raise self._error.with_traceback(None)
        return self.hand_over()

    def hand_over(self) -> T:
        """The result, once."""
        with self.device.lock:
            result, self._result = self._result, GONE
        if isinstance(result, Gone):
            raise LaunchError(f"{self.name} has handed its result over already")
        return result

    def close(self) -> None:
        """Release the borrows without running; a submitted operation is left alone."""
        with self.device.lock:
            check_idle(self.device)
            if self._state is State.BUILT:
                self.give_back()
                self._state = State.CLOSED

    def take(self) -> None:
        """Become part of another operation, which alone runs it from now on."""
        with self.device.lock:
            check_idle(self.device)
            self.check_built()
            self._state = _TAKEN

    def untake(self) -> None:
        """Be built again: the operation that took it was not made."""
        with self.device.lock:
            if self._state is State.TAKEN:
                self._state = State.BUILT

    def mark_recorded(self) -> None:
        """Become part of a graph, which alone runs it from now on."""
        with self.device.lock:
            self._state = State.RECORDED

    # --- rules ---

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"operation {self.label}, built at {self.site},"

    def check_built(self) -> None:
        """Refuse to run an operation twice."""
        if self._state is _BUILT:
            return
        if self._state is State.CLOSED:
            raise LaunchError(f"{self.name} was closed and cannot be run")
        if self._state is State.TAKEN:
            raise LaunchError(f"{self.name} is part of another operation: run that one")
        if self._state is State.RECORDED:
            raise LaunchError(f"{self.name} was recorded in a graph: launch the graph to run it")
        if self._error is not None:
            raise LaunchError(
                f"{self.name} could not be submitted, and runs once: build another"
            ) from self._error
        raise LaunchError(f"{self.name} runs once and was submitted already: build another")

    def _check_run(self) -> None:
        if self._state in _NOT_ITS_OWN:
            self.check_built()

    def conclude(self) -> None:
        """Look up how it ended. All work has completed."""
        with self.device.lock:
            self._failure = self.ends.failure()
            self._state = State.COMPLETED if self._failure is None else State.FAILED

    def __repr__(self) -> str:
        return f"<{self.label} on {self.device.name}, built at {self.site}: {self._state.value}>"

    def note_compiled(self) -> None:
        """On a device that runs nothing, a compiled operation needs no run."""
        if not self.device.backend.can_run:
            self._has_done_all = True

    def warn_if_never_run(self) -> None:
        """The warning of a finaliser about an operation that was built and dropped."""
        if self._state is State.BUILT and not self._has_done_all:
            warnings.warn_explicit(
                f"operation {self.label}, built at {self.site}, was never run",
                RuntimeWarning,
                self.site.code.co_filename,
                self.site.line,
                registry=_warned,
            )


class _Single(Protocol):
    """An operation without parts."""

    def put_part(self, stream: Stream, ends: Ends) -> Any:
        """Put it on a stream, as part of an operation that ends with `ends`; gives its result."""


_warned: dict[Any, Any] = {}


def run_steps(operation: Runnable[T], stream: Stream, ends: Ends) -> T:
    """Put an operation and all its parts on a stream, and give its result."""
    open_: list[Steps[Any]] = [operation.steps(stream, ends)]
    value: Any = None
    error: BaseException | None = None
    while open_:
        innermost = open_[-1]
        try:
            part, its_ends = innermost.send(value) if error is None else innermost.throw(error)
        except StopIteration as end:
            open_.pop()
            value, error = end.value, None
        except BaseException as raised:  # noqa: BLE001 (raised in its operation)
            open_.pop()
            value, error = None, raised
        else:
            value, error = None, None
            if not part.is_single:
                open_.append(part.steps(stream, its_ends))
                continue
            try:
                value = cast("_Single", part).put_part(stream, its_ends)
            except BaseException as raised:  # noqa: BLE001 (raised in its operation)
                error = raised
    if error is not None:
        raise error
    result: T = value
    return result

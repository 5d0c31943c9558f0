"""DeviceOp: a lazy, run-once unit of work on a device.

Its life is common to all kinds of operations: built, submitted, completed, with its result or its
failure. Each kind defines its own submission; borrows belong to the kinds with work of their own.
`then`, `map` and similar methods take an operation: from then on only the new operation runs it,
all on one stream. Only `shared` gives an operation that several others may use. `zip` combines
several operations into one.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import SchedulingPolicy, Stream, ask_policy
from tilewright.runtime.graphs.recording import graph_maker
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition, check_tile
from tilewright.runtime.ops.awaiting import completed
from tilewright.runtime.ops.call_site import CallSite
from tilewright.runtime.ops.chain_steps import (
    CutResult,
    Given,
    How,
    Item,
    Step,
    as_cut,
    check_count,
    choose_one,
    make_step,
    uncut,
)
from tilewright.runtime.ops.inside_chains import refuse_waiting
from tilewright.runtime.ops.lifecycle import GONE, Ends, Gone, State, Steps
from tilewright.runtime.ops.refusals import NotItsResult
from tilewright.runtime.order.critical import check_idle
from tilewright.runtime.order.failure import Fence, Outcome

if TYPE_CHECKING:
    from tilewright.runtime.graphs.graph import Graph
    from tilewright.runtime.ops.chain import Chain, Shared

__all__ = ["DeviceOp", "derived"]

T = TypeVar("T")
U = TypeVar("U")
# Looking up members of an enumeration is slow.
_BUILT, _SUBMITTED, _TAKEN = State.BUILT, State.SUBMITTED, State.TAKEN
_NOT_ITS_OWN = (State.CLOSED, State.TAKEN, State.RECORDED)
_warned: dict[Any, Any] = {}


class _Derived:
    """The classes of operations made of others, which `chain` sets."""

    chain: type[Chain[Any]]
    shared: type[Shared[Any]]


# Used by `then`, `map` and `shared`.
derived = _Derived()


class DeviceOp(NotItsResult, Awaitable[T]):
    """One operation. Nothing happens until it is submitted, synced or awaited.

    Its result is handed over once.
    """

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
            self.submit_awaited()
        self._check_run()
        if self._state is _SUBMITTED:
            for fence in self.last_fences():
                fence.stream.wait(fence.count)
        return self.finish()

    def sync_on(self, stream: Stream) -> T:
        """Submit to a stream, wait, and hand the result over."""
        refuse_waiting(self.label)
        self.submit_awaited(stream)
        return self.sync()

    def submit_awaited(self, stream: Stream | None = None) -> None:
        """Submit, where this thread waits for the work next, and may do it itself."""
        likely: Any = stream or self._chosen or self.device.current.get() or self.device.default
        if not self.device.backend.waits_by_working or likely.__class__ is not Stream:
            self.submit(stream)
            return
        queue: Any = likely.queue
        try:
            queue.is_awaited = True
            self.submit(stream)
        finally:
            queue.is_awaited = False

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

    # --- operations made of it ---

    def then(self, function: Callable[[T], DeviceOp[U]]) -> DeviceOp[U]:
        """Run this, and after it, on the same stream, the operation that the function gives.

        The function gets the result: handles, whose contents are not written yet.
        """
        return self._chained(make_step(How.THEN, function))

    def map(self, function: Callable[[T], U]) -> DeviceOp[U]:
        """Run this and give the function's value for its result, computed on the host."""
        return self._chained(make_step(How.MAP, function))

    def giving(self, result: U) -> DeviceOp[U]:
        """This operation with another result, given as a value."""
        return self.map(Given(result))

    def inspect(self, function: Callable[[T], object]) -> DeviceOp[T]:
        """Run this, call a function with its result, and give the result."""
        return self._chained(make_step(How.INSPECT, function))

    def first(self: DeviceOp[Any]) -> DeviceOp[Any]:
        """The first item of a result that is a tuple."""
        return self.map(Item(0))

    def last(self: DeviceOp[Any]) -> DeviceOp[Any]:
        """The last item of a result that is a tuple."""
        return self.map(Item(-1))

    def unzip(self: DeviceOp[Any], count: int | None = None) -> tuple[DeviceOp[Any], ...]:
        """An operation for each item of a result that is a tuple; this one runs once for all.

        The number of items is known for a launch or a `zip`, and must be given for others.
        """
        items = check_count(self.name, count, self.known_count())
        shared = self.shared()
        return tuple(shared.map(Item(position)) for position in range(items))

    def partition(
        self: DeviceOp[Any],
        *tile: int | None,
        order: tuple[int, ...] = (),
        prefix: bool = False,
        segments: Any = None,
    ) -> DeviceOp[HostPartition]:
        """The result, a tensor, cut as by `Tensor.partition`: for an output of a kernel."""
        number = self.known_count()
        if number is not None:
            raise LaunchError(choose_one(self.name, number))
        return self.map(CutResult(check_tile(tile), order, prefix, segments))

    def persistent(
        self: DeviceOp[HostPartition],
        blocks: int | None = None,
        group: int | tuple[int, ...] | None = None,
    ) -> DeviceOp[PersistentPartition]:
        """The result, a partition, walked as by `partition.persistent`."""
        return self.map(lambda cut: as_cut(cut).persistent(blocks, group))

    def unpartition(self: DeviceOp[Any]) -> DeviceOp[Any]:
        """The tensor of a result that is a partition: an input of the next kernel, say."""
        return self.map(uncut)

    def shared(self) -> Shared[T]:
        """An operation that may be used any number of times and runs once."""
        was_built = self._state is State.BUILT
        try:
            return derived.shared(self)
        except BaseException:
            self._free_again(was_built)
            raise

    def graph(self) -> Graph:
        """A graph of this operation alone: `g.launch()` runs it, any number of times."""
        return graph_maker.make(self)

    def schedule(self, policy: SchedulingPolicy) -> Self:
        """Run on the next stream of a policy."""
        self.check_built()
        self._chosen = self.choose_stream(ask_policy(policy))
        return self

    def __await__(self) -> Generator[Any, None, T]:
        """Submit if it has not been submitted; then suspend until it has completed."""
        if self._state is State.BUILT:
            self.submit(self._chosen or self.device.policy.next_stream())
        self._check_run()
        if self._state is State.SUBMITTED:
            for fence in self.last_fences():
                yield from completed(fence).__await__()
        return self.finish()

    def _chained(self, step: Step) -> DeviceOp[Any]:
        was_built = self._state is State.BUILT
        try:
            self.take()
            return derived.chain(self, [step])
        except BaseException:
            self._free_again(was_built)
            raise

    def _free_again(self, was_built: bool) -> None:  # the operation that took it was not made
        if was_built:
            self.untake()

    def known_count(self) -> int | None:
        """The number of results, if it is known before it runs."""
        return len(self._result) if isinstance(self._result, tuple) else None

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

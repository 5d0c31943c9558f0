"""Operations with work of their own: launches, copies, fills.

Built, one holds borrows; a submission (checks, inserted waits, the backend's call, new fences) is
one step under the device's lock, so fences are always in launch order. On a tape, which records a
graph, the work is kept instead.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast

from tilewright.runtime.access import Access, acquire, check_accesses, release
from tilewright.runtime.device import Device
from tilewright.runtime.failures import Check, Fence, Outcome
from tilewright.runtime.handshake import (
    check_recordable,
    in_their_order,
    keep_recorded,
    library_streams,
)
from tilewright.runtime.lifecycle import Ends, State, Steps
from tilewright.runtime.operation import DeviceOp
from tilewright.runtime.recording import Tape, block_is_open, refuse_recorded
from tilewright.runtime.storage import Holder, Storage
from tilewright.runtime.stream import Stream

__all__ = ["SingleOp", "Work", "WorkOp"]

T = TypeVar("T")
U = TypeVar("U")


class Work(Protocol):
    """What an operation does when it is submitted.

    A work may also have `compile()`: everything that can be done before the submission. It is
    called before the device's lock is taken, and may be called twice. What it waits for there is
    its `program`, a future.
    """

    def enqueue(self, stream: Stream) -> None:
        """Put the work on a stream. The device's lock is held and all bytes are allocated."""


class SingleOp(DeviceOp[T]):
    """An operation that is put on a stream in one step, under the device's lock."""

    __slots__ = ()

    @abstractmethod
    def put(self, stream: Stream) -> None:
        """Check, order, launch, and leave fences. The device's lock is held."""

    @abstractmethod
    def storages(self) -> Iterable[Storage]:
        """The memory that it uses."""

    def choose_stream(self, stream: Stream | None) -> Stream:
        """The stream to use: that of the library whose arrays these are, if nobody says another."""
        is_recorded = isinstance(self.device.stream, Tape)  # a step of a chain that is recorded
        if stream is None and self._chosen is None and not is_recorded:
            stream = next(iter(library_streams(self.storages())), None)
        return super().choose_stream(stream)

    def start(self, stream: Stream) -> None:
        """Put the work on a stream, unless another thread was faster."""
        with self.device.lock:
            self.check_built()
            self._put(stream)

    def steps(self, stream: Stream, ends: Ends) -> Steps[T]:
        """Put the work on a stream as part of another operation."""
        yield from ()  # it has no parts
        try:
            self.compile()
            with self.device.lock:
                self._put(stream)
        except BaseException as error:
            self.abandon(error)
            raise
        ends.include(self._ends)
        return self._results.pop()

    def _put(self, stream: Stream) -> None:
        self.device.check_usable()
        self.device.settle_notes()
        stream.settle(ask=False)
        self.put(stream)
        recorded = isinstance(stream, Tape)
        self._state = State.RECORDED if recorded else State.SUBMITTED


class WorkOp(SingleOp[T]):
    """One piece of work with the borrows it needs."""

    __slots__ = ("_accesses", "_check", "_holder", "_work")

    def __init__(
        self,
        label: str,
        device: Device,
        accesses: tuple[Access, ...],
        work: Work,
        result: T,
        *,
        failure: Check | None = None,
    ) -> None:
        super().__init__(label, device)
        self._accesses = accesses
        self._work: Work | None = work
        self._results.append(result)
        self._check = failure
        check_accesses(accesses, label, device)
        with device.lock:
            device.check_usable()
            device.settle_notes()
            _find_doubts(accesses)
            self._holder = acquire(accesses, Holder(label, self.site))
            self._state = State.BUILT

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The tensors it uses and how; empty once it has been submitted or closed."""
        return self._accesses

    def storages(self) -> Iterable[Storage]:
        """The memory of its tensors."""
        return (access.tensor.storage for access in self._accesses)

    def giving(self, result: U) -> WorkOp[U]:
        """This operation, which has not run yet, with another result."""
        results: list[Any] = self._results
        results[:] = [result]
        return cast("WorkOp[U]", self)

    def compile(self) -> Self:
        """Do everything but the launch."""
        prepare = getattr(self._work, "compile", None)
        if prepare is not None:
            prepare()
        return self

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The program that it will run, if it is one."""
        program = getattr(self._work, "program", None)
        return () if program is None else (program,)

    def give_back(self) -> None:
        """Give the borrows back. The device's lock is held."""
        release(self._accesses, self._holder)
        self._accesses, self._work, self._check = (), None, None

    def put(self, stream: Stream) -> None:
        """Give the borrows back and put the work on a stream, where fences take their place."""
        accesses, work, check = self._accesses, self._work, self._check
        assert work is not None, "a built operation has its work"
        if isinstance(stream, Tape):
            stream.add(self.label, self.site, accesses, work, check)
            self.give_back()
        elif stream.queue.is_capturing():
            check_recordable(self.label, accesses, check, stream)
            self.give_back()
            _record(accesses, work, stream)
        else:
            if block_is_open():
                used = ((one.tensor.storage, one.tensor.region) for one in accesses)
                refuse_recorded(used, self.name)
            theirs = library_streams(self.storages())
            self.give_back()
            with in_their_order(stream, theirs):
                self._ends.add(_run(accesses, work, check, stream))

    def __del__(self) -> None:
        # No lock here: the collector may run this anywhere.
        if self._state in (State.BUILT, State.TAKEN):
            self.device.notes.put(_Dropped(self._accesses, self._holder))
            self.warn_if_never_run()


class _Dropped(NamedTuple):
    """A built operation that was dropped."""

    accesses: tuple[Access, ...]
    holder: Holder

    def settle(self) -> None:
        """Give its borrows back."""
        release(self.accesses, self.holder)


def _find_doubts(accesses: tuple[Access, ...]) -> list[Outcome]:
    """Operations in flight that these accesses read from; raises if one has failed."""
    doubts: list[Outcome] = []
    for access in accesses:
        if access.mode.reads:
            doubts += access.tensor.storage.doubts(access.tensor.region)
    return doubts


def _run(accesses: tuple[Access, ...], work: Work, check: Check | None, stream: Stream) -> Fence:
    for access in accesses:
        access.tensor.storage.materialise(stream)
        access.tensor.storage.order(stream, access.tensor.region, writes=access.mode.writes)
    causes = _find_doubts(accesses)
    try:
        work.enqueue(stream)
    except BaseException as error:
        # Part of the work may be on the stream already: order it, and trust nothing it wrote.
        count = stream.advance()
        _leave_fences(accesses, Fence(stream, count, Outcome.refused(stream, count, error)))
        raise
    count = stream.advance()
    fence = Fence(stream, count, stream.watch(count, check, causes))
    _leave_fences(accesses, fence)
    return fence


def _record(accesses: tuple[Access, ...], work: Work, stream: Stream) -> None:
    """Put the work into a graph that another library records; it leaves no fence."""
    for access in accesses:
        access.tensor.storage.materialise(stream)
    work.enqueue(stream)
    keep_recorded(accesses, stream)
    for access in accesses:
        if access.mode.writes:
            access.tensor.storage.note_write()


def _leave_fences(accesses: tuple[Access, ...], fence: Fence) -> None:
    for access in accesses:
        storage = access.tensor.storage
        record = storage.record_write if access.mode.writes else storage.record_read
        record(access.tensor.region, fence)

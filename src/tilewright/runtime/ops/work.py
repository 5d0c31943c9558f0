"""Operations with work of their own: launches, copies, fills.

Built, one holds borrows; a submission (checks, inserted waits, the backend's call, new fences) is
one step under the device's lock, so fences are always in launch order. On a tape, which records a
graph, the work is kept instead.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast

from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.recording import Tape, block_is_open, refuse_recorded
from tilewright.runtime.interop.streams import (
    check_recordable,
    in_their_order,
    keep_recorded,
    library_streams,
)
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import Site, user_site
from tilewright.runtime.ops.lifecycle import Ends, State, Steps
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.order.access import Access, check_accesses
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.failure import Check, Fence, Outcome
from tilewright.runtime.order.insisting import insist
from tilewright.runtime.order.tickets import Role, Ticket

__all__ = ["SingleOp", "Work", "WorkOp"]

T = TypeVar("T")
U = TypeVar("U")
_BUILT, _TAKEN = State.BUILT, State.TAKEN  # members of an enumeration are slow to find


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

    is_single = True

    @abstractmethod
    def put(self, stream: Stream) -> None:
        """Check, order, launch, and leave fences. The device's lock is held, and it is alone."""

    @abstractmethod
    def storages(self) -> Iterable[Storage]:
        """The memory that it uses."""

    @property
    @abstractmethod
    def fence(self) -> Fence | None:
        """Where it ends; None before it was submitted."""

    @property
    def ends(self) -> Ends:
        """Its fence."""
        found, fence = Ends(), self.fence
        if fence is not None:
            found.add(fence)
        return found

    def last_fences(self) -> tuple[Fence, ...]:
        """Its fence."""
        fence = self.fence
        return () if fence is None else (fence,)

    def choose_stream(self, stream: Stream | None) -> Stream:
        """The stream to use: that of the library whose arrays these are, if nobody says another."""
        # A step of a chain that is recorded. To ask for `device.stream` could make one.
        is_recorded = isinstance(self.device.current.get(), Tape)
        if stream is None and self._chosen is None and not is_recorded:
            stream = next(iter(library_streams(self.storages())), None)
        return super().choose_stream(stream)

    def start(self, stream: Stream) -> None:
        """Put the work on a stream, unless another thread was faster."""
        with self.device.lock:
            self.check_built()
            self._put(stream)

    def steps(self, stream: Stream, ends: Ends) -> Steps[T]:
        """As any other, though it has no parts."""
        yield from ()
        return self.put_part(stream, ends)

    def put_part(self, stream: Stream, ends: Ends) -> T:
        """Put the work on a stream as part of another operation."""
        try:
            self.compile()
            stream.make_room()
            with self.device.lock:
                if self._state is not _TAKEN:
                    self.check_built()
                self._put(stream)
        except BaseException as error:
            self.abandon(error)
            raise
        fence = self.fence
        if fence is not None:
            ends.add(fence)
        return self.hand_over()

    def abandon(self, error: BaseException) -> None:
        """Remember why it could not be submitted; a signal may have raised behind that, though."""
        with self.device.lock:
            fence = self.fence
            is_put = fence is not None and (fence.outcome is None or fence.outcome.error is None)
            if is_put and not isinstance(error, Exception) and self._state in (_BUILT, _TAKEN):
                self.give_back()
                self._state = State.SUBMITTED
            else:
                super().abandon(error)

    def _put(self, stream: Stream) -> None:
        device = self.device
        device.check_usable()
        device.settle_notes()
        stream.settle(ask=False)
        alone(device, self.put, stream)
        self.give_back()
        recorded = isinstance(stream, Tape)
        self._state = State.RECORDED if recorded else State.SUBMITTED


class WorkOp(SingleOp[T]):
    """One piece of work with the borrows it needs."""

    __slots__ = ("_check", "_ticket", "_work")

    _work: Work | None

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
        roles = tuple(Role(mode, name) for _, mode, name in accesses)
        tensors = tuple(access.tensor for access in accesses)
        self._ticket = Ticket(label, user_site(), roles, tensors)
        self._work = work
        self._check = failure
        self._result = result
        check_accesses(accesses, label, device)
        try:
            with device.lock:
                device.check_open()
                device.settle_notes()
                self._ticket.acquire(device)
                self._state = State.BUILT
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Hold nothing: it could not be built, or a signal has raised meanwhile."""
        with self.device.lock:
            self._state = State.CLOSED
            self._ticket.release()

    @property
    def fence(self) -> Fence | None:
        """Its ticket."""
        return self.ticket if self.ticket.count else None

    @property
    def site(self) -> Site:
        """Where it was built."""
        return self._ticket.site

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The tensors it uses and how; empty once it has been submitted or closed."""
        return self.ticket.accesses

    def storages(self) -> Iterable[Storage]:
        """The memory of its tensors."""
        return (tensor.storage for tensor in self.ticket.tensors)

    @property
    def ticket(self) -> Ticket:
        """What its tensors know of it."""
        return self._ticket

    @property
    def work(self) -> Work:
        """What it will do; it has not run yet."""
        assert self._work is not None, "a built operation has its work"
        return self._work

    @property
    def check(self) -> Check | None:
        """Says how it failed, once it has ended; None if it cannot fail."""
        return self._check

    def giving(self, result: U) -> WorkOp[U]:
        """This very operation, which has not run yet, with another result."""
        self.check_built()
        self._result = cast("Any", result)
        return cast("WorkOp[U]", self)

    def compile(self) -> Self:
        """Do everything but the launch."""
        prepare = getattr(self._work, "compile", None)
        if prepare is not None:
            prepare()
        self.note_compiled()
        if self._has_done_all:  # and others may compile with the same tensors
            with self.device.lock:
                self.ticket.release()
        return self

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The program that it will run, if it is one."""
        program = getattr(self._work, "program", None)
        return () if program is None else (program,)

    def give_back(self) -> None:
        """Give the borrows back. The device's lock is held."""
        self.ticket.release()
        self.ticket.forget()
        self._work = self._check = None

    def put(self, stream: Stream) -> None:
        """Put the work on a stream and leave its fences; the borrows are given back behind it."""
        ticket, work, check = self.ticket, self.work, self.check
        if isinstance(stream, Tape):
            stream.add(self.label, self.site, ticket.accesses, work, check)
        elif stream.queue.is_capturing():
            check_recordable(self.label, ticket.accesses, check, stream)
            ticket.release()
            _record(ticket.accesses, work, stream)
        else:
            if block_is_open():
                used = ((tensor.storage, tensor.region) for tensor in ticket.tensors)
                refuse_recorded(used, self.name)
            theirs = library_streams(self.storages())
            with in_their_order(stream, theirs):
                _run(ticket, work, check, stream)

    def __del__(self) -> None:
        # No lock here: the collector may run this anywhere.
        try:
            state = self._state
        except AttributeError:
            return  # torch's compiler makes objects without their constructor when it looks at them
        if state is _BUILT or state is _TAKEN:
            if not self._has_done_all:  # or it holds nothing, and its tensors may be anywhere
                self.drop()
            self.warn_if_never_run()

    def drop(self) -> None:
        """Leave a note to give the borrows back. No lock is held."""
        self.device.notes.append(_Dropped(self.ticket))


class _Dropped(NamedTuple):
    """A built operation that was dropped."""

    ticket: Ticket
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Give its borrows back."""
        self.ticket.release()
        self.ticket.forget()


def _run(ticket: Ticket, work: Work, check: Check | None, stream: Stream) -> None:
    """Order the work, put it on a stream, and leave its fence. The device's lock is held."""
    at_home = ticket.is_at_home(stream)
    causes: Iterable[Outcome] = ()
    if not at_home:
        ticket.order(stream)
        causes = ticket.doubts()
    leave = partial(_leave, ticket, stream, check, tuple(causes))
    tail, is_put = stream.queue.tail, False
    try:
        work.enqueue(stream)
        is_put = True
        leave()
    except BaseException as error:
        if isinstance(error, Exception) or (not is_put and stream.queue.tail is not tail):
            ticket.leave_refused(stream, error)  # perhaps not as a whole
        elif is_put:
            insist(leave)
        raise


def _leave(
    ticket: Ticket, stream: Stream, check: Check | None, causes: tuple[Outcome, ...]
) -> None:
    """Leave the fence of work that has been put on a stream."""
    count = stream.advance()
    ticket.leave(stream, count, stream.watch(count, check, causes))


def _record(accesses: tuple[Access, ...], work: Work, stream: Stream) -> None:
    """Put the work into a graph that another library records; it leaves no fence."""
    for access in accesses:
        access.tensor.storage.materialise(stream)
    work.enqueue(stream)
    keep_recorded(accesses, stream)
    for access in accesses:
        if access.mode.writes:
            access.tensor.storage.note_write()

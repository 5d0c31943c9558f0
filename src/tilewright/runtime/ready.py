"""Operations whose work was looked at before: to build and to submit one is all that is left.

Nothing is decided here that `work` does not decide. Where the tensors are not at home, or anything
else is out of the ordinary, the operation gets a ticket and goes the way of every other. Most never
need one: they are submitted before anybody else asks for their tensors. So the device alone knows
the operation built last (`latest`), and storages hear of its borrows when somebody looks. Launches
made over and over have fences that stay with their storages: as long as the device is in the same
epoch, all there is to do is to move those on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from sys import _getframe
from types import CodeType
from typing import Any, Self, TypeVar
from weakref import ref

from tilewright.runtime.access import Handle
from tilewright.runtime.device import Device
from tilewright.runtime.failures import Check, Fence
from tilewright.runtime.lifecycle import Ends, State
from tilewright.runtime.sites import USER_FILES, Site, user_frame
from tilewright.runtime.storage import Storage
from tilewright.runtime.stream import Stream
from tilewright.runtime.surroundings import UNUSUAL
from tilewright.runtime.tickets import Role, Ticket
from tilewright.runtime.work import Work, WorkOp

__all__ = ["NEVER", "ReadyOp", "ReadyWork", "RepeatedWork"]

T = TypeVar("T")
# Members of an enumeration are slow to find.
_BUILT, _CLOSED, _SUBMITTED = State.BUILT, State.CLOSED, State.SUBMITTED
_HOLDING = (State.BUILT, State.TAKEN)
_new = object.__new__
# An epoch that no device is ever in.
NEVER = -1


class ReadyWork(ABC):
    """Work of which all is known but, perhaps, the tensors; many operations may share it."""

    __slots__ = (
        "device", "epoch", "fences", "label", "launch", "program", "roles", "shifts", "stream",
    )  # fmt: skip

    device: Device
    label: str
    roles: tuple[Role, ...]  # what it does to each tensor
    program: Future[Any]
    # Puts it on a stream. The device's lock is held and all bytes are allocated.
    launch: Callable[[Stream, tuple[Handle, ...]], None]
    # Of the last launch, if all are of the same tensors:
    stream: Stream | None  # where it was
    fences: tuple[Fence, ...]  # which it has left
    shifts: tuple[int, ...]  # of the storages, when it left them there
    epoch: int  # of the device, in which nothing has shifted since, and nobody borrows from them

    def is_settled(self, tensors: tuple[Handle, ...]) -> bool:
        """Whether the fences of the last launch, on this stream, only have to be moved on."""
        del tensors
        return False

    @abstractmethod
    def work_on(self, tensors: tuple[Handle, ...]) -> Work:
        """The same as a work of its own, which keeps what it needs of the tensors."""

    def settle_in(self, stream: Stream, count: int, tensors: tuple[Handle, ...]) -> None:
        """Leave the fences of a launch on the home of all its tensors."""
        for tensor, (mode, _) in zip(tensors, self.roles, strict=True):
            tensor.storage.settle_in(tensor.region, stream, count, mode.writes)


class RepeatedWork(ReadyWork):
    """Ready work that is always for the same tensors."""

    __slots__ = ()

    def settle_in(self, stream: Stream, count: int, tensors: tuple[Handle, ...]) -> None:
        """Have fences that stay, for all launches."""
        # What shifts meanwhile may not have its fence any more.
        self.shifts = tuple([tensor.storage.shift for tensor in tensors])
        self.stream = stream
        self.fences = tuple(
            [
                tensor.storage.settle_in(tensor.region, stream, count, mode.writes)
                for tensor, (mode, _) in zip(tensors, self.roles, strict=True)
            ]
        )

    def is_settled(self, tensors: tuple[Handle, ...]) -> bool:
        """Whether the fences stand where they have to, on the home of all tensors."""
        return self.shifts == tuple([tensor.storage.shift for tensor in tensors])


class ReadyOp(WorkOp[T]):
    """An operation with work that is ready."""

    __slots__ = (
        "_code", "_count", "_held", "_instruction", "_is_dropped", "_ready", "_stream", "_tensors",
    )  # fmt: skip

    _code: CodeType
    _instruction: int
    _ready: ReadyWork
    _tensors: tuple[Handle, ...]  # until it is submitted
    _held: Ticket | None  # if anybody had to know
    _is_dropped: bool  # its finaliser has begun
    _stream: Stream  # where it was submitted, if nobody had
    _count: int

    @staticmethod
    def new() -> ReadyOp[Any]:
        """One that is not built yet."""
        return _new(ReadyOp)

    def build(
        self,
        ready: ReadyWork,
        tensors: tuple[Handle, ...],
        result: Any,
        check: Check | None = None,
        depth: int = 3,
    ) -> Self:
        """Begin to hold the tensors, for a call that is so many calls up, or further."""
        self._state = _CLOSED
        self.label = ready.label
        self.device = device = ready.device
        self._chosen = None
        self._results = [result]
        self._ready = ready
        self._check = check
        self._tensors = tensors
        self._held = None
        self._is_dropped = False
        self._count = 0
        try:
            frame = _getframe(depth)
        except ValueError:  # a thread began with the call itself
            frame = _getframe(0)
        if frame.f_code.co_filename not in USER_FILES:
            frame = user_frame(frame)
        self._code = frame.f_code
        self._instruction = frame.f_lasti
        lock = device.lock
        lock.acquire()  # costs a third of `with`
        try:
            if ready.epoch == device.epoch and device.latest is None and device.notes.empty():
                device.latest = ref(self)
            else:
                self._look_and_hold()
            self._state = _BUILT
        finally:
            lock.release()
        return self

    def _look_and_hold(self) -> None:
        """Begin to hold the tensors, if nothing stands against it. The lock is held."""
        device = self.device
        device.check_usable()
        if not device.notes.empty():
            device.settle_notes()
        if device.latest is not None:
            device.tell_latest()
        for tensor in self._tensors:
            storage = tensor.storage
            if storage.home is None or storage.borrows:
                self.ticket.acquire(device)
                return
        device.latest = ref(self)

    @property
    def ticket(self) -> Ticket:
        """Made when somebody has to know."""
        if self._held is None:
            self._held = Ticket(self.label, self.site, self._ready.roles, self._tensors)
        return self._held

    def tell(self) -> None:
        """Write the borrows where others look. The lock is held."""
        self.ticket.tell(self.device)
        # A weak reference finds an operation even while its finaliser runs, on another thread. Here
        # the ticket is written first and the finaliser looked for then, there it is the other way
        # round: one of the two sees the other.
        if self._is_dropped:
            self.ticket.release()

    def storages(self) -> Iterable[Storage]:
        """The memory of its tensors; to ask for it makes no ticket."""
        return (tensor.storage for tensor in self._tensors)

    @property
    def site(self) -> Site:
        """Where it was built."""
        return Site(self._code, self._instruction)

    @property
    def work(self) -> Work:
        """The work for these tensors."""
        return self._ready.work_on(self._tensors)

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The program that it will run."""
        return (self._ready.program,)

    @property
    def fence(self) -> Fence | None:
        """Where it ends."""
        if self._held is not None:
            return super().fence
        return Fence(self._stream, self._count, None) if self._count else None

    def compile(self) -> Self:
        """Nothing: that was done before."""
        return self

    def drop(self) -> None:
        """Leave a note, if anybody knows of the borrows. No lock is held."""
        self._is_dropped = True
        if self._held is not None:
            super().drop()

    def give_back(self) -> None:
        """Give the borrows back. The lock is held."""
        if self._held is None:
            self.device.latest = None  # nobody else has asked, so it is this one
        else:
            super().give_back()
        self._tensors = ()

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream without waiting."""
        device = self.device
        chosen = stream or self._chosen or device.stream
        lock = device.lock
        lock.acquire()  # costs a third of `with`
        try:
            if self._state is _BUILT and self._put_at_home(chosen):
                self._state = _SUBMITTED
                return self
        except BaseException as error:
            self.abandon(error)
            raise
        finally:
            lock.release()
        return super().submit(stream)

    def put(self, stream: Stream) -> None:
        """As any other, where it is not at home."""
        if not self._put_at_home(stream):
            self.device.tell_latest()  # this one, if nobody has asked: a ticket is known to all
            super().put(stream)

    def put_part(self, stream: Stream, ends: Ends) -> T:
        """Put the work on a stream as part of another operation."""
        lock = self.device.lock
        lock.acquire()
        try:
            if self._state in _HOLDING and self._put_at_home(stream):
                self._state = _SUBMITTED
                ends.reach(stream, self._count)
                return self._results.pop()
        except BaseException as error:
            self.abandon(error)
            raise
        finally:
            lock.release()
        return super().put_part(stream, ends)

    def _put_at_home(self, stream: Stream) -> bool:
        """Launch, if there is nothing else to do. The device's lock is held."""
        device, ready, tensors = self.device, self._ready, self._tensors
        if ready.epoch == device.epoch:
            is_settled = ready.stream is stream
        else:
            is_settled = ready.stream is stream and ready.is_settled(tensors) and not device.forked
        if not is_settled and not self._is_at_home(stream):
            return False
        if self._check is not None or UNUSUAL.get() or not device.notes.empty():
            return False
        if stream.has_loose_ends:
            stream.settle(ask=False)
        if self._held is None:
            device.latest = None
        else:
            self._held.release()
            self._held = None
        try:
            ready.launch(stream, tensors)
        except BaseException as error:
            self.ticket.leave_refused(stream, error)
            raise
        self._stream = stream
        stream.issued = self._count = count = stream.issued + 1
        stream.queue.mark(count)
        if is_settled:
            for fence in ready.fences:
                fence.count = count
        else:
            ready.settle_in(stream, count, tensors)
        if ready.epoch != device.epoch and ready.stream is stream:
            ready.epoch = _calm_epoch(device, ready, tensors)
        self._tensors = ()
        return True

    def _is_at_home(self, stream: Stream) -> bool:
        for tensor in self._tensors:
            if tensor.storage.home is not stream:
                return False
        return bool(self._tensors) and not self.device.forked


def _calm_epoch(device: Device, ready: ReadyWork, tensors: tuple[Handle, ...]) -> int:
    """The epoch of the device, if a launch of the same tensors need not look at them in it."""
    for tensor in tensors:
        if tensor.storage.borrows:
            return NEVER
    return device.epoch if ready.is_settled(tensors) else NEVER

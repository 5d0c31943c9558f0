"""Single operations: put on a stream in one critical section, without parts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Self, TypeVar, cast

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.recording import Tape
from tilewright.runtime.interop.streams import library_streams
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.lifecycle import GONE, Ends, State, Steps
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.order.critical import check_idle, critical
from tilewright.runtime.order.failure import Fence, Outcome

__all__ = ["SingleOp"]

T = TypeVar("T")
# Looking up members of an enumeration is slow.
_BUILT, _TAKEN, _SUBMITTED, _RECORDED = State.BUILT, State.TAKEN, State.SUBMITTED, State.RECORDED


class SingleOp(DeviceOp[T]):
    """An operation that is put on a stream in one critical section."""

    __slots__ = ("_count", "_outcome", "_stream")

    is_single = True
    _stream: Stream  # the stream of its submission
    _count: int  # its count on that stream; 0 before
    _outcome: Outcome | None  # None if it cannot fail

    @abstractmethod
    def put(self, stream: Stream) -> None:
        """Check, order, launch, and record uses. Called in a critical section."""

    @abstractmethod
    def storages(self) -> Iterable[Storage]:
        """The storages that it uses."""

    @property
    def fence(self) -> Fence | None:
        """The fence of its submission; None before that."""
        return Fence(self._stream, self._count, self._outcome) if self._count else None

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

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream (by default the current one) without waiting."""
        self.check_built()  # `put_once` runs parts of other operations as well
        chosen = self.choose_stream(stream)
        try:
            self.compile()
            chosen.make_room()
            self.put_once(chosen)
        except BaseException as error:
            self.abandon(error)
            raise
        return self

    def put_once(self, stream: Stream) -> None:
        """Put the work on a stream, unless another call has done so."""
        with self.device.lock:
            self.make_way(stream)
            self.put_in_order(stream)

    def make_way(self, stream: Stream) -> None:
        """Do the work that others have left, before the critical section. The lock is held."""
        device = self.device
        check_idle(device)
        device.check_usable()
        device.settle_deferred()
        stream.settle(ask=False)

    def put_in_order(self, stream: Stream) -> None:
        """Put the work on a stream, behind all that it depends on. The device's lock is held."""
        device = self.device
        self.prepare(stream)
        try:
            device.busy = self.label
            if self._state is not _BUILT and self._state is not _TAKEN:
                self.check_built()
            self.put(stream)
            self.give_back()
            self._state = _RECORDED if isinstance(stream, Tape) else _SUBMITTED
        finally:
            device.busy = None

    def prepare(self, stream: Stream) -> None:
        """Do the work that may build other operations, before the critical section."""

    def choose_stream(self, stream: Stream | None) -> Stream:
        """The stream to use: by default that of the library whose arrays are used."""
        # A step of a chain that is recorded. Reading `device.stream` could make a stream.
        is_recorded = isinstance(self.device.current.get(), Tape)
        if stream is None and self._chosen is None and not is_recorded:
            stream = next(iter(self.library_streams_used()), None)
        return super().choose_stream(stream)

    def library_streams_used(self) -> tuple[Stream, ...]:
        """The current streams of the libraries whose arrays are used."""
        return library_streams(self.storages())

    def start(self, stream: Stream) -> None:
        """Put the work on a stream, unless another thread has done so."""
        self.check_built()
        self.put_once(stream)

    def steps(self, stream: Stream, ends: Ends) -> Steps[T]:
        """The steps of an operation without parts."""
        yield from ()
        return self.put_part(stream, ends)

    def put_part(self, stream: Stream, ends: Ends) -> T:
        """Put the work on a stream as part of another operation."""
        try:
            self.compile()
            if not stream.may_be_sole:
                stream.make_room()
            if self._state is not _TAKEN:
                self.check_built()
            self.put_once(stream)
        except BaseException as error:
            self.abandon(error)
            raise
        if self._outcome is not None:
            ends.add(Fence(self._stream, self._count, self._outcome))
        elif self._count:
            ends.reach(self._stream, self._count)
        # No lock: the operation that it is part of alone runs it.
        result, self._result = self._result, GONE
        return cast("T", result)

    def close(self) -> None:
        """Release the borrows without running; a submitted operation is left alone."""
        critical(self.device, self.label, self._close)

    def _close(self) -> None:
        if self._state is _BUILT:
            self.give_back()
            self._state = State.CLOSED

    def abandon(self, error: BaseException) -> None:
        """Record why the submission failed; a signal handler may also have raised after it."""
        with self.device.lock:
            # Nothing changes if this call has interrupted a critical section.
            if self.device.busy is None:
                critical(self.device, self.label, self._abandon, error)

    def _abandon(self, error: BaseException) -> None:
        if self._state is not _BUILT and self._state is not _TAKEN:
            return
        is_put = self._count and (self._outcome is None or self._outcome.error is None)
        self.give_back()
        if is_put and not isinstance(error, Exception):
            self._state = _SUBMITTED
        else:
            self._state, self._error = State.FAILED, self._reason(error)

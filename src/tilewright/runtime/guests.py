"""Operations that are ready, with arrays of other libraries among their tensors.

They take the short way of `ready` where that library's current stream is the home of all tensors
and its arrays lie where they lay: then there is nothing to wait for on either side. Where anything
else is so, or the library records a graph, they go the way of every other operation.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self, TypeVar

from tilewright.errors import InternalError
from tilewright.runtime.access import Access, Handle, check_accesses
from tilewright.runtime.lifecycle import State
from tilewright.runtime.ready import ReadyOp
from tilewright.runtime.ready_work import ReadyWork
from tilewright.runtime.stream import Stream
from tilewright.runtime.surroundings import UNUSUAL

__all__ = ["GuestOp"]

T = TypeVar("T")
_CLOSED, _SUBMITTED = State.CLOSED, State.SUBMITTED  # members of an enumeration are slow to find


class GuestOp(ReadyOp[T]):
    """A ready operation of which some tensors are arrays of other libraries."""

    __slots__ = ("_theirs",)

    is_ours = False
    _theirs: Stream | None  # the stream on which the library works, when that was last asked

    def build(
        self, ready: ReadyWork, tensors: tuple[Handle, ...], result: Any, depth: int = 2
    ) -> ReadyOp[Any]:
        """Begin to hold the tensors, if their libraries let the outputs be written now."""
        self._state = _CLOSED
        self._theirs = None
        for at in ready.guests.written:
            storage: Any = tensors[at].storage
            if storage.producer.why_not_written() is not None:
                _refuse(ready, tensors)
        return super().build(ready, tensors, result, depth + 1)

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream, by default the library's, without waiting."""
        if stream is None and self._chosen is None and not UNUSUAL.said:
            device, ready, claim = self.device, self._ready, self._claim
            tensors = claim[1]
            if tensors:
                first: Any = tensors[ready.guests.all[0]].storage
                self._theirs = stream = first.producer.current_stream(device)
                lock = device.lock
                lock.acquire()  # costs a third of `with`
                try:
                    if (
                        ready.stream is stream
                        and ready.epoch == device.epoch
                        and stream is not None
                        and device.latest is claim
                        and not device.notes
                        and _lie_where_they_lay(ready)
                        and (stream.is_plain or not stream.queue.is_capturing())
                    ):
                        self._put_calmly(stream)
                        return self
                finally:
                    lock.release()
        return super().submit(stream)

    def _put_calmly(self, stream: Stream) -> None:
        """Launch what was launched there before: nothing has happened since.

        The device's lock is held.
        """
        ready, tensors = self._ready, self._claim[1]
        if stream.has_loose_ends:
            stream.settle(ask=False)
        self.device.latest = None
        try:
            ready.launch(stream, tensors)
        except BaseException as error:
            self.ticket.leave_refused(stream, error)
            self.abandon(error)
            raise
        self._stream = stream
        stream.issued = self._count = count = stream.issued + 1
        stream.queue.mark(count)
        for fence in ready.fences:
            fence.count = count
        self._state = _SUBMITTED
        for at in ready.guests.written:
            storage: Any = tensors[at].storage
            storage.producer.note_write()

    def _put_at_home(self, stream: Stream) -> bool:
        tensors, guests = self._claim[1], self._ready.guests
        first: Any = tensors[guests.all[0]].storage
        library = first.producer
        if stream is not self._theirs:  # it was not asked for a moment ago
            self._theirs = library.current_stream(self.device)
            if self._theirs is not stream and self._theirs is not None:
                return False
        for at in guests.all:
            storage: Any = tensors[at].storage
            producer = storage.producer
            if producer.library is not library.library or not producer.is_at(storage.first):
                return False
        if not library.has_one_stream or not super()._put_at_home(stream):
            return False
        for at in guests.written:
            tensors[at].storage.note_write()
        return True


def _lie_where_they_lay(ready: ReadyWork) -> bool:
    """Whether all arrays are known, and none has been moved since the launch was prepared."""
    for given, address in ready.watched:
        array = given()
        if array is None or array.data_ptr() != address:
            return False
    return bool(ready.watched)


def _refuse(ready: ReadyWork, tensors: tuple[Handle, ...]) -> NoReturn:
    """Say which output may not be written, and why."""
    accesses = (Access(t, *role) for t, role in zip(tensors, ready.roles, strict=True))
    check_accesses(tuple(accesses), ready.label, ready.device)
    raise InternalError("an output may not be written, and there is no reason for it")

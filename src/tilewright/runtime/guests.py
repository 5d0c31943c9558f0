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

__all__ = ["GuestNewcomerOp", "GuestOp", "check_written"]

T = TypeVar("T")
_BUILT = State.BUILT  # members of an enumeration are slow to find


class GuestOp(ReadyOp[T]):
    """A ready operation of which some tensors are arrays of other libraries."""

    __slots__ = ("_theirs",)

    _theirs: Stream | None  # the stream on which the library works, as `submit` was told

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream, by default the library's, without waiting."""
        self._theirs = None
        if stream is None and self._chosen is None and not UNUSUAL.said:
            tensors = self._claim[1]
            if tensors:
                first: Any = tensors[self._ready.guests.all[0]].storage
                self._theirs = stream = first.producer.current_stream(self.device)
        return ReadyOp.submit(self, stream)  # to ask `super()` takes as long as two tensors do

    def may_follow(self, stream: Stream) -> bool:
        """Whether the library works on that stream, records nothing, and has moved no array."""
        if stream is not self._theirs:
            return False
        ready, tensors, _, _ = self._claim
        for at in ready.guests[0]:
            storage: Any = tensors[at].storage
            producer = storage.producer
            if not producer.is_passed:  # as torch's are, which has one stream
                return False
            array = producer()
            if array is None:  # the memory is kept all the same
                if not producer.is_at(storage.first):
                    return False
            elif array.data_ptr() != storage.first:
                return False
        return stream.is_plain or not stream.queue.is_capturing()

    def note_writes(self) -> None:
        """Raise the versions of the arrays that it writes."""
        tensors = self._claim[1]
        for at in self._ready.guests.written:
            storage: Any = tensors[at].storage
            storage.producer.note_write()

    def _put_at_home(self, stream: Stream) -> bool:
        first: Any = self._claim[1][self._ready.guests.all[0]].storage
        theirs = first.producer.current_stream(self.device)
        if theirs is not stream and theirs is not None:
            return False
        if not self._lie_as_they_lay() or not super()._put_at_home(stream):
            return False
        self.note_writes()
        return True

    def _lie_as_they_lay(self) -> bool:
        """Whether no array was moved, and all are of one library that has one stream at a time."""
        storages: list[Any] = [self._claim[1][at].storage for at in self._ready.guests.all]
        first = storages[0].producer
        for storage in storages:
            producer = storage.producer
            if producer.library is not first.library or not producer.is_at(storage.first):
                return False
        return bool(first.has_one_stream)


class GuestNewcomerOp(GuestOp[T]):
    """The same on arrays that may be new, of one library: what `newcomers` is to `ready`."""

    __slots__ = ("_epoch", "_home")

    _home: Stream | None  # of all tensors, when it was built
    _epoch: int  # of the device then

    def _look_and_hold(self) -> None:
        """Begin to hold the tensors, if nothing stands against it. The lock is held."""
        device, tensors = self.device, self._claim[1]
        if device.notes:
            device.settle_notes()
        epoch = device.epoch
        self._home = home = tensors[0].storage.home
        if home is not None and device.latest is None and not device.forked:
            for tensor in tensors:
                storage = tensor.storage
                if storage.borrows or storage.home is not home:
                    break
            else:
                if device.latest is None and device.epoch == epoch:  # nor has a finaliser built any
                    self._epoch = epoch
                    device.latest = self._claim
                    return
        self._home = None
        super()._look_and_hold()

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream, by default the library's, without waiting."""
        home, device, claim = self._home, self.device, self._claim
        is_usual = stream is None and self._chosen is None and not UNUSUAL.said
        if home is not None and is_usual and device.latest is claim:
            first: Any = claim[1][self._ready.guests.all[0]].storage
            if first.producer.current_stream(device) is home:
                with device.lock:
                    if self._may_follow_at_home(home):
                        self.launch_at(home)
                        self.note_writes()
                        return self
        return super().submit(stream)

    def _may_follow_at_home(self, home: Stream) -> bool:
        """Whether nothing has happened since it was built, and no array was moved."""
        device = self.device
        if device.notes:
            device.settle_notes()
        if home.has_loose_ends:
            home.settle(ask=False)
        if device.latest is not self._claim or self._epoch != device.epoch:
            return False
        if self._state is not _BUILT:  # but part of another
            return False
        self._theirs = home  # as `submit` has seen
        return self.may_follow(home)


def check_written(ready: ReadyWork, tensors: tuple[Handle, ...]) -> None:
    """Refuse to build an operation if a library does not let an output be written now."""
    for at in ready.guests.written:
        storage: Any = tensors[at].storage
        producer = storage.producer
        array = producer() if producer.is_passed else None
        if (array is None or array.requires_grad) and storage.why_not_written() is not None:
            _refuse(ready, tensors)


def _refuse(ready: ReadyWork, tensors: tuple[Handle, ...]) -> NoReturn:
    """Say which output may not be written, and why."""
    accesses = (Access(t, *role) for t, role in zip(tensors, ready.roles, strict=True))
    check_accesses(tuple(accesses), ready.label, ready.device)
    raise InternalError("an output may not be written, and there is no reason for it")

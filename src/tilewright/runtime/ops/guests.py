"""Operations that are ready, with arrays of other libraries among their tensors.

They take the short way of `ready` where that library's current stream is the home of all tensors
and its arrays lie where they lay: then there is nothing to wait for on either side. Where anything
else is so, or the library records a graph, they go the way of every other operation.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

from tilewright.errors import InternalError
from tilewright.runtime.devices.context import UNUSUAL
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.lifecycle import State
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.ops.ready_work import ReadyWork
from tilewright.runtime.order.access import Access, Handle, check_accesses

__all__ = ["GuestNewcomerOp", "GuestOp", "check_written"]

T = TypeVar("T")
_BUILT = State.BUILT  # members of an enumeration are slow to find


class GuestOp(ReadyOp[T]):
    """A ready operation of which some tensors are arrays of other libraries."""

    __slots__ = ()

    def usual_stream(self) -> Stream:
        """That on which the library works."""
        storages = self._guests()
        theirs = storages[0].producer.current_stream(self.device) if storages else None
        return self.device.stream if theirs is None else theirs

    def _put_at_home(self, stream: Stream) -> bool:
        storages = self._guests()
        theirs = storages[0].producer.current_stream(self.device)
        if theirs is not stream and theirs is not None:
            return False
        if not _lie_as_they_lay(storages) or not super()._put_at_home(stream):
            return False
        for storage in _written(self._ready, self._claim[1]):
            storage.note_write()
        return True

    def _guests(self) -> list[Any]:
        """The memory of other libraries."""
        ready, tensors, _, _ = self._claim  # once: whoever gets the result empties it
        if ready.guests is None or not tensors:
            return []
        return [tensors[at].storage for at in ready.guests.all]


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
        if home is not None and device.latest is None and not device.is_barred:
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
            guests: Any = self._ready.guests
            with device.lock:
                if self._is_calm_at(home) and guests.may_follow(home, device, claim[1]):
                    self.launch_at(home)
                    return self
        return super().submit(stream)

    def _is_calm_at(self, home: Stream) -> bool:
        """Whether nothing has happened since it was built."""
        device = self.device
        if device.notes:
            device.settle_notes()
        if home.has_loose_ends:
            home.settle(ask=False)
        if device.latest is not self._claim or self._epoch != device.epoch:
            return False
        return self._state is _BUILT  # and no part of another


def check_written(ready: ReadyWork, tensors: tuple[Handle, ...]) -> None:
    """Refuse to build an operation if a library does not let an output be written now."""
    if any(storage.why_not_written() is not None for storage in _written(ready, tensors)):
        accesses = (Access(t, *role) for t, role in zip(tensors, ready.roles, strict=True))
        check_accesses(tuple(accesses), ready.label, ready.device)
        raise InternalError("an output may not be written, and there is no reason for it")


def _written(ready: ReadyWork, tensors: tuple[Handle, ...]) -> list[Storage]:
    """The memory of other libraries that it writes."""
    return [] if ready.guests is None else [tensors[at].storage for at in ready.guests.written]


def _lie_as_they_lay(storages: list[Any]) -> bool:
    """Whether no array was moved, and all are of one library that has one stream at a time."""
    first = storages[0].producer
    for storage in storages:
        producer = storage.producer
        if producer.library is not first.library or storage.why_not_there() is not None:
            return False
    return bool(first.has_one_stream)

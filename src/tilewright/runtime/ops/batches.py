"""Launches that were zipped, put on their stream in one go.

Operations that are built at the same time do not conflict, so between those of a zip there is
nothing to look at. If all of them are ready and at home on one stream, everything but the driver's
calls is done when the zip is made: one ticket holds what they hold, and their fences stand on the
storages, to be moved on at the end. Whatever happens meanwhile makes them single operations again.
Everything here happens under the device's lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tilewright.runtime.devices.context import UNUSUAL
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.lifecycle import Ends
from tilewright.runtime.ops.newcomers import NewcomerOp
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.borrows import Borrows
from tilewright.runtime.order.failure import Fence
from tilewright.runtime.order.insisting import insist
from tilewright.runtime.order.tickets import Ticket

__all__ = ["Batch", "make_batch"]

# Operations of which no library has to be asked for its arrays.
_OURS = (ReadyOp, NewcomerOp)
_PASSED = 1  # the first thing that was put on a stream, which is somebody's home by now


class _Place(NamedTuple):
    """A storage with a fence of the batch."""

    storage: Storage
    region: Region
    writes: bool
    shift: int  # of the storage, when the fence was left there
    fence: Fence


class Batch:
    """Ready operations at home on one stream, which have lent it all that they have."""

    __slots__ = (
        "_borrows", "_calls", "_device", "_epoch", "_joint", "_lent", "_parts", "_places",
        "_results", "_spent", "_stream", "is_whole",
    )  # fmt: skip

    def __init__(
        self, parts: Sequence[ReadyOp[Any]], stream: Stream, label: str, epoch: int
    ) -> None:
        self._parts = parts
        self._stream = stream
        self._device = stream.device
        self._joint = Ticket(label, parts[0].site)
        self._lent = [part.offer() for part in parts]
        self._calls = [(claim[0].launch, claim[1]) for _, claim, _ in self._lent]
        self._results = tuple([result for _, _, result in self._lent])
        places = {
            (tensor.storage, tensor.region, mode.writes)
            for ticket, _, _ in self._lent
            for tensor, (mode, _) in zip(ticket.tensors, ticket.roles, strict=True)
        }
        # Of before that: a fence that was here may go where another is added to its storage.
        self._epoch = epoch
        self._places = [
            _Place(
                storage, region, writes, storage.shift, storage.settle_in(region, stream, writes)
            )
            for storage, region, writes in places
        ]
        self._borrows: list[Borrows] = []
        self._spent: list[object] = []
        self.is_whole = False  # it has not run, and was not taken apart

    def hold(self) -> None:
        """Have the parts lend all that they have. The lock is held."""
        self.is_whole = True  # first: what breaks off in between is dissolved
        for part in self._parts:
            part.lend()
        self._joint.take_over([ticket for ticket, _, _ in self._lent])
        self._borrows = [tensor.storage.borrows for tensor in self._joint.tensors]

    def put(self, stream: Stream, ends: Ends) -> tuple[Any, ...] | None:
        """Launch all, if nothing has happened since; gives their results.

        None leaves them as operations that were built and have not run.
        """
        if not self._is_calm(stream):
            self.dissolve()
            return None
        calls = iter(self._calls)
        try:
            for launch, tensors in calls:
                launch(stream, tensors)
            self._leave(stream, self._parts)
        except BaseException as error:
            left = sum(1 for _ in calls)
            self._stop(stream, len(self._parts) - left - 1, error)
            raise
        ends.reach(stream, stream.issued)
        return self._results

    def _is_calm(self, stream: Stream) -> bool:
        """Whether nothing is to be done but to launch."""
        device = self._device
        if stream is not self._stream or UNUSUAL.get() or device.is_barred:
            return False
        device.settle_notes()
        if stream.has_loose_ends:
            stream.settle(ask=False)
        if device.epoch == self._epoch:
            return True
        self._epoch = device.epoch
        return all(storage.shift == shift for storage, _, _, shift, _ in self._places)

    def _leave(self, stream: Stream, parts: Sequence[ReadyOp[Any]]) -> None:
        """Leave the fences of what has been launched, as one piece of work."""
        self.is_whole = False
        count = stream.advance(len(parts))
        for place in self._places:
            if place.fence.count < count:  # or a finaliser has launched behind these
                place.fence.count = count
        if self._epoch != self._device.epoch:  # a finaliser has done something meanwhile
            alone(self._device, self._settle_in, stream)
        joint = self._joint
        self._spent = [borrows.pop(joint, None) for borrows in self._borrows]  # and freed later
        for part in parts:
            part.end_at_home(stream, count)

    def _settle_in(self, stream: Stream) -> None:
        for storage, region, writes, _, _ in self._places:
            storage.settle_in(region, stream, writes, stream.issued)

    def _stop(self, stream: Stream, launched: int, error: BaseException) -> None:
        """One could not be launched: those before it run, and those behind it do not."""
        self._leave(stream, self._parts[:launched])
        for part, lent in zip(self._parts[launched:], self._lent[launched:], strict=True):
            part.take_back(lent)
        self._lent[launched].ticket.leave_refused(stream, error)
        self._parts[launched].abandon(error)

    def dissolve(self) -> None:
        """Make the parts single operations again, each of which holds what it uses."""
        self.is_whole = False
        _give_up(self._places)
        for part, lent in zip(self._parts, self._lent, strict=True):
            part.take_back(lent)
            lent.ticket.tell(self._device)
        self._joint.release()  # last: what they hold is always somebody's

    def drop(self) -> None:
        """Leave a note to give back what is held. No lock is held."""
        self._device.notes.append(_Dropped(self._joint, self._places))


class _Dropped(NamedTuple):
    """What a batch holds that will never run."""

    joint: Ticket
    places: list[_Place]
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Give it back."""
        _give_up(self.places)
        self.joint.release()


def _give_up(places: list[_Place]) -> None:
    """Have fences of launches that do not come count as passed, so that they are thinned out."""
    for place in places:
        place.fence.count = place.fence.count or _PASSED


def make_batch(parts: Sequence[Any], label: str) -> Batch | None:
    """Built operations that are ready and at home as one; None if they are not."""
    if not parts or any(type(part) not in _OURS for part in parts):
        return None
    device, made = parts[0].device, list[Batch]()
    try:
        with device.lock:
            if device.is_barred:
                return None
            device.tell_latest()
            alone(device, _make_batch, parts, label, device.epoch, made)
    except BaseException:
        with device.lock:
            for batch in made:
                insist(batch.dissolve)
        raise
    return made[0] if made else None


def _make_batch(parts: Sequence[Any], label: str, epoch: int, made: list[Batch]) -> None:
    home = next(_homes(parts), None)
    if home is None or not home.is_plain or any(found is not home for found in _homes(parts)):
        return
    made.append(Batch(parts, home, label, epoch))
    made[0].hold()


def _homes(parts: Sequence[ReadyOp[Any]]) -> Iterator[Stream | None]:
    """Where each tensor is at home; nowhere, if something has to be looked at all the same."""
    for part in parts:
        if part.check is not None:
            yield None
        for storage in part.storages():
            yield storage.home

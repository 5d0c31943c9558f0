"""Tickets: one operation as its tensors know it.

While the operation is built, its ticket stands for the borrows that it holds; when it is submitted,
the ticket turns into its fence. It never refers to the operation, which may be dropped, and once
that is submitted it refers to no tensor either. All of this happens under the device's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tilewright.errors import BorrowError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.call_site import Site
from tilewright.runtime.order.access import Access, Handle, Mode, refusal
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.borrows import Borrow
from tilewright.runtime.order.failure import Fence, Outcome

__all__ = ["Role", "Ticket"]


class Role(NamedTuple):
    """What an operation does to one of its tensors, and how messages call that."""

    mode: Mode
    name: str


class Ticket(Fence):
    """The borrows of a built operation, and the fence of a submitted one."""

    __slots__ = ("label", "roles", "site", "tensors")

    state = "has not been run: submit, sync or await it, or close it"  # and the way out

    def __init__(
        self, label: str, site: Site, roles: tuple[Role, ...] = (), tensors: tuple[Handle, ...] = ()
    ) -> None:
        self.label = label
        self.site = site  # where the operation was built
        self.roles = roles
        self.tensors = tensors
        self.count = 0  # as a fence it means nothing yet

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The tensors it uses and how; empty once it has been submitted or closed."""
        pairs = zip(self.tensors, self.roles, strict=True)
        return tuple(Access(tensor, mode, name) for tensor, (mode, name) in pairs)

    # --- as borrows ---

    def acquire(self, device: Device) -> None:
        """Take the borrows, all or none; raises if one is refused or what is read has failed."""
        alone(device, self._acquire, device)

    def _acquire(self, device: Device) -> None:
        found = self._find_conflict(device)
        if found is not None and device.collect_dropped():
            found = self._find_conflict(device)  # anywhere: what was dropped may have built more
        if found is not None:
            raise BorrowError(_refusal(*found, self))
        self.tell(device)

    def _find_conflict(self, device: Device) -> tuple[Borrow, Access] | None:
        """A borrow that stands against one of these; looks again if one was built meanwhile."""
        seen: tuple[int, int] | None = None
        while device.latest is not None or (device.epoch, device.replays) != seen:
            device.tell_latest()
            seen = device.epoch, device.replays
            self.doubts()
            for access in self.accesses:
                storage, region = access.tensor.storage, access.tensor.region
                if storage.borrows or storage.shares:
                    held = storage.conflict(region, writes=access.mode.writes)
                    if held is not None:
                        return held, access
        return None

    def tell(self, device: Device) -> None:
        """Write the borrows where others look, and make replays look there."""
        device.epoch += 1
        for tensor, (mode, name) in zip(self.tensors, self.roles, strict=True):
            borrow = Borrow(tensor.region, mode.writes, name, self)
            tensor.storage.borrows.setdefault(self, []).append(borrow)
        self._touch_leases()

    def _touch_leases(self) -> None:
        for tensor in self.tensors:
            for share in tensor.storage.shares:
                share.touch()

    def release(self) -> None:
        """Give the borrows back."""
        for tensor in self.tensors:
            tensor.storage.borrows.pop(self, None)

    def take_over(self, others: Iterable[Ticket]) -> None:
        """Hold what others hold, to give it back at once; to everybody else it is theirs."""
        others = tuple(others)
        tensors = {tensor.storage: tensor for ticket in others for tensor in ticket.tensors}
        self.tensors = tuple(tensors.values())  # first: this may break off in between
        for ticket in others:
            for tensor in ticket.tensors:
                borrows = tensor.storage.borrows
                borrows.setdefault(self, []).extend(borrows.get(ticket, ()))
                borrows.pop(ticket, None)  # last: they are always somebody's

    def forget(self) -> None:
        """Refer to no tensor any more: storages keep the ticket as a fence."""
        self.tensors, self.roles = (), ()

    # --- as a fence ---

    def is_at_home(self, stream: Stream) -> bool:
        """Whether all tensors have this stream as their home, so that nothing needs to be done."""
        for tensor in self.tensors:
            storage = tensor.storage
            if storage.home is not stream or not storage.owns_bytes:  # others may have moved
                return False
        return bool(self.tensors)

    def doubts(self) -> list[Outcome]:
        """Operations in flight that these tensors depend on; raises if one has failed."""
        found: list[Outcome] = []
        for tensor, (mode, _) in zip(self.tensors, self.roles, strict=True):
            if mode.reads:
                found += tensor.storage.doubts(tensor.region)
        return found

    def leave(self, stream: Stream, count: int, outcome: Outcome | None) -> None:
        """Become the fence of an operation that has been put on a stream."""
        self.stream, self.count, self.outcome = stream, count, outcome
        for tensor, (mode, _) in zip(self.tensors, self.roles, strict=True):
            storage = tensor.storage
            record = storage.record_write if mode.writes else storage.record_read
            record(tensor.region, self)

    def leave_refused(self, stream: Stream, error: BaseException) -> None:
        """Become the fence of an operation that could not be put on a stream as a whole."""
        alone(stream.device, self._leave_refused, stream, error)

    def _leave_refused(self, stream: Stream, error: BaseException) -> None:
        # Part of it may be there already: order it, and trust nothing it wrote.
        count = stream.advance()
        self._touch_leases()  # one at home was not told of
        self.leave(stream, count, Outcome.refused(stream, count, error))

    def order(self, stream: Stream) -> None:
        """Give the tensors their bytes, and put the operation behind those that it conflicts with.

        In that order: bytes may be made by operations on the very same tensors.
        """
        for tensor in self.tensors:
            tensor.storage.materialise(stream)
        for tensor, (mode, _) in zip(self.tensors, self.roles, strict=True):
            tensor.storage.order(stream, tensor.region, writes=mode.writes)


def _refusal(held: Borrow, wanted: Access, by: Ticket) -> str:
    name = held.name or wanted.describe()
    return refusal(held.holder, name, held.writes, by, wanted.mode.writes)

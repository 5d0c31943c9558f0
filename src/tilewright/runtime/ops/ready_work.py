"""Work that was looked at before, so that to put it on a stream is all that is left.

Launches made over and over have fences that stay with their storages: as long as the device is in
the same epoch, all there is to do is to move those on. What operations make of it is in `ready`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.function import ReadyCall
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.ops.call_site import Site
from tilewright.runtime.ops.per_guest import Guests
from tilewright.runtime.ops.per_tensor import PerTensor
from tilewright.runtime.ops.work import Work
from tilewright.runtime.order.access import Handle
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.failure import Check, Fence
from tilewright.runtime.order.tickets import Role, Ticket

__all__ = [
    "NEVER",
    "Claim",
    "DroppedClaim",
    "Lent",
    "ReadyWork",
    "RepeatedWork",
    "begin_all",
    "make_ticket",
    "may_be_at_home",
    "write_down",
]

# What a built operation holds and nobody else knows of yet: its work and its tensors, and the code
# object and the instruction that built it.
Claim: TypeAlias = "tuple[ReadyWork, tuple[Handle, ...], CodeType, int]"
# An epoch that no device is ever in.
NEVER = -1


class ReadyWork(ABC):
    """Work of which all is known but, perhaps, the tensors; many operations may share it."""

    __slots__ = (
        "caller", "check", "device", "each", "epoch", "fences", "guests", "label",
        "launch", "program", "roles", "shifts", "stream",
    )  # fmt: skip

    device: Device
    caller: CodeType | None  # the user's code that has called for it last
    guests: Guests | None  # arrays of other libraries: then it is for a `GuestOp`
    label: str
    roles: tuple[Role, ...]  # what it does to each tensor
    each: PerTensor  # of work for a `NewcomerOp`
    program: Future[Any]
    # Puts it on a stream. The device's lock is held and all bytes are allocated.
    launch: ReadyCall
    check: Check | None  # says how it failed; work that all operations share cannot fail
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

    def let_go(self) -> None:
        """Keep nothing that is one operation's alone: that has been submitted, or is closed.

        A failed operation is kept by its exception, and that by whoever has yet to be told.
        """
        self.check = None

    def settle_in(self, stream: Stream, count: int, tensors: tuple[Handle, ...]) -> None:
        """Leave the fences of a launch on the home of all its tensors."""
        alone(self.device, self.leave_fences, stream, count, tensors)

    def leave_fences(self, stream: Stream, count: int, tensors: tuple[Handle, ...]) -> None:
        """The same, by whoever is alone."""
        for tensor, (mode, _) in zip(tensors, self.roles, strict=True):
            tensor.storage.settle_in(tensor.region, stream, mode.writes, count)

    def calm_epoch(self, tensors: tuple[Handle, ...]) -> int:
        """The epoch of the device, if a launch of these tensors need not look at them in it."""
        epoch = self.device.epoch  # first: what comes in between begins another
        if not self.fences or self.device.changes:  # in a change there is none
            return NEVER
        for tensor in tensors:
            if tensor.storage.borrows:
                return NEVER
        return epoch if self.is_settled(tensors) else NEVER

    def tell(self, claim: Claim) -> None:
        """Write the borrows of the operation built last where others look. The lock is held."""
        write_down(self.device, claim, make_ticket(claim))


class RepeatedWork(ReadyWork):
    """Ready work that is always for the same tensors."""

    __slots__ = ()

    def leave_fences(self, stream: Stream, count: int, tensors: tuple[Handle, ...]) -> None:
        """Have fences that stay, for all launches."""
        # What shifts meanwhile may not have its fence any more.
        self.shifts = tuple([tensor.storage.shift for tensor in tensors])
        self.stream = stream
        self.fences = tuple(
            [
                tensor.storage.settle_in(tensor.region, stream, mode.writes, count)
                for tensor, (mode, _) in zip(tensors, self.roles, strict=True)
            ]
        )

    def is_settled(self, tensors: tuple[Handle, ...]) -> bool:
        """Whether the fences stand where they have to, on the home of all tensors."""
        return self.shifts == tuple([tensor.storage.shift for tensor in tensors])


def make_ticket(claim: Claim) -> Ticket:
    """What others are to know of an operation."""
    ready, tensors, code, instruction = claim
    return Ticket(ready.label, Site(code, instruction), ready.roles, tensors)


def write_down(device: Device, claim: tuple[Any, ...], ticket: Ticket) -> None:
    """Write the borrows of the operation built last where others look. The lock is held."""
    alone(device, _write_down, device, claim, ticket)


def _write_down(device: Device, claim: tuple[Any, ...], ticket: Ticket) -> None:
    if device.latest is not claim:
        return  # a finaliser was faster
    try:
        ticket.tell(device)
        device.told[id(claim)] = ticket
    except BaseException:  # of a signal handler
        ticket.release()
        raise
    device.latest = None


class DroppedClaim(NamedTuple):
    """A note: an operation that was built and dropped, and its ticket, if it had asked for it."""

    claim: Claim
    held: Ticket | None
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Give its borrows back."""
        device = self.claim[0].device
        if device.latest is self.claim:
            device.latest = None
            return
        ticket = self.held or device.told.get(id(self.claim))
        if ticket is not None:
            ticket.release()
            ticket.forget()
            device.told.pop(id(self.claim), None)  # last, if this breaks off in between


class Lent(NamedTuple):
    """All that a built operation has."""

    ticket: Ticket
    claim: Claim
    result: Any


def may_be_at_home(tensors: tuple[Handle, ...], stream: Stream) -> bool:
    """Whether all have a stream as their home, but for those that have yet to begin there."""
    for tensor in tensors:
        storage = tensor.storage
        if storage.home is not stream and not (storage.is_fresh and stream.may_be_home):
            return False
    return True


def begin_all(tensors: tuple[Handle, ...], stream: Stream) -> bool:
    """Give bytes to those that are made for a launch; whether all are at home on its stream.

    A finaliser may be faster, with a launch on another part of one, and on another stream.
    """
    for tensor in tensors:
        storage = tensor.storage
        if storage.is_fresh:
            alone(storage.device, storage.begin, stream, tensor.region)
        if storage.home is not stream:
            return False
    return True

"""Operations whose work was looked at before: building and submitting one is all that is left.

The work says what it does to its tensors (`roles`) and can be put on a stream as it is. Nothing is
decided here that `work` does not decide: where the tensors are not at home, or anything else is out
of the ordinary, the operation goes the way of every other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, Self, TypeVar

from tilewright.runtime.access import Handle
from tilewright.runtime.device import Device
from tilewright.runtime.failures import Check
from tilewright.runtime.lifecycle import State
from tilewright.runtime.recording import BLOCK
from tilewright.runtime.stream import Stream
from tilewright.runtime.tickets import Role, Ticket
from tilewright.runtime.work import Work, WorkOp

__all__ = ["ReadyOp", "ReadyWork"]

T = TypeVar("T")
# Members of an enumeration are slow to find.
_BUILT, _CLOSED, _SUBMITTED = State.BUILT, State.CLOSED, State.SUBMITTED


class ReadyWork(Protocol):
    """Work for certain tensors, or for any that are like them; many operations may share it."""

    @property
    def label(self) -> str:
        """What messages call it."""

    @property
    def device(self) -> Device:
        """Where it runs."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """What it does to each tensor."""

    @property
    def program(self) -> Future[Any]:
        """What it runs."""

    @property
    def launch(self) -> Callable[[Stream, tuple[Handle, ...]], None]:
        """Puts the work on a stream. The device's lock is held and all bytes are allocated."""

    def work_on(self, tensors: tuple[Handle, ...]) -> Work:
        """The same as a work of its own, which keeps what it needs of the tensors."""


class ReadyOp(WorkOp[T]):
    """An operation with work that is ready."""

    __slots__ = ("_ready",)

    def __init__(
        self, ready: ReadyWork, tensors: tuple[Handle, ...], result: T, check: Check | None = None
    ) -> None:
        self._state = _CLOSED
        self.label = label = ready.label
        self.device = ready.device
        self._chosen = None
        self._results = [result]
        self._work = None
        self._ready = ready
        self._check = check
        self._ticket = Ticket(label, ready.roles, tensors, 4)
        self.take_borrows()

    def compile(self) -> Self:
        """Nothing: that was done before."""
        return self

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The program that it will run."""
        return (self._ready.program,)

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the operation to a stream without waiting."""
        device = self.device
        chosen = stream or self._chosen or device.stream
        lock = device.lock
        lock.acquire()  # costs a third of `with`
        try:
            if self._state is _BUILT and self._put_at_home(chosen):
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
            self._work = self._ready.work_on(self._ticket.tensors)
            super().put(stream)

    def _put_at_home(self, stream: Stream) -> bool:
        """Launch, if there is nothing else to do. The device's lock is held."""
        ticket, device = self._ticket, self.device
        tensors = ticket.tensors
        for tensor in tensors:
            if tensor.storage.home is not stream:
                return False
        if not tensors or self._check is not None or BLOCK.get() is not None:
            return False
        if device.forked or not device.notes.empty():
            return False
        if stream.has_loose_ends:
            stream.settle(ask=False)
        ticket.release(device)
        try:
            self._ready.launch(stream, tensors)
        except BaseException as error:
            ticket.leave_refused(stream, error)
            raise
        ticket.leave_at_home(stream)
        self._state = _SUBMITTED
        return True

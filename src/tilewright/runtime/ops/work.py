"""The work of single operations, as the runtime sees it."""

from __future__ import annotations

from concurrent.futures import Future
from types import CodeType
from typing import Any, Protocol

from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.recording import Recordable
from tilewright.runtime.order.access import Access, Handle
from tilewright.runtime.order.borrow import Role
from tilewright.runtime.order.failure import Check

__all__ = ["DeviceWork", "LaunchWork", "OnceWork"]


class DeviceWork(Protocol):
    """The work of an operation that is built once.

    It may also have `compile()`: everything that can be done before the submission. That is called
    before the device's lock is taken, and may be called twice; it waits for `program`, a future.
    """

    def enqueue(self, stream: Stream) -> None:
        """Put the work on a stream. The device's lock is held and all bytes are allocated."""


class LaunchWork(Protocol):
    """The work of an operation as the runtime sees it; many operations may share one."""

    label: str
    device: Device
    roles: tuple[Role, ...]  # what it does to each tensor
    caller: CodeType | None  # the user's code that called for it last
    foreign: tuple[int, ...]  # the numbers of tensors that are arrays of other libraries
    check: Check | None  # says how it failed, once it has ended; None if it cannot fail
    is_compiled: bool

    def launch(self, stream: Stream, tensors: tuple[Handle, ...], /) -> None:
        """Put it on a stream. The device's lock is held and all bytes are allocated."""

    def work_on(self, tensors: tuple[Handle, ...], /) -> Recordable:
        """The same as a node of a graph."""

    def compile(self) -> None:
        """Do everything but the launch."""

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The programs that it runs."""

    def let_go(self) -> None:
        """Keep nothing that is one operation's alone: that is submitted, or closed."""


class OnceWork:
    """The work of one operation, which no other one shares."""

    __slots__ = ("_work", "caller", "check", "device", "foreign", "label", "roles")

    is_compiled = False

    def __init__(
        self,
        label: str,
        device: Device,
        accesses: tuple[Access, ...],
        work: DeviceWork,
        check: Check | None,
    ) -> None:
        self.label = label
        self.device = device
        self.roles = tuple([Role(mode, name) for _, mode, name in accesses])
        self.caller: CodeType | None = None
        self.check = check
        self.foreign = tuple(
            number for number, access in enumerate(accesses) if not access.tensor.storage.owns_bytes
        )
        self._work: DeviceWork | None = work

    def launch(self, stream: Stream, tensors: tuple[Handle, ...], /) -> None:
        """Put it on a stream."""
        del tensors
        self.work_on(()).enqueue(stream)

    def work_on(self, tensors: tuple[Handle, ...], /) -> Recordable:
        """The work itself."""
        del tensors
        assert self._work is not None, "a built operation has its work"
        return self._work

    def compile(self) -> None:
        """Do everything but the launch."""
        prepare = getattr(self._work, "compile", None)
        if prepare is not None:
            prepare()

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The program that it runs, if it is one."""
        program = getattr(self._work, "program", None)
        return () if program is None else (program,)

    def let_go(self) -> None:
        """Keep neither tensors nor records."""
        self._work = self.check = None

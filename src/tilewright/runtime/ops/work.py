"""The work of single operations: the interface that the runtime calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import CodeType
from typing import Any, Protocol

from tilewright.native import slots_in_c
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.order.access import Access, Handle
from tilewright.runtime.order.borrow import Role
from tilewright.runtime.order.failure import Check

__all__ = ["DeviceWork", "LaunchWork", "NodeWork", "OnceWork", "OneNode", "SharedWork"]


class DeviceWork(Protocol):
    """The work of an operation that is built once.

    It may also have `compile()`, which does everything that can be done before the submission. It
    is called without the device's lock, perhaps twice, and waits for `program`, a future. As a node
    of a graph, a work that can fail, or that refers to handles which may be moved away, also has
    `repeated()`, which gives a `RepeatedWork`; it is called when all storages are allocated.
    """

    def enqueue(self, stream: Stream) -> None:
        """Put the work on a stream. The device's lock is held and all storages are allocated."""


class LaunchWork(Protocol):
    """The work of an operation; several operations may share it."""

    label: str
    device: Device
    roles: tuple[Role, ...]  # the mode and name of each tensor
    caller: CodeType | None  # code of the user's last call
    foreign: tuple[int, ...]  # the numbers of tensors that are arrays of other libraries
    written: tuple[int, ...]  # those of them that are written
    check: Check | None  # gives its failure once it has ended; None if it cannot fail
    is_compiled: bool

    @property
    def launch(self) -> Callable[..., None]:
        """Puts the work for some tensors on a stream, both of which it takes.

        The device's lock is held and all storages are allocated.
        """

    def nodes(
        self, tensors: tuple[Handle, ...], /
    ) -> Iterable[tuple[NodeWork, tuple[Handle, ...]]]:
        """The nodes of a graph that record the work, each with its tensors."""

    def compile(self) -> None:
        """Compile all programs that the launch needs."""

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The programs that it runs."""

    def let_go(self) -> None:
        """Drop the references of one operation, which has been submitted or closed."""


class NodeWork(LaunchWork, Protocol):
    """Work that is one node of a graph."""

    def work_on(self, tensors: tuple[Handle, ...], /) -> DeviceWork:
        """The work of the node."""


class OneNode:
    """A base of works that are one node of a graph."""

    __slots__ = ()

    def nodes(
        self: NodeWork, tensors: tuple[Handle, ...], /
    ) -> tuple[tuple[NodeWork, tuple[Handle, ...]]]:
        """The work itself, on all tensors."""
        return ((self, tensors),)


@slots_in_c
class SharedWork:
    """A base of compiled works that several operations share."""

    __slots__ = ("caller", "check", "device", "foreign", "label", "roles", "written")

    label: str
    device: Device
    roles: tuple[Role, ...]
    caller: CodeType | None
    foreign: tuple[int, ...]
    written: tuple[int, ...]
    check: Check | None
    is_compiled = True

    def __init__(self) -> None:
        self.caller = None
        self.check = None

    def compile(self) -> None:
        """Do nothing: all programs are loaded."""

    def let_go(self) -> None:
        """Do nothing: no state belongs to a single operation."""


class OnceWork(OneNode):
    """The work of one operation, not shared with another."""

    __slots__ = ("_work", "caller", "check", "device", "foreign", "label", "roles", "written")

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
        self.written = tuple(n for n in self.foreign if accesses[n].mode.writes)
        self._work: DeviceWork | None = work

    def launch(self, stream: Stream, tensors: tuple[Handle, ...], /) -> None:
        """Put the work on a stream."""
        del tensors
        self.work_on(()).enqueue(stream)

    def work_on(self, tensors: tuple[Handle, ...], /) -> DeviceWork:
        """The work itself."""
        del tensors
        assert self._work is not None, "a built operation has its work"
        return self._work

    def compile(self) -> None:
        """Compile all programs that the launch needs."""
        prepare = getattr(self._work, "compile", None)
        if prepare is not None:
            prepare()

    @property
    def programs(self) -> tuple[Future[Any], ...]:
        """The program that it runs, if any."""
        program = getattr(self._work, "program", None)
        return () if program is None else (program,)

    def let_go(self) -> None:
        """Drop the references to tensors and records."""
        self._work = self.check = None

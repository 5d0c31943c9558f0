"""Accesses: the tensors of one operation, each with its mode, and the rules inside one operation.

A region has any number of readers, or one writer. Inside one operation there is no order, so an
output may not overlap any other argument.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple, Protocol

from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.order.timeline import Use

__all__ = ["Access", "Handle", "Mode", "check_accesses"]


class Mode(Enum):
    """Mode of an access: whether old contents are read, and whether they are replaced."""

    READ = (True, False)
    WRITE = (False, True)
    UPDATE = (True, True)
    REREAD = (False, False)  # of contents that the same operation has written

    def __init__(self, reads: bool, writes: bool) -> None:
        self.reads = reads
        self.writes = writes


class Handle(Protocol):
    """The part of a tensor that an access needs."""

    @property
    def storage(self) -> Storage:
        """The bytes."""

    @property
    def region(self) -> Region:
        """The bytes of the storage that it reaches."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours."""

    @property
    def byte_offset(self) -> int:
        """Byte of the storage at which the first element begins."""

    @property
    def address(self) -> int:
        """Address of the first element; known from the first submission on."""

    def use(self, *, writes: bool) -> Use:
        """The use of its region by operations that write it, or read it."""

    def kept(self, array: Any) -> Handle:
        """The same handle, which keeps the array of another library that it stands for."""


class Access(NamedTuple):
    """One tensor of an operation. Messages call it by `name`, the parameter's name."""

    tensor: Handle
    mode: Mode
    name: str = ""

    def describe(self) -> str:
        """The parameter's name, or the tensor's label and the line that made it."""
        storage = self.tensor.storage
        return self.name or f"{storage.label} made at {storage.site}"


def check_accesses(accesses: tuple[Access, ...], label: str, device: Device) -> None:
    """Refuse accesses that no order of operations makes correct."""
    for position, access in enumerate(accesses):
        home = access.tensor.storage.device
        if home is not device:
            raise LaunchError(
                f"{access.describe()} lives on {home.name}, but {label} runs on {device.name}:"
                " all tensors of an operation must be on one device"
            )
        if access.mode.writes:
            others = accesses[:position] + accesses[position + 1 :]
            _check_output(access, others, label)


def _check_output(written: Access, others: tuple[Access, ...], label: str) -> None:
    tensor = written.tensor
    reason = tensor.storage.why_not_written()
    if reason is not None:
        raise BorrowError(f"{written.describe()} is written by {label}, but {reason}")
    if not tensor.region.disjoint:
        raise BorrowError(
            f"{written.describe()} is written by {label}, but its strides {tensor.strides} make"
            " elements share memory: write to a tensor whose elements are apart"
        )
    for other in others:
        same = other.tensor.storage.shares_memory(tensor.storage)
        if same and other.tensor.region.overlaps(tensor.region):
            verb = "written" if other.mode.writes else "read"
            alias = f" as {other.name}" if other.name and other.name != written.name else ""
            raise BorrowError(
                f"{written.describe()} is written by this launch and also {verb} by it{alias}:"
                " give it its own tensor, or slices that do not overlap"
            )

"""What an operation does to the tensors it was given, and the rules inside one operation.

Any number of readers, or one writer, of a region: within one operation there is no order, so an
output may not overlap any other argument.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.order.timeline import Use

__all__ = ["Access", "Handle", "Mode", "check_accesses"]


class Mode(Enum):
    """What happens to a region; the members say whether old contents are seen and replaced."""

    READ = (True, False)
    WRITE = (False, True)
    UPDATE = (True, True)

    def __init__(self, reads: bool, writes: bool) -> None:
        self.reads = reads
        self.writes = writes


class Handle(Protocol):
    """What an access needs to know of a tensor."""

    @property
    def storage(self) -> Storage:
        """The bytes."""

    @property
    def region(self) -> Region:
        """Which of them."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours."""

    @property
    def byte_offset(self) -> int:
        """Where the first element lies in the storage."""

    @property
    def address(self) -> int:
        """Where the first element lies; known from the first submission on."""

    def use(self, *, writes: bool) -> Use:
        """The use of its region by operations that write it, or read it."""


class Access(NamedTuple):
    """One tensor of an operation. `name` is how messages call it: the parameter's name."""

    tensor: Handle
    mode: Mode
    name: str = ""

    def describe(self) -> str:
        """The parameter's name, or what the tensor is and where it was made."""
        storage = self.tensor.storage
        return self.name or f"{storage.label} made at {storage.site}"


def check_accesses(accesses: tuple[Access, ...], label: str, device: Device) -> None:
    """Refuse what no order could make right."""
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

"""Storages: bytes of a device, who holds them, and which operations still use them.

Tensors and views are handles on a storage and hold nothing themselves, so two handles on the same
bytes cannot disagree. *Built* operations hold borrows; *submitted* ones have left a fence, a stream
and a count. Bytes are allocated on the stream of the first user. Everything but creation and the
finaliser happens under the device's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tilewright.errors import OutOfMemoryError
from tilewright.runtime.backend import ALIGNMENT
from tilewright.runtime.device import Device
from tilewright.runtime.failures import Outcome
from tilewright.runtime.records import Allocation
from tilewright.runtime.regions import Region
from tilewright.runtime.sites import Site, user_site
from tilewright.runtime.stream import Stream

__all__ = ["Borrow", "Initialiser", "Storage", "Use"]

_CROWDED = 16  # fences on one storage from which passed ones are dropped


class Borrow:
    """A right that a built operation holds on a region. Compared by identity."""

    __slots__ = ("label", "name", "region", "site", "writes")

    def __init__(self, label: str, site: Site, name: str, region: Region, *, writes: bool) -> None:
        self.label = label
        self.site = site
        self.name = name
        self.region = region
        self.writes = writes


class Use:
    """The fence that a submitted operation left on a region."""

    __slots__ = ("count", "outcome", "region", "stream")

    def __init__(self, region: Region, stream: Stream, count: int, outcome: Outcome | None) -> None:
        self.region = region
        self.stream = stream
        self.count = count
        self.outcome = outcome


class Storage:
    """Bytes on one device with their borrows and fences."""

    __slots__ = (
        "__weakref__",
        "_allocation",
        "_initialiser",
        "_reads",
        "_writes",
        "borrows",
        "device",
        "label",
        "nbytes",
        "site",
    )

    alignment = ALIGNMENT

    def __init__(
        self, device: Device, nbytes: int, initialiser: Initialiser | None, label: str
    ) -> None:
        self.device = device
        self.nbytes = nbytes
        self.label = label
        self.site = user_site()
        self.borrows: list[Borrow] = []
        self._allocation: Allocation | None = None
        self._initialiser = initialiser
        self._writes: list[Use] = []
        self._reads: list[Use] = []

    @property
    def allocation(self) -> Allocation:
        """The bytes; there are some from the first submission on."""
        assert self._allocation is not None, "the storage has not been used by a submission yet"
        return self._allocation

    @property
    def address(self) -> int:
        """Where the bytes start, in the device's address space."""
        return self.allocation.address

    @property
    def is_lazy(self) -> bool:
        """Whether no operation has needed the bytes yet."""
        return self._allocation is None

    def materialise(self, stream: Stream) -> None:
        """Allocate and initialise on the stream of the first user."""
        if self._allocation is not None and self._initialiser is None:
            return
        if self._allocation is None:
            try:
                self._allocation = stream.queue.allocate(self.nbytes)
            except OutOfMemoryError as error:
                error.add_note(f"it was for {self.label}, made at {self.site}")
                raise
        if self._initialiser is not None:
            # Taken off first: an initialiser may submit operations on this very storage.
            initialise, self._initialiser = self._initialiser, None
            try:
                initialise(self, stream)
            except BaseException:
                self._initialiser = initialise
                raise
        if not self._writes:
            # The allocation itself is ordered on this stream, so even uninitialised bytes have one.
            count = stream.advance()
            whole = Region(0, self.nbytes, dense=True, disjoint=True, root=-1, box=())
            self._writes.append(Use(whole, stream, count, stream.watch(count, None, ())))

    def conflict(self, region: Region, *, writes: bool) -> Borrow | None:
        """The borrow of a built operation that stands against a new one."""
        for borrow in self.borrows:
            if (writes or borrow.writes) and borrow.region.overlaps(region):
                return borrow
        return None

    def order(self, stream: Stream, region: Region, *, writes: bool) -> None:
        """Make a stream wait for the operations that must come before a new one."""
        for use in self._writes:
            if use.stream is not stream and use.region.overlaps(region):
                stream.wait_for(use.stream, use.count)
        if writes:
            for use in self._reads:
                if use.stream is not stream and use.region.overlaps(region):
                    stream.wait_for(use.stream, use.count)

    def record_read(self, use: Use) -> None:
        """Leave the fence of a submitted reader."""
        for position, old in enumerate(self._reads):
            if old.stream is use.stream and use.region.covers(old.region):
                self._reads[position] = use
                return
        self._reads.append(use)
        if len(self._reads) > _CROWDED:
            self._reads = [one for one in self._reads if not one.stream.has_passed(one.count)]

    def record_write(self, use: Use) -> None:
        """Leave the fence of a submitted writer, which came after all that it covers."""
        covers = use.region.covers
        self._reads = [old for old in self._reads if not covers(old.region)]
        self._writes = [old for old in self._writes if not covers(old.region)]
        self._writes.append(use)
        if len(self._writes) > _CROWDED:
            self._writes = [one for one in self._writes if _still_matters(one)]

    def writers(self, region: Region) -> Iterator[Use]:
        """The submitted writers that a reader of a region must know about."""
        return (use for use in self._writes if use.region.overlaps(region))

    def doubts(self, region: Region) -> list[Outcome]:
        """Outcomes that a reader depends on; raises if one is known to be a failure."""
        found: list[Outcome] = []
        for use in self._writes:
            outcome = use.outcome
            if outcome is None or not use.region.overlaps(region):
                continue
            if not outcome.settled and use.stream.has_passed(use.count):
                use.stream.settle()
            if outcome.error is not None:
                outcome.surface()
            if not outcome.settled:
                found.append(outcome)
        return found

    def __del__(self) -> None:
        # No lock and no driver here: the collector may run this anywhere.
        if getattr(self, "_allocation", None) is not None:
            self.device.notes.put(_Freed(self.device, self.allocation, self._writes, self._reads))


Initialiser = Callable[[Storage, Stream], None]


def _still_matters(use: Use) -> bool:
    outcome = use.outcome
    if outcome is not None and (not outcome.settled or outcome.error is not None):
        return True
    return not use.stream.has_passed(use.count)


class _Freed(NamedTuple):
    """A dropped storage whose bytes go back after their last use."""

    device: Device
    allocation: Allocation
    writes: list[Use]
    reads: list[Use]

    def settle(self) -> None:
        """Free on the stream of the last use, ordered after the uses elsewhere."""
        uses = self.writes + self.reads
        last = max(uses, key=lambda use: use.count).stream if uses else self.device.stream
        for use in uses:
            last.wait_for(use.stream, use.count)
        last.queue.free(self.allocation)

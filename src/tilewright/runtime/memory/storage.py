"""Storages: bytes of a device, who holds them, and which operations still use them.

Tensors and views are handles on a storage and hold nothing themselves, so two handles on the same
bytes cannot disagree. *Built* operations hold borrows; *submitted* ones have left a fence, a stream
and a count. Bytes are allocated on the stream of the first user. Everything but creation and the
finaliser happens under the device's lock.

One that is *fresh*, with no bytes yet and nothing to put into them, is as good as at home anywhere:
it begins where it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from weakref import ref

from tilewright.runtime.devices.backend import ALIGNMENT
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.leases import Share
from tilewright.runtime.memory.pool import allocate
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.ops.call_site import Site, user_frame
from tilewright.runtime.order.alone import among_others
from tilewright.runtime.order.borrows import Borrow, Borrows, Holder
from tilewright.runtime.order.failure import Fence
from tilewright.runtime.order.failure_records import Allocation
from tilewright.runtime.order.used_bytes import UsedBytes
from tilewright.runtime.order.uses import Freed, Use

__all__ = ["FROM_USERS", "Initialiser", "Storage"]

# Calls from one of a user's to the storage of a tensor that one of our functions makes, at least.
FROM_USERS = 5


class Storage(UsedBytes):
    """Bytes on one device with their borrows and fences."""

    __slots__ = (
        "__weakref__", "_allocation", "_code", "_initialiser", "_instruction", "_is_beginning",
        "address", "borrows", "is_fresh", "label", "nbytes", "pool", "serials",
    )  # fmt: skip

    alignment = ALIGNMENT
    owns_bytes = True  # they come from a pool of ours and go back to it

    def __init__(
        self,
        device: Device,
        nbytes: int,
        initialiser: Initialiser | None,
        label: str,
        depth: int = 2,
    ) -> None:
        super().__init__(device)
        self.nbytes = nbytes
        self.label = label
        owns_bytes = self.owns_bytes
        if owns_bytes:
            self.pool = device.pool
        frame = user_frame(depth)  # of whoever made it, that many calls up, or further
        self._code, self._instruction = frame.f_code, frame.f_lasti
        self.address = 0  # in the device's address space, from the first submission on
        self.borrows: Borrows = {}
        self.is_fresh = owns_bytes and initialiser is None
        self.serials: dict[tuple[object, int], int] = {}  # of handles, by what and where they are
        self._allocation: Allocation | None = None
        self._initialiser = initialiser
        self._is_beginning = False

    @property
    def site(self) -> Site:
        """Where it was made."""
        return Site(self._code, self._instruction)

    def sign(self, code: CodeType, instruction: int) -> None:
        """Have been made for a call there, and not where it was made at first."""
        self._code, self._instruction = code, instruction

    @property
    def allocation(self) -> Allocation:
        """The bytes; there are some from the first submission on."""
        assert self._allocation is not None, "the storage has not been used by a submission yet"
        return self._allocation

    def place(self, offset: int) -> int:
        """Where a byte lies in the allocation: foreign memory is counted from address 0."""
        return self.address + offset - self.allocation.address

    @property
    def is_lazy(self) -> bool:
        """Whether no operation has needed the bytes yet."""
        return self._allocation is None

    @property
    def has_begun(self) -> bool:
        """Whether the bytes are there, with their first contents."""
        return self._allocation is not None and self._initialiser is None

    def shares_memory(self, other: Storage) -> bool:
        """Whether regions of both can meet; then they have one list of borrows."""
        return self.borrows is other.borrows

    def why_not_written(self) -> str | None:
        """The reason why nothing may write here, if there is one."""
        return None

    def note_write(self) -> None:
        """Tell whoever else knows the bytes that they change."""

    def materialise(self, stream: Stream) -> None:
        """Allocate and initialise on the stream of the first user."""
        if self.has_begun:
            return
        if self._allocation is None and not self._get_bytes(stream) and self.has_begun:
            return
        before = list(self._writes)
        if self._initialiser is not None:
            # Behind a first try, elsewhere, that has failed.
            self.order(stream, Region.whole(self.nbytes), writes=True)
            # Taken off first: an initialiser may submit operations on this very storage.
            initialise, self._initialiser = self._initialiser, None
            self._is_beginning = True
            try:
                among_others(self.device, initialise, self, stream)
            except BaseException:
                self._initialiser = initialise
                self._leave_allocation(stream)
                raise
            finally:
                self._is_beginning = False
        if self._writes == before:
            self._leave_allocation(stream)

    def _leave_allocation(self, stream: Stream) -> None:
        """Leave a fence for bytes that no operation has written: even those have a stream."""
        count = stream.advance()
        fence = Fence(stream, count, stream.watch(count, None, ()))
        self.leave_home()
        self._writes[:] = [Use(Region.whole(self.nbytes), fence)]
        self._find_home(fence)

    def begin(self, stream: Stream, region: Region) -> None:
        """Get bytes, fresh as it is, for the launch of a region that is put on a stream next.

        What `materialise` does, and no more is left than a launch at home leaves.
        """
        if not self.is_fresh or not self._get_bytes(stream):
            return
        is_whole = region.dense and region.low == 0 and region.high == self.nbytes
        begun = region if is_whole else Region.whole(self.nbytes)
        left, count = self.written_at_home, stream.advance()  # nothing yet: it was fresh
        left.count, left.region = count, begun
        self.home = stream

    def _get_bytes(self, stream: Stream) -> bool:
        """Allocate; False if somebody else was faster, while room was made."""
        allocation = allocate(self, stream)
        if self._allocation is not None:
            stream.queue.free(allocation, self.pool.backend)
            return False
        self._allocation = allocation
        self.address = allocation.address
        self.device.storages[id(allocation)] = ref(self)
        self.is_fresh = False
        return True

    def join_lease(self, share: Share) -> None:
        """Be part of a graph; its replays leave their fences in the lease."""
        if self.is_fresh:
            self.is_fresh = False
        super().join_lease(share)

    def conflict(self, region: Region, *, writes: bool) -> Borrow | None:
        """The borrow of a built operation that stands against a new one.

        None stands against the first contents: whatever is built comes after them.
        """
        return None if self._is_beginning else self.borrowed_against(region, writes=writes)

    def borrowed_against(self, region: Region, *, writes: bool) -> Borrow | None:
        """A borrow that conflicts with a use, of an operation or of a built replay."""
        for share in self.shares:
            held = share.held_against(region, writes=writes)
            if held is not None:
                claim, holder = held
                return Borrow(claim.region, claim.writes, "", holder)
        for borrow in self._all_borrows():
            if (writes or borrow.writes) and borrow.region.overlaps(region):
                return borrow
        return None

    def _all_borrows(self) -> Iterator[Borrow]:
        self.device.tell_latest()
        return (borrow for borrows in self.borrows.values() for borrow in borrows)

    def held_by(self, region: Region) -> Holder | None:
        """A built operation that holds a region, for whatever purpose, also if it is empty."""
        held = self.borrowed_against(region, writes=True)
        if held is not None and self.device.collect_dropped():
            held = self.borrowed_against(region, writes=True)
        if held is None:
            held = next((one for one in self._all_borrows() if one.region is region), None)
        return None if held is None else held.holder

    def __del__(self) -> None:
        # No lock and no driver here: the collector may run this anywhere.
        if getattr(self, "_allocation", None) is not None:
            home = self.home
            uses = self._writes + self._reads if home is None else []
            self.device.notes.append(Freed(self.pool, self.allocation, home, uses))


# Puts the first contents of a storage on a stream.
Initialiser = Callable[[Storage, Stream], None]

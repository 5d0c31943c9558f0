"""Storages: bytes of a device, who holds them, and which operations still use them.

Tensors and views are handles on a storage and hold nothing themselves, so two handles on the same
bytes cannot disagree. *Built* operations hold borrows; *submitted* ones have left a fence, a stream
and a count. Bytes are allocated on the stream of the first user. Everything but creation and the
finaliser happens under the device's lock.

Most storages are used on one stream, by work that cannot fail. That stream is their *home*: an
operation that is submitted there has nothing to wait for, nothing to doubt and nothing to allocate,
and only leaves its fence. Whatever changes that takes the home away. One that is *fresh*, with no
bytes yet and nothing to put into them, is as good: it begins where it is first used. Launches that
are made over and over share a fence that stays (`settle_in`), and move its count on. What takes
fences off or the home away is counted in `shift`, so that such a launch knows when to look again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from weakref import ref

from tilewright.runtime.backend import ALIGNMENT
from tilewright.runtime.borrows import Borrow, Borrows, Holder
from tilewright.runtime.device import Device
from tilewright.runtime.failures import Fence, Outcome
from tilewright.runtime.leases import Share, catch_up
from tilewright.runtime.pool import allocate
from tilewright.runtime.records import Allocation
from tilewright.runtime.regions import Region
from tilewright.runtime.sites import Site, user_frame
from tilewright.runtime.stream import Stream
from tilewright.runtime.uses import Freed, HomeUses, Use, forget_elsewhere, keep

__all__ = ["FROM_USERS", "Initialiser", "Storage"]

# Calls from one of a user's to the storage of a tensor that one of our functions makes, at least.
FROM_USERS = 5
_NEAR = 4  # fences among which one that can be moved on is looked for
_CROWDED = 16  # fences on one storage from which passed ones are looked for


class Storage:
    """Bytes on one device with their borrows and fences."""

    __slots__ = (
        "__weakref__", "_allocation", "_code", "_initialiser", "_instruction", "_is_beginning",
        "_reads", "_writes", "address", "borrows", "device", "home", "is_fresh", "label",
        "nbytes", "pool", "read_at_home", "serials", "shares", "shift", "written_at_home",
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
        self.device = device
        self.nbytes = nbytes
        self.label = label
        owns_bytes = self.owns_bytes
        if owns_bytes:
            self.pool = device.pool
        frame = user_frame(depth)  # of whoever made it, that many calls up, or further
        self._code, self._instruction = frame.f_code, frame.f_lasti
        self.address = 0  # in the device's address space, from the first submission on
        self.borrows: Borrows = {}
        self.home: Stream | None = None
        self.is_fresh = owns_bytes and initialiser is None
        self.shift = 0
        self.shares: list[Share] = []  # in the leases of graphs
        self.serials: dict[tuple[object, int], int] = {}  # of handles, by what and where they are
        self._allocation: Allocation | None = None
        self._initialiser = initialiser
        self._is_beginning = False
        self._writes: list[Use] = []
        self._reads: list[Use] = []
        self.written_at_home = HomeUses()
        self.read_at_home = HomeUses()

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
        if self._allocation is not None and self._initialiser is None:
            return
        if self._allocation is None:
            self._get_bytes(stream)
        before = list(self._writes)
        if self._initialiser is not None:
            # Behind a first try, elsewhere, that has failed.
            self.order(stream, Region.whole(self.nbytes), writes=True)
            # Taken off first: an initialiser may submit operations on this very storage.
            initialise, self._initialiser = self._initialiser, None
            self._is_beginning = True
            try:
                initialise(self, stream)
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
        self._writes[:] = [Use(Region.whole(self.nbytes), fence)]
        self._find_home(fence)
        self._has_shifted()

    def begin(self, stream: Stream, region: Region) -> None:
        """Get bytes, fresh as it is, for the launch of a region that is put on a stream next.

        What `materialise` does, and no more is left than a launch at home leaves.
        """
        self._get_bytes(stream)
        is_whole = region.dense and region.low == 0 and region.high == self.nbytes
        begun = region if is_whole else Region.whole(self.nbytes)
        left, count = self.written_at_home, stream.advance()  # nothing yet: it was fresh
        left.count, left.region = count, begun
        self.home = stream

    def _get_bytes(self, stream: Stream) -> None:
        self._allocation = allocation = allocate(self, stream)
        self.address = allocation.address
        self.device.storages[id(allocation)] = ref(self)
        self.is_fresh = False

    def join_lease(self, share: Share) -> None:
        """Be part of a graph; its replays leave their fences in the lease."""
        self.catch_up()
        if self.is_fresh:
            self.is_fresh = False
        self.shares.append(share)
        self._leave_home()

    def leave_lease(self, share: Share) -> None:
        """Be part of a graph no longer."""
        self.catch_up()
        self.shares.remove(share)

    def catch_up(self) -> None:
        """Take over the fences of replays, and of launches at home, since the last look."""
        if self.shares:
            catch_up(self, self.shares)
            return
        self._look_at_home()

    def _look_at_home(self) -> None:
        written, read = self.written_at_home, self.read_at_home
        while not (written.unfold(self, self._writes) and read.unfold(self, self._reads)):
            pass  # a finaliser has launched meanwhile, or has looked

    def _leave_home(self) -> None:
        """Have no home any more, with all seen that was left there, by finalisers as well."""
        written, read = self.written_at_home, self.read_at_home
        while self.home is not None:
            self._look_at_home()
            if (written.region or written.before or read.region or read.before) is None:
                self.home = None
        self._has_shifted()

    def conflict(self, region: Region, *, writes: bool) -> Borrow | None:
        """The borrow of a built operation that stands against a new one.

        None stands against the first contents: whatever is built comes after them.
        """
        if self._is_beginning:
            return None
        for share in self.shares:
            share.touch()  # a replay must know of the borrow that is about to be taken
        return self.borrowed_against(region, writes=writes)

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

    def order(self, stream: Stream, region: Region, *, writes: bool) -> None:
        """Make a stream wait for the operations that must come before a new one."""
        self.catch_up()
        for use in (*self._writes, *self._reads) if writes else self._writes:
            fence = use.fence
            if fence.stream is not stream and use.region.overlaps(region):
                stream.wait_for(fence.stream, fence.count)

    def settle_in(self, region: Region, stream: Stream, writes: bool, count: int = 0) -> Fence:
        """A fence for all launches on a region, at home; whoever launches moves it on.

        One without a count stands for a launch that is still to come.
        """
        if self.home is not stream:  # a finaliser has used it elsewhere since it was looked at
            self.catch_up()
            self._leave_home()
        uses = self._writes if writes else self._reads
        for use in uses[-_NEAR:]:
            if use.is_moved and use.region is region and use.fence.stream is stream:
                use.fence.count = max(count, use.fence.count)
                return use.fence
        fence = Fence(stream, count, None)
        uses.append(Use(region, fence, is_moved=True))
        self._thin_out(uses)
        return fence

    def _has_shifted(self) -> None:
        self.shift += 1
        self.device.epoch += 1

    def _thin_out(self, uses: list[Use]) -> None:
        """Drop what concerns nobody any more, whenever there are twice as many as at a time before.

        To look at every fence asks the driver: once for each new use, all in all, however many are
        still under way.
        """
        if len(uses) >= _CROWDED and len(uses).bit_count() == 1:
            keep(uses, lambda use: use.fence.matters or not use.fence.count)
            self._has_shifted()

    def come_after(self, region: Region, stream: Stream) -> None:
        """Order every use after all that a stream has now, where somebody else has worked."""
        self.catch_up()
        for share in self.shares:
            share.touch()
        # It takes the place of no other writer: nothing says that it came after them.
        self._writes.append(Use(region, Fence(stream, stream.advance(), None)))
        self._thin_out(self._writes)
        self._leave_home()

    def record_read(self, region: Region, fence: Fence) -> None:
        """Leave the fence of a reader that is being submitted."""
        self.catch_up()
        self.take_read(region, fence)

    def take_read(self, region: Region, fence: Fence) -> None:
        """Take the fence of a submitted reader."""
        for use in self._reads:
            is_later = fence.is_before(use.fence)  # storages learn of replays when somebody asks
            if use.fence.stream is fence.stream and not is_later and region.covers(use.region):
                use.region, use.fence, use.is_moved = region, fence, False
                break
        else:
            self._reads.append(Use(region, fence))
            self._thin_out(self._reads)
        self._has_taken(fence)

    def record_write(self, region: Region, fence: Fence) -> None:
        """Leave the fence of a writer that is being submitted."""
        self.catch_up()
        self.take_write(region, fence)

    def take_write(self, region: Region, fence: Fence) -> None:
        """Take the fence of a submitted writer, after all that it covers but what came later."""

        def is_wanted(use: Use) -> bool:
            return fence.is_before(use.fence) or not region.covers(use.region)

        reads, writes = self._reads, self._writes
        if reads:
            keep(reads, is_wanted)
        if writes:
            keep(writes, is_wanted)
        writes.append(Use(region, fence))
        self._thin_out(writes)
        self._has_taken(fence)

    def _has_taken(self, fence: Fence) -> None:
        self.shift += 1
        self.device.epoch += 1
        if self.home is not fence.stream or fence.outcome is not None:
            self._find_home(fence)

    def _find_home(self, last: Fence) -> None:
        """Whether everything is on one stream, with nothing else to look at, after another use."""
        written, read, stream = self.written_at_home, self.read_at_home, last.stream
        while True:
            shift = self.shift
            self._look_at_home()
            if last.outcome is None:
                forget_elsewhere(self._writes, stream)
                forget_elsewhere(self._reads, stream)
            fences = (use.fence for use in (*self._writes, *self._reads))
            is_home = (
                stream.is_listed
                and not self.shares
                and self._allocation is not None
                and self._initialiser is None
                and all(one.stream is stream and one.outcome is None for one in fences)
            )
            home = stream if is_home else None
            left = written.region or written.before or read.region or read.before
            if left is None and self.shift == shift:  # or a finaliser has used it meanwhile
                self.home = home
                return

    def writers(self, region: Region) -> Iterator[Fence]:
        """The submitted writers that a reader of a region must know about."""
        self.catch_up()
        return (use.fence for use in self._writes if use.region.overlaps(region))

    def fences(self, region: Region, *, writes: bool) -> Iterator[Fence]:
        """The submitted operations that must come before a new one."""
        yield from self.writers(region)
        if writes:
            yield from (use.fence for use in self._reads if use.region.overlaps(region))

    def doubts(self, region: Region, hidden: tuple[Region, ...] = ()) -> list[Outcome]:
        """Outcomes that a reader depends on; raises if one is known to be a failure.

        What lies in a hidden region is overwritten before the reader comes to it.
        """
        self.catch_up()
        found: list[Outcome] = []
        for use in self._writes:
            fence, outcome = use.fence, use.fence.outcome
            if outcome is None or not use.region.overlaps(region):
                continue
            if any(cover.covers(use.region) for cover in hidden):
                continue
            if not outcome.settled and fence.stream.has_passed(fence.count):
                outcome.settle()
            if outcome.error is not None:
                outcome.surface()
            if not outcome.settled:
                found.append(outcome)
        return found

    def __del__(self) -> None:
        # No lock and no driver here: the collector may run this anywhere.
        if getattr(self, "_allocation", None) is not None:
            home = self.home
            uses = self._writes + self._reads if home is None else []
            self.device.notes.append(Freed(self.pool, self.allocation, home, uses))


# Puts the first contents of a storage on a stream.
Initialiser = Callable[[Storage, Stream], None]

"""What submitted operations have left on bytes, and the stream on which all of it is.

Most storages are used on one stream, by work that cannot fail. That stream is their *home*: an
operation that is submitted there has nothing to wait for, nothing to doubt and nothing to allocate,
and only leaves its fence. Whatever changes that takes the home away. Launches that are made over
and over share a fence that stays (`settle_in`), and move its count on. What takes fences off or the
home away is counted in `shift`, so that such a launch knows when to look again. Everything here
happens under the device's lock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from tilewright.runtime.device import Device
from tilewright.runtime.failures import Fence, Outcome
from tilewright.runtime.leases import Share, catch_up
from tilewright.runtime.regions import Region
from tilewright.runtime.stream import Stream
from tilewright.runtime.uses import HomeUses, Use, forget_elsewhere, keep

__all__ = ["UsedBytes"]

_NEAR = 4  # fences among which one that can be moved on is looked for
_CROWDED = 16  # fences on one storage from which passed ones are looked for


class UsedBytes(ABC):
    """Bytes of one device, as submitted operations know them."""

    __slots__ = (
        "_reads", "_writes", "device", "home", "read_at_home", "shares", "shift", "written_at_home",
    )  # fmt: skip

    def __init__(self, device: Device) -> None:
        self.device = device
        self.home: Stream | None = None
        self.shift = 0
        self.shares: list[Share] = []  # in the leases of graphs
        self._writes: list[Use] = []
        self._reads: list[Use] = []
        self.written_at_home = HomeUses()
        self.read_at_home = HomeUses()

    @property
    @abstractmethod
    def has_begun(self) -> bool:
        """Whether the bytes are there, with their first contents."""

    # --- graphs that the bytes are part of ---

    def join_lease(self, share: Share) -> None:
        """Be part of a graph; its replays leave their fences in the lease."""
        self.catch_up()
        self.shares.append(share)
        self.leave_home()

    def leave_lease(self, share: Share) -> None:
        """Be part of a graph no longer."""
        self.catch_up()
        self.shares.remove(share)

    def catch_up(self) -> None:
        """Take over the fences of replays, and of launches at home, since the last look."""
        if self.shares:
            catch_up(self, self.shares)
        self._look_at_home()

    # --- the home ---

    def _look_at_home(self) -> None:
        written, read = self.written_at_home, self.read_at_home
        while not (written.unfold(self, self._writes) and read.unfold(self, self._reads)):
            pass  # a finaliser has launched meanwhile, or has looked

    def leave_home(self) -> None:
        """Have no home any more, with all seen that was left there, by finalisers as well."""
        written, read = self.written_at_home, self.read_at_home
        while self.home is not None:
            self._look_at_home()
            if (written.region or written.before or read.region or read.before) is None:
                self.home = None
        self._has_shifted()

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
            self.leave_home()
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
        self.leave_home()

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
            shares = tuple(self.shares)
            for share in shares:
                share.expect_home(stream)
            fences = (use.fence for use in (*self._writes, *self._reads))
            is_home = (
                stream.is_listed
                and self.has_begun
                and all(one.stream is stream and one.outcome is None for one in fences)
                and all(share.is_known for share in shares)
            )
            home = stream if is_home else None
            left = written.region or written.before or read.region or read.before
            if left is None and self.shift == shift:  # or a finaliser has used it meanwhile
                if self.home is not home:
                    # One may have launched at the old home: others like that have to look again.
                    self.home = home
                    self.shift += 1
                    self.device.epoch += 1
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

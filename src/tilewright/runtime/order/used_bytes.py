"""What submitted operations have left on bytes, and the stream on which all of it is.

Most storages are used on one stream, by work that cannot fail. That stream is their *home*: an
operation that is submitted there has nothing to wait for, nothing to doubt and nothing to allocate,
and only leaves its fence. Whatever changes that takes the home away. Launches that are made over
and over share a fence that stays (`settle_in`), and move its count on. What takes fences off or the
home away is counted in `shift`, so that such a launch knows when to look again. Everything here
happens under the device's lock, and alone (`alone`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.leases import Share, catch_up
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.order.failure import Fence, Outcome
from tilewright.runtime.order.uses import HomeUses, Use

__all__ = ["UsedBytes"]

_NEAR = 4  # fences among which one that can be moved on is looked for
_CROWDED = 16  # fences on one storage from which passed ones are looked for
_SELDOM = 16  # uses after which the streams of others are asked


class UsedBytes(ABC):
    """Bytes of one device, as submitted operations know them."""

    __slots__ = (
        "_homeless", "_reads", "_writes", "device", "home", "read_at_home", "shares", "shift",
        "written_at_home",
    )  # fmt: skip

    def __init__(self, device: Device) -> None:
        self.device = device
        self.home: Stream | None = None
        self.shift = 0
        self.shares: list[Share] = []  # in the leases of graphs
        self._homeless = 0  # uses while others were elsewhere
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
        if share in self.shares:  # or this has been done before
            self.catch_up()
            self.shares.remove(share)

    def catch_up(self) -> None:
        """Take over the fences of replays, and of launches at home, since the last look."""
        if self.shares:
            catch_up(self, self.shares)
        self._look_at_home()

    # --- the home ---

    def _look_at_home(self) -> None:
        if self.home is not None:
            self.written_at_home.unfold(self.home, self._writes)
            self.read_at_home.unfold(self.home, self._reads)

    def leave_home(self) -> None:
        """Have no home any more, with all seen that was left there."""
        self._has_shifted()
        self._look_at_home()
        self.home = None

    def order(self, stream: Stream, region: Region, *, writes: bool) -> None:
        """Make a stream wait for the operations that must come before a new one."""
        for fence in self.fences(region, writes=writes):
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
            self._has_shifted()
            uses[:] = [use for use in uses if use.fence.matters or not use.fence.count]

    def come_after(self, region: Region, stream: Stream) -> None:
        """Order every use after all that a stream has now, where somebody else has worked."""
        self.catch_up()
        self.leave_home()
        for share in self.shares:
            share.touch()
        # It takes the place of no other writer: nothing says that it came after them.
        self._writes.append(Use(region, Fence(stream, stream.advance(), None)))
        self._thin_out(self._writes)

    def record_read(self, region: Region, fence: Fence) -> None:
        """Leave the fence of a reader that is being submitted."""
        self.catch_up()
        self.take_read(region, fence)

    def take_read(self, region: Region, fence: Fence) -> None:
        """Take the fence of a submitted reader."""
        self._make_ready_for(fence)
        for use in self._reads:
            is_later = fence.is_before(use.fence)  # storages learn of replays when somebody asks
            if use.fence.stream is fence.stream and not is_later and region.covers(use.region):
                use.region, use.fence, use.is_moved = region, fence, False
                break
        else:
            self._reads.append(Use(region, fence))
            self._thin_out(self._reads)
        self._find_home(fence)

    def record_write(self, region: Region, fence: Fence) -> None:
        """Leave the fence of a writer that is being submitted."""
        self.catch_up()
        self.take_write(region, fence)

    def take_write(self, region: Region, fence: Fence) -> None:
        """Take the fence of a submitted writer, after all that it covers but what came later."""

        def is_wanted(use: Use) -> bool:
            return fence.is_before(use.fence) or not region.covers(use.region)

        self._make_ready_for(fence)
        self._writes[:] = [*filter(is_wanted, self._writes), Use(region, fence)]
        self._reads[:] = filter(is_wanted, self._reads)
        self._thin_out(self._writes)
        self._find_home(fence)

    def _make_ready_for(self, fence: Fence) -> None:
        """Let others look again, before a use that may end what they know, and the home."""
        if self.home is not fence.stream or fence.outcome is not None:
            self.leave_home()
        else:
            self._has_shifted()

    def _find_home(self, last: Fence) -> None:
        """Whether everything is on one stream, with nothing else to look at, after another use."""
        if self.home is not None:
            return  # that of the use
        stream = last.stream
        if last.outcome is None:
            self._forget_elsewhere(stream)
        for share in self.shares:
            share.expect_home(stream)
        fences = (use.fence for use in (*self._writes, *self._reads))
        is_home = (
            stream.is_listed
            and self.has_begun
            and all(one.stream is stream and one.outcome is None for one in fences)
            and all(share.is_known for share in self.shares)
        )
        if is_home:
            self.home = stream

    def _forget_elsewhere(self, stream: Stream) -> None:
        """Drop what has passed on other streams: then this one can be the home.

        What is known of them is enough as a rule. If they are never asked, they are asked now and
        then: something was read there once, say, by a stream that nobody has waited for.
        """
        others = {use.fence.stream for use in (*self._writes, *self._reads)} - {stream}
        if not others:
            return
        self._homeless += 1
        if self._homeless % _SELDOM == 0:
            for other in others:
                if other.is_plain:  # or to ask could spoil what another library records
                    other.queue.progress()
        for uses in (self._writes, self._reads):
            uses[:] = [
                use
                for use in uses
                if use.fence.stream is stream or not use.fence.is_known_to_be_over
            ]

    def writers(self, region: Region) -> tuple[Fence, ...]:
        """The submitted writers that a reader of a region must know about."""
        self.catch_up()
        return tuple(use.fence for use in self._writes if use.region.overlaps(region))

    def fences(self, region: Region, *, writes: bool) -> tuple[Fence, ...]:
        """The submitted operations that must come before a new one."""
        found = self.writers(region)
        if writes:
            found += tuple(use.fence for use in self._reads if use.region.overlaps(region))
        return found

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

"""What submitted operations leave on a storage, and how its bytes go back behind them.

A *use* is a region with the fence of whoever used it last. Launches at home leave less, since their
stream is known: a region and a count, of which uses are made when somebody looks. When the last
handle on a storage is gone, its bytes are freed on the stream of their last use, which waits for
the others first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tilewright.runtime.memory.pool import Pool
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.failure import Fence
from tilewright.runtime.order.failure_records import Allocation
from tilewright.runtime.order.postponed import Postponed

if TYPE_CHECKING:
    from tilewright.runtime.devices.stream import Stream

__all__ = [
    "MANY_AT_HOME",
    "NOTHING_AT_HOME",
    "Freed",
    "HomeUses",
    "Use",
]

# Regions that are kept apart for a storage.
MANY_AT_HOME = 1024
# A region, the count of the last launch at home that has used it, the same before, and how many.
_HomeUse: TypeAlias = "tuple[Region, int, _HomeUse | None, int]"


class Use:
    """A region and the fence of the operation that was submitted last to use it."""

    __slots__ = ("fence", "is_moved", "region")

    def __init__(self, region: Region, fence: Fence, *, is_moved: bool = False) -> None:
        self.region = region
        self.fence = fence
        self.is_moved = is_moved  # whether the fence is this storage's own, to be moved on


class HomeUses:
    """What launches at home have left on a storage since somebody looked, writers or readers.

    That is a region and the count of the last launch there, and the regions before it. Whoever
    leaves one writes the count and then the region (`per_tensor`); if there is another region, it
    is set aside first. They are not alone: a finaliser may launch, look, and give the storage
    another home whenever they make or call something. So what was read before that is compared with
    what is there then, without a call in between.
    """

    __slots__ = ("before", "count", "region")

    def __init__(self) -> None:
        self.region: Region | None = None
        self.count = 0
        self.before: _HomeUse | None = None

    def __len__(self) -> int:
        before = 0 if self.before is None else self.before[3]
        return before + (self.region is not None)

    def set_aside(self, home: Stream) -> None:
        """Make room for another region; whoever needs it looks whether there is."""
        region, count, before = self.region, self.count, self.before
        if region is None:
            return
        use = (region, count, before, 1 if before is None else before[3] + 1)
        if self.region is region and self.count == count and self.before is before:
            self.before = use
            self.region = None
            if use[3] >= MANY_AT_HOME - 1:
                self._thin_out(home)

    def unfold(self, home: Stream, uses: list[Use]) -> None:
        """Make uses of all that was left, one for each region. Whoever looks is alone."""
        if self.region is None and self.before is None:
            return
        found: dict[int, tuple[Region, int]] = {}
        if self.region is not None:
            found[id(self.region)] = (self.region, self.count)
        _find_last(self.before, found)
        made = [Use(region, Fence(home, count, None)) for region, count in found.values()]
        uses += made  # and nothing is called in between, where a signal could raise
        self.region = self.before = None

    def _thin_out(self, home: Stream) -> None:
        """Forget launches that have completed; where too many regions are left, they become one."""
        before = self.before
        done = home.queue.completed()
        found: dict[int, tuple[Region, int]] = {}
        _find_last(before, found)
        kept = [use for use in found.values() if use[1] > done]
        if len(kept) > MANY_AT_HOME // 2:  # or every launch would look at all of them
            low = min(region.low for region, _ in kept)
            high = max(region.high for region, _ in kept)
            kept = [(Region.between(low, high), max(count for _, count in kept))]
        chain: _HomeUse | None = None
        for number, (region, count) in enumerate(reversed(kept), 1):
            chain = (region, count, chain, number)
        if self.before is before:
            self.before = chain


# What no launch at home leaves anything on.
NOTHING_AT_HOME = HomeUses()


def _find_last(use: _HomeUse | None, found: dict[int, tuple[Region, int]]) -> None:
    """The last of each region, which is the first to be met."""
    while use is not None:
        region, count, use, _ = use
        found.setdefault(id(region), (region, count))


class Freed:
    """A note: the bytes of a dropped storage, which go back after their last use."""

    __slots__ = ("allocation", "home", "may_be_repeated", "pool", "uses")

    def __init__(
        self, pool: Pool, allocation: Allocation, home: Stream | None, uses: list[Use]
    ) -> None:
        self.pool = pool
        self.allocation = allocation
        self.home = home  # where all uses are
        self.uses = uses  # if there is none
        self.may_be_repeated = True

    def settle(self) -> None:
        """Free on the stream of the last use, ordered after the uses elsewhere."""
        device = self.pool.device
        device.storages.pop(id(self.allocation), None)
        fences = [use.fence for use in self.uses]
        last = self.home
        if last is None:
            some = device.streams[0]  # it was allocated on one of them
            last = max(fences, key=lambda fence: fence.count).stream if fences else some
        recorded = self._find_recorded(last, fences)
        if fences and recorded is None:
            alone(device, _wait_for_all, last, fences)
        if recorded is not None:
            recorded.keep(Postponed(device, self))
            recorded.advance()
            return
        self.may_be_repeated = False  # memory that is freed twice is worse than what is lost
        last.queue.free(self.allocation, self.pool.backend)

    def _find_recorded(self, last: Stream, fences: list[Fence]) -> Stream | None:
        """A stream that another library records a graph on: nothing can be freed there now."""
        for stream in (last, *(fence.stream for fence in fences)):
            if not stream.is_plain and stream.queue.is_capturing():
                return stream
        return None


def _wait_for_all(stream: Stream, fences: list[Fence]) -> None:
    for fence in fences:
        stream.wait_for(fence.stream, fence.count)

"""What submitted operations leave on a storage, and how its bytes go back behind them.

A *use* is a region with the fence of whoever used it last. Launches at home leave less, since their
stream is known: a region and a count, of which uses are made when somebody looks. When the last
handle on a storage is gone, its bytes are freed on the stream of their last use, which waits for
the others first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tilewright.runtime.failures import Fence
from tilewright.runtime.pool import Pool
from tilewright.runtime.postponed import Postponed
from tilewright.runtime.records import Allocation
from tilewright.runtime.regions import Region

if TYPE_CHECKING:
    from tilewright.runtime.stream import Stream

__all__ = ["MANY_AT_HOME", "Freed", "HomeUse", "Use", "forget_elsewhere", "thin_out", "unfold"]

# A region, and the count of the last launch at home that has used it.
HomeUse: TypeAlias = "tuple[Region, int]"
# Of which a storage has at most so many.
MANY_AT_HOME = 1024


class Use:
    """A region and the fence of the operation that was submitted last to use it."""

    __slots__ = ("fence", "is_moved", "region")

    def __init__(self, region: Region, fence: Fence, *, is_moved: bool = False) -> None:
        self.region = region
        self.fence = fence
        self.is_moved = is_moved  # whether the fence is this storage's own, to be moved on


def forget_elsewhere(uses: list[Use], stream: Stream) -> None:
    """Drop what is known to have passed on other streams: then this one can be the home."""
    if any(use.fence.stream is not stream for use in uses):
        fences = ((use, use.fence) for use in uses)
        uses[:] = [u for u, f in fences if f.stream is stream or not f.is_known_to_be_over]


def unfold(left: list[HomeUse], home: Stream, uses: list[Use]) -> None:
    """Make uses of what launches at home have left; one for each region: they are in order."""
    while left:
        last = left[-1]
        found = {id(region): Use(region, Fence(home, count, None)) for region, count in left}
        made = list(found.values())
        if left and left[-1] is last:  # or a finaliser has launched meanwhile, or has looked
            uses += made
            left.clear()


def thin_out(left: list[HomeUse], home: Stream) -> None:
    """Forget launches that have completed; where too many regions are left, they become one."""
    done = home.queue.completed()
    last, everything = left[-1], slice(None)
    found = {id(use[0]): use for use in left if use[1] > done}
    kept = list(found.values())
    if len(kept) > MANY_AT_HOME // 2:  # or every launch would look at all of them
        low = min(region.low for region, _ in kept)
        high = max(region.high for region, _ in kept)
        kept = [(Region.between(low, high), max(count for _, count in kept))]
    if left and left[-1] is last:  # no finaliser has launched meanwhile, or looked
        left[everything] = kept


class Freed(NamedTuple):
    """A note: the bytes of a dropped storage, which go back after their last use."""

    pool: Pool
    allocation: Allocation
    home: Stream | None  # where all uses are
    uses: list[Use]  # if there is none

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
        if recorded is not None:
            recorded.keep(Postponed(device, self))
            recorded.advance()
            return
        for fence in fences:
            last.wait_for(fence.stream, fence.count)
        last.queue.free(self.allocation, self.pool.backend)

    def _find_recorded(self, last: Stream, fences: list[Fence]) -> Stream | None:
        """A stream that another library records a graph on: nothing can be freed there now."""
        for stream in (last, *(fence.stream for fence in fences)):
            if not stream.is_plain and stream.queue.is_capturing():
                return stream
        return None

"""Timelines: the uses of some bytes, which later work is ordered behind.

A *use* is a handle reading or writing its region: the stream and count of its last submission, and
its outcome. Handles keep their uses, so a repeated launch only advances counts; handles of one
region may share one. A *timeline* is the list of uses of one storage, or of a group of overlapping
ranges of another library, with the borrows of built operations. If all uses are on one stream and
none can fail, that stream is the timeline's *sole stream*: work submitted there waits for nothing.
Timelines change under the device's lock, in a critical section.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.native import slots_in_c
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.order.failure import Fence, Outcome

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device
    from tilewright.runtime.devices.stream import Stream
    from tilewright.runtime.graphs.access import TimelineAccess
    from tilewright.runtime.order.borrow import Borrow, Holder

__all__ = ["MANY_USES", "Borrows", "Conflict", "Timeline", "Use"]

# Uses of one timeline that are kept apart; a longer list on a sole stream is merged into two.
MANY_USES = 1024
_CROWDED = 16  # length of the list from which completed uses are dropped
_NEAR = 4  # last uses that are searched for one of the same region
_SELDOM = 16  # uses after which the progress of other streams is queried
_NOWHERE: Any = None  # stream of a use that no timeline lists


@slots_in_c
class Use(Fence):
    """A handle, or several of one region, reading or writing it, at the last submission."""

    __slots__ = ("region", "timeline", "writes")

    def __init__(self, timeline: Timeline, region: Region, writes: bool) -> None:
        self.timeline = timeline
        self.region = region
        self.writes = writes
        self.stream = _NOWHERE
        self.count = 0
        self.outcome: Outcome | None = None

    def copy(self) -> Use:
        """The same use for another handle."""
        made = Use(self.timeline, self.region, writes=self.writes)
        made.stream, made.count, made.outcome = self.stream, self.count, self.outcome
        return made


class Conflict(NamedTuple):
    """A region that a built operation holds and a new use conflicts with."""

    holder: Holder
    name: str
    writes: bool


class Borrows:
    """The borrows of several built operations on one timeline, in order."""

    __slots__ = ("readers", "writers")

    def __init__(self) -> None:
        self.readers: dict[Borrow, None] = {}
        self.writers: dict[Borrow, None] = {}  # these may read as well

    def add(self, borrow: Borrow, *, writes: bool) -> None:
        """Add a borrow, once."""
        (self.writers if writes else self.readers)[borrow] = None

    def remove(self, borrow: Borrow) -> bool:
        """Take a borrow off; False if it is not there."""
        if borrow in self.readers or borrow in self.writers:
            self.readers.pop(borrow, None)
            self.writers.pop(borrow, None)
            return True
        return False

    def __len__(self) -> int:
        return len(self.readers) + len(self.writers)


@slots_in_c
class Timeline:
    """The uses of some bytes, and the borrows of built operations."""

    __slots__ = ("_elsewhere", "device", "graphs", "heir", "held", "stream", "uses")

    is_ended = False

    def __init__(self, device: Device) -> None:
        self.device = device
        self.uses: list[Use] = []
        self.held: Borrow | Borrows | None = None  # by built operations
        # The sole stream, also of replays. Graphs of the timeline have it marked dirty, or direct.
        self.stream: Stream | None = None
        self.graphs: list[TimelineAccess] = []
        self.heir: Timeline | None = None  # the timeline that this one has been merged into
        self._elsewhere = 0  # uses recorded while other uses were on other streams

    # --- borrows ---

    def borrows(self) -> tuple[Borrow, ...]:
        """The borrows of built operations."""
        held = self.held
        if held is None:
            return ()
        return (*held.writers, *held.readers) if isinstance(held, Borrows) else (held,)

    def hold(self, borrow: Borrow) -> None:
        """Add a borrow."""
        held = self.held
        if held is None:
            self.held = borrow
        elif isinstance(held, Borrows):
            held.add(borrow, writes=borrow.writes_to(self))
        elif held is not borrow:
            both = Borrows()
            for one in (held, borrow):
                both.add(one, writes=one.writes_to(self))
            self.held = both

    def release(self, borrow: Borrow) -> None:
        """Take a borrow off, if it is there."""
        held = self.held
        if held is borrow:
            self.held = None
        elif isinstance(held, Borrows):
            is_last = held.remove(borrow) and not held
            if is_last and self.heir is None:
                self.held = None

    def conflict(
        self, region: Region, *, writes: bool, by: Borrow | None = None
    ) -> Conflict | None:
        """A borrow or a built replay that conflicts with a new use; `by` itself is left out."""
        for access in self.graphs:
            found = access.held_against(region, writes=writes)
            if found is not None:
                return found
        held = self.held
        # Readers conflict with writers alone, and there may be very many of them.
        some = held.writers if isinstance(held, Borrows) and not writes else self.borrows()
        for borrow in some:
            if borrow is not by:
                found = borrow.held_against(self, region, writes=writes)
                if found is not None:
                    return found
        return None

    # --- graphs ---

    def join_graph(self, access: TimelineAccess) -> None:
        """Add a graph, whose replays are recorded when a use is next ordered."""
        self.catch_up()
        self.end_direct()
        self.graphs.append(access)

    def leave_graph(self, access: TimelineAccess) -> None:
        """Remove a graph."""
        if access in self.graphs:
            self.catch_up()
            self.graphs.remove(access)

    def catch_up(self) -> None:
        """Record the replays of graphs that have been submitted since the last call."""
        for access in self.graphs:
            access.catch_up(self)

    def dirty(self) -> None:
        """Mark this timeline dirty in all its graphs: their next replays check it."""
        for access in self.graphs:
            access.mark_dirty()

    def end_direct(self) -> None:
        """Have every use reported to graphs again, also those that had the timeline direct."""
        self.stream = None
        for access in self.graphs:
            access.end_direct()

    # --- uses ---

    def fences(self, region: Region, *, writes: bool) -> list[Use]:
        """The uses that a new one is ordered behind."""
        self.catch_up()
        return [use for use in self.uses if (writes or use.writes) and use.region.overlaps(region)]

    def points(self, region: Region, *, writes: bool) -> list[Fence]:
        """The same uses as fences, which may be waited for outside of the critical section."""
        uses = self.fences(region, writes=writes)
        return [Fence(use.stream, use.count, use.outcome) for use in uses]

    def order(self, stream: Stream, region: Region, *, writes: bool) -> None:
        """Make a stream wait for the uses that a new one is ordered behind."""
        if self.stream is stream:
            return
        for use in self.fences(region, writes=writes):
            stream.wait_for(use.stream, use.count)

    def upstream(self, region: Region, hidden: tuple[Region, ...] = ()) -> list[Outcome]:
        """Unsettled outcomes that a reader depends on; raises a failure that is known.

        Contents in a hidden region are overwritten before they are read.
        """
        self.catch_up()
        found: list[Outcome] = []
        for use in self.uses:
            outcome = use.outcome
            if outcome is None or not use.writes or not use.region.overlaps(region):
                continue
            if any(cover.covers(use.region) for cover in hidden):
                continue
            if not outcome.settled and use.stream.has_passed(use.count):
                outcome.settle()
            if outcome.error is not None:
                outcome.surface()
            if not outcome.settled:
                found.append(outcome)
        return found

    def record(self, use: Use, stream: Stream, count: int, outcome: Outcome | None) -> None:
        """Move a use to a submission that is ordered behind all uses it conflicts with."""
        self.catch_up()
        self.put(use, stream, count, outcome)
        if self.stream is None:
            self.dirty()

    def put(self, use: Use, stream: Stream, count: int, outcome: Outcome | None) -> None:
        """Record a use without the graphs' replays, which are recorded by this themselves."""
        if outcome is None and self.stream is stream:
            self.put_on_sole(use, stream, count)
            return
        if use.stream is stream:
            count = max(use.count, count)  # replays are recorded late
        kept = self._superseded(use, stream, count)
        listed = {id(other) for other in kept}
        dropped = [other for other in self.uses if id(other) not in listed]
        self.stream = None
        # No calls: a signal handler raises before all of these assignments or after them.
        use.stream, use.count, use.outcome, use.timeline = stream, count, outcome, self
        self.uses = kept
        for other in dropped:
            other.stream = _NOWHERE
        self._thin_out_if_crowded()
        if outcome is None and not self.graphs and self.is_sole(stream):
            self.stream = stream

    def put_on_sole(self, use: Use, stream: Stream, count: int) -> None:
        """Record a use on the sole stream, whose order is that of all uses."""
        if use.stream is stream:
            use.count = max(use.count, count)  # replays are recorded late
            return
        uses = self.uses
        # No outcome: that of an earlier submission may be left, from before the use was dropped.
        use.stream, use.count, use.outcome, use.timeline = stream, count, None, self
        if len(uses) < _NEAR:
            uses.append(use)
            return
        for at in range(max(0, len(uses) - _NEAR), len(uses)):
            other = uses[at]
            is_alike = other.region is use.region and other.writes is use.writes
            if is_alike and other.count <= count:
                uses[at] = use
                other.stream = _NOWHERE
                return
        uses.append(use)
        self._thin_out_if_crowded()

    def _superseded(self, use: Use, stream: Stream, count: int) -> list[Use]:
        """The list of uses with a new one, without those that it supersedes."""
        region = use.region
        kept = [other for other in self.uses if other is not use]
        if use.writes:
            kept = [
                other
                for other in kept
                if (other.stream is stream and other.count > count)
                or not region.covers(other.region)
            ]
            return [*kept, use]
        for at, other in enumerate(kept):
            is_before = other.stream is stream and not other.writes and other.count <= count
            if is_before and region.covers(other.region):
                del kept[at]
                break
        if use.stream not in (_NOWHERE, stream):  # a read on another stream may still be running
            kept.append(use.copy())
        return [*kept, use]

    def is_sole(self, stream: Stream) -> bool:
        """Whether all uses are on a stream and none can fail; completed ones are dropped."""
        if not stream.may_be_sole:
            return False
        others = {use.stream for use in self.uses} - {stream}
        if others:
            self._elsewhere += 1
            self._forget_passed(others)
        return all(use.stream is stream and use.outcome is None for use in self.uses)

    def _forget_passed(self, others: Iterable[Stream]) -> None:
        """Drop uses on other streams that are known to have completed; query these now and then."""
        if self._elsewhere % _SELDOM == 0:
            for other in others:
                if other.is_plain:  # a query could invalidate another library's capture
                    other.queue.progress()
        self._keep([use for use in self.uses if not use.is_known_to_be_over])

    def _thin_out_if_crowded(self) -> None:
        if len(self.uses) >= _CROWDED and len(self.uses).bit_count() == 1:
            self._thin_out()

    def _thin_out(self) -> None:
        """Drop completed uses; the driver is queried once for each use per doubling of the list."""
        kept = [use for use in self.uses if use.matters]
        if len(kept) >= MANY_USES and self.stream is not None:
            kept = [self._merged(kept, writes=False), self._merged(kept, writes=True)]
        self._keep(kept)

    def _merged(self, uses: list[Use], *, writes: bool) -> Use:
        """One use for all reads, or all writes, on the sole stream."""
        alike = [use for use in uses if use.writes is writes] or uses[-1:]
        low, high = min(use.region.low for use in alike), max(use.region.high for use in alike)
        made = Use(self, Region.between(low, high), writes=writes)
        made.stream, made.count = alike[0].stream, max(use.count for use in alike)
        return made

    def _keep(self, kept: list[Use]) -> None:
        listed = {id(use) for use in kept}
        dropped = [use for use in self.uses if id(use) not in listed]
        self.uses = kept
        for use in dropped:
            use.stream = _NOWHERE

    def come_after(self, region: Region, stream: Stream) -> None:
        """Order later uses after all work of a stream on which another library has written."""
        self.catch_up()
        self.stream = None
        use = Use(self, region, writes=True)
        use.stream, use.count = stream, stream.advance()
        self.uses = [*self.uses, use]  # supersedes none: it is not ordered after them
        self.dirty()

    def merge(self, other: Timeline) -> None:
        """Take over the uses and borrows of a timeline whose bytes turned out to overlap.

        Repeated after an interrupt, it lists no use and no graph twice.
        """
        self.catch_up()
        other.catch_up()
        is_new = not self.uses and self.stream is None and not self.graphs
        self.stream = other.stream if is_new or self.stream is other.stream else None
        listed = {id(use) for use in self.uses}
        self.uses = [*self.uses, *(use for use in other.uses if id(use) not in listed)]
        for use in other.uses:
            use.timeline = self
        self.graphs += [access for access in other.graphs if access not in self.graphs]
        borrows = [*self.borrows(), *(one for one in other.borrows() if one not in self.borrows())]
        other.heir = self  # before the borrows are told apart: their uses follow it
        self.held = self._held_by(borrows) if borrows else None
        other.held, other.stream = Borrows(), None  # handles that still refer to it follow `heir`
        other.uses, other.graphs = [], []

    def _held_by(self, borrows: Iterable[Borrow]) -> Borrows:
        made = Borrows()
        for borrow in borrows:
            made.add(borrow, writes=borrow.writes_to(self))
        return made

    def last(self) -> Timeline:
        """This timeline, or the one at the end of its chain of heirs."""
        found = self
        while found.heir is not None:
            found = found.heir
        return found

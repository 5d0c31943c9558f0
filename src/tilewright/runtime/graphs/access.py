"""Graph access: the timelines of one graph as one thing, so that a replay costs O(1).

A built replay holds the access and no borrows of its own; a submitted one leaves a single stamp. A
timeline records the stamps of its graphs as uses when it is next asked for something, so it knows
all that it would know if each node had been an operation. In the other direction, each borrow and
each use of a timeline makes it *dirty* in its graphs, and a replay looks at dirty timelines only:
no replay is submitted as long as a borrow conflicts with it, so none is overlooked. Everything here
happens under the device's lock, in a critical section.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.runtime.memory.regions import Region
from tilewright.runtime.order.failure import Outcome
from tilewright.runtime.order.insisting import insist
from tilewright.runtime.order.timeline import Conflict, Timeline, Use

if TYPE_CHECKING:
    from tilewright.runtime.devices.stream import Stream
    from tilewright.runtime.graphs.plan import Member, Sources
    from tilewright.runtime.order.borrow import Holder

__all__ = ["GraphAccess", "Stamp", "TimelineAccess"]


class Stamp:
    """A submitted replay: where it ends, and the outcomes that its results depend on.

    Until a timeline has recorded it, it may stand for later replays as well: its count moves on.
    """

    __slots__ = ("_outcomes", "_refused", "_sources", "count", "is_doubtful", "is_seen", "stream")

    def __init__(
        self,
        stream: Stream,
        count: int,
        sources: dict[int, list[Outcome]],
        refused: Outcome | None = None,
    ) -> None:
        self.stream = stream
        self.count = count
        self._sources = sources  # by bit
        self._refused = refused  # the launch itself came to nothing
        self._outcomes: dict[Sources, Outcome | None] = {}
        # Whether any result may have failed.
        self.is_doubtful = refused is not None or bool(sources)
        self.is_seen = False  # a timeline has recorded it

    def outcome(self, sources: Sources) -> Outcome | None:
        """The outcome of contents that come from some sources."""
        if sources not in self._outcomes:
            self._outcomes[sources] = self._make_outcome(sources)
        return self._outcomes[sources]

    def _make_outcome(self, sources: Sources) -> Outcome | None:
        if self._refused is not None:
            return self._refused
        reaching = [
            outcome
            for bit, outcomes in self._sources.items()
            if sources & bit
            for outcome in outcomes
            if not outcome.settled or outcome.error is not None
        ]
        return Outcome(self.stream, self.count, None, reaching) if reaching else None


class TimelineAccess:
    """The part of a graph's access that concerns one timeline."""

    __slots__ = ("_reads", "_writes", "graph", "index", "member", "seen")

    def __init__(self, graph: GraphAccess, index: int, member: Member) -> None:
        self.graph = graph
        self.index = index
        self.member = member
        self.seen: Stamp | None = None  # the last stamp that the timeline has recorded
        timeline = member.storage.timeline
        self._reads = [Use(timeline, region, writes=False) for region in member.reads]
        self._writes = [
            (Use(timeline, region, writes=True), sources) for region, sources in member.writes
        ]

    def mark_dirty(self) -> None:
        """Make the next replay look at this timeline."""
        self.graph.dirty.add(self.index)
        self.graph.calm = None

    def held_against(self, region: Region, *, writes: bool) -> Conflict | None:
        """The claim of a built replay that conflicts with another use."""
        if not self.graph.holders:
            return None
        claim = self.member.conflicts(region, writes=writes)
        return None if claim is None else Conflict(self.graph.holders[0], "", claim.writes)

    def catch_up(self, timeline: Timeline) -> None:
        """Record the last replay as uses, if the timeline has not seen it.

        Unseen stamps that have an order are on one stream, so that counts tell it: a replay makes
        the timeline catch up with conflicting graphs before it leaves its own stamp elsewhere.
        """
        stamp = self.graph.stamp
        if stamp is None or stamp is self.seen:
            return
        before, self.seen = self.seen, stamp
        stamp.is_seen = True
        try:
            for use in self._reads:
                timeline.put(use, stamp.stream, stamp.count, None)
            for use, sources in self._writes:
                timeline.put(use, stamp.stream, stamp.count, stamp.outcome(sources))
        except BaseException:  # of a signal handler
            self.seen = before
            raise


class GraphAccess:
    """The timelines of one graph."""

    __slots__ = (
        "_carried", "_doubtful", "calm", "conflicting", "dirty", "holders", "is_closed",
        "is_simple", "overtaken", "stamp", "timelines",
    )  # fmt: skip

    def __init__(self, members: tuple[Member, ...], *, is_simple: bool = False) -> None:
        self.is_closed = False  # to replays, while the graph is changed
        self.is_simple = is_simple  # no replay can fail, or has another library to tell
        self.holders: list[Holder] = []  # built replays
        self.stamp: Stamp | None = None
        # The stream where another replay may follow at once, if no conflicting graph has a built
        # replay: since the last one there only conflicting replays there, which cannot fail.
        self.calm: Stream | None = None
        self.dirty: set[int] = set(range(len(members)))
        self.timelines = tuple(
            TimelineAccess(self, index, one) for index, one in enumerate(members)
        )
        self._doubtful: set[int] = set()  # timelines whose contents the last replay had to trust
        self._carried = {one.index for one in self.timelines if one.member.is_carried}
        # Graphs with which this one conflicts, and the timelines on which it does.
        self.conflicting: dict[GraphAccess, set[int]] = {}
        self.overtaken: set[GraphAccess] = set()  # conflicting graphs replayed since our replay
        try:
            for access in self.timelines:
                self._join(access)
        except BaseException:
            insist(self.dissolve)
            raise

    def _join(self, access: TimelineAccess) -> None:
        timeline = access.member.storage.timeline
        for other in timeline.graphs:
            if any(other.member.conflicts(r, writes=w) for r, w in access.member.claims):
                self.conflicting.setdefault(other.graph, set()).add(access.index)
                other.graph.conflicting.setdefault(self, set()).add(other.index)
                other.graph.calm = None
        timeline.join_graph(access)

    def close(self, holder: Holder) -> None:
        """Refuse replays, while the graph is changed."""
        self.holders.append(holder)
        self.is_closed = True
        self.calm = None

    def reopen(self, holder: Holder) -> None:
        """Let the graph be replayed again: it has not been changed."""
        if holder in self.holders:
            self.holders.remove(holder)
        self.is_closed = False

    def dissolve(self) -> None:
        """Leave every timeline, with all stamps recorded."""
        for access in self.timelines:
            access.member.storage.timeline.leave_graph(access)
        for other in tuple(self.conflicting):
            other.forget(self)
            self.conflicting.pop(other, None)
        self.timelines = ()  # which refer to this access, and keep their storages

    def forget(self, other: GraphAccess) -> None:
        """Drop a conflicting graph that is gone: its stamps are uses of the timelines now."""
        self.dirty |= self.conflicting.get(other, set())
        self.overtaken.discard(other)
        self.calm = None
        self.conflicting.pop(other, None)  # last, if this breaks off in between

    @property
    def writes(self) -> bool:
        """Whether a replay writes anything, so that it conflicts with another."""
        return any(access.member.writes for access in self.timelines)

    def first_conflict(self) -> Holder | None:
        """A built replay, of this graph or of another, that conflicts with one of this graph."""
        if self.holders and (self.writes or self.is_closed):
            return self.holders[0]
        return next((one.holders[0] for one in self.conflicting if one.holders), None)

    def due(self, stream: Stream | None = None) -> tuple[TimelineAccess, ...]:
        """The timelines to look at before a replay on a stream, or on whichever it will be.

        Those are the dirty ones. On the stream of a conflicting replay that cannot fail there is
        nothing to look at: it comes before this one. Away from the stream of the last replay,
        conflicting replays that were only known to be there have to be seen.
        """
        for other in tuple(self.overtaken):
            stamp = other.stamp
            if stamp is None or stamp.is_doubtful or stream not in (None, stamp.stream):
                self.dirty |= self.conflicting[other]
        if self.stamp is not None and stream not in (None, self.stamp.stream):
            self.dirty.update(*self.conflicting.values())
        return tuple(self.timelines[index] for index in sorted(self.dirty))

    def order(self, stream: Stream) -> dict[int, list[Outcome]]:
        """Put a replay behind all it conflicts with; gives unsettled outcomes of its inputs."""
        if self.stamp is not None:
            stream.wait_for(self.stamp.stream, self.stamp.count)
        upstream: dict[int, list[Outcome]] = {}
        self._doubtful = set()
        for access in self.due(stream):
            timeline = access.member.storage.timeline
            for region, writes in access.member.claims:
                timeline.order(stream, region, writes=writes)
            for region, source, hidden in access.member.inputs:
                found = timeline.upstream(region, hidden)
                if found:
                    upstream.setdefault(source, []).extend(found)
                    self._doubtful.add(access.index)
        return upstream

    def leave(self, stamp: Stamp) -> None:
        """Stamp a submitted replay, in place of a use of each timeline."""
        self.stamp = stamp
        self.overtaken.clear()
        # A failure concerns the next replay though these may not become dirty before it: inputs
        # that are not known to be good yet, and what it reads that this one wrote.
        self.dirty = self._doubtful | self._carried if stamp.is_doubtful else set()
        calm = None if stamp.is_doubtful or not stamp.stream.is_plain else stamp.stream
        self.calm = calm if self.is_simple else None
        self.overtake(calm)

    def overtake(self, calm: Stream | None) -> None:
        """Tell conflicting graphs of a replay, and of the stream where it is no reason to look."""
        for other in tuple(self.conflicting):
            other.overtaken.add(self)
            if other.calm is not calm:
                other.calm = None

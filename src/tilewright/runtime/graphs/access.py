"""Graph access: all timelines of one graph, held and stamped together, so a replay costs O(1).

A built replay holds the access instead of borrows; a submitted one leaves a single stamp. A
timeline records the stamps of its graphs as uses before it answers the next question, so it knows
the same uses as if each node had been an operation. Conversely, each borrow and each use of a
timeline marks it *dirty* in its graphs, and a replay checks dirty timelines only: a borrow that
conflicts with a graph blocks its replays, so a clean timeline has no conflict.

A timeline that launches use between replays, all on one stream, becomes *direct*: it has that sole
stream while no replay is built, so launches need no check and mark nothing. A replay on the same
stream follows them; before any other one the direct timelines are dirty. Every change happens under
the device's lock, in a critical section.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.runtime.memory.regions import Region
from tilewright.runtime.order.critical import insist
from tilewright.runtime.order.failure import Outcome
from tilewright.runtime.order.timeline import Conflict, Timeline, Use

if TYPE_CHECKING:
    from tilewright.runtime.devices.stream import Stream
    from tilewright.runtime.graphs.plan import GraphMember, Sources
    from tilewright.runtime.order.borrow import Holder

__all__ = ["GraphAccess", "ReplayStamp", "TimelineAccess"]


# Replays after which a graph has no direct timelines: those that are still used come back.
_DIRECT_FOR = 32


class ReplayStamp:
    """A submitted replay: the point where it ends, and the outcomes that its results depend on.

    Until a timeline has recorded the stamp, later replays may reuse it: its count advances.
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
        self._sources = sources  # by the bit of the source
        self._refused = refused  # the launch itself failed
        self._outcomes: dict[Sources, Outcome | None] = {}
        # Whether the failure of a source may reach a result.
        self.is_doubtful = refused is not None or bool(sources)
        self.is_seen = False  # a timeline has recorded it

    def outcome(self, sources: Sources) -> Outcome | None:
        """The outcome of contents that depend on these sources."""
        if self._refused is not None:
            return self._refused
        if sources not in self._outcomes:
            reaching = [
                outcome
                for bit, outcomes in self._sources.items()
                if sources & bit
                for outcome in outcomes
                if not outcome.settled or outcome.error is not None
            ]
            made = Outcome(self.stream, self.count, None, reaching) if reaching else None
            self._outcomes[sources] = made
        return self._outcomes[sources]


class TimelineAccess:
    """The part of a graph's access for one timeline."""

    __slots__ = ("_reads", "_writes", "graph", "index", "member", "seen")

    def __init__(self, graph: GraphAccess, index: int, member: GraphMember) -> None:
        self.graph = graph
        self.index = index
        self.member = member
        self.seen: ReplayStamp | None = None  # the last stamp recorded in the timeline
        timeline = member.storage.timeline
        self._reads = [Use(timeline, region, writes=False) for region in member.reads]
        self._writes = [
            (Use(timeline, region, writes=True), sources) for region, sources in member.writes
        ]

    @property
    def timeline(self) -> Timeline:
        """The timeline."""
        return self.member.storage.timeline

    def mark_dirty(self) -> None:
        """Mark the timeline dirty: the next replay checks it."""
        self.graph.dirty.add(self.index)
        self.graph.quick_stream = None

    @property
    def may_miss_uses(self) -> bool:
        """Whether no replay is built, and the next one checks the timeline."""
        return self.index in self.graph.dirty and not self.graph.holders

    def end_direct(self) -> None:
        """Mark the timeline dirty if it is direct."""
        if self.timeline in self.graph.direct:
            self.mark_dirty()
            self.graph.direct.discard(self.timeline)

    def held_against(self, region: Region, *, writes: bool) -> Conflict | None:
        """The claim of a built replay that conflicts with a use."""
        if not self.graph.holders:
            return None
        claim = self.member.conflicts(region, writes=writes)
        return None if claim is None else Conflict(self.graph.holders[0], "", claim.writes)

    def catch_up(self, timeline: Timeline) -> None:
        """Record the last replay as uses, if the timeline has not recorded it yet.

        Unrecorded stamps that conflict are on one stream, so their counts order them: before a
        replay leaves its stamp on another stream, the timeline catches up with conflicting graphs.
        """
        stamp = self.graph.stamp
        if stamp is None or stamp is self.seen:
            return
        stamp.is_seen = True
        for use in self._reads:
            timeline.put(use, stamp.stream, stamp.count, None)
        for use, sources in self._writes:
            timeline.put(use, stamp.stream, stamp.count, stamp.outcome(sources))
        self.seen = stamp  # last: after an exception of a signal handler the uses are put again


class GraphAccess:
    """The timelines of one graph."""

    __slots__ = (
        "_carried", "_checked", "_direct_for", "_doubtful", "conflicting", "direct", "dirty",
        "holders", "is_simple", "overtaken", "quick_stream", "stamp", "timelines",
    )  # fmt: skip

    def __init__(self, members: tuple[GraphMember, ...], *, is_simple: bool = False) -> None:
        self.is_simple = is_simple  # no replay can fail, and no other library is notified
        self.holders: list[Holder] = []  # built replays
        self.stamp: ReplayStamp | None = None
        # The stream on which a replay may follow without checks, if no conflicting graph has a
        # built replay. Since the last replay, only conflicting replays that cannot fail ran, all on
        # this stream.
        self.quick_stream: Stream | None = None
        self.dirty: set[int] = set(range(len(members)))
        self.direct: set[Timeline] = set()  # their sole stream is `quick_stream`, or was
        self._direct_for = 0  # replays since they became direct
        self._checked: tuple[TimelineAccess, ...] = ()  # by the last replay
        self.timelines = tuple(
            TimelineAccess(self, index, one) for index, one in enumerate(members)
        )
        self._doubtful: set[int] = set()  # timelines with unsettled inputs of the last replay
        self._carried = {one.index for one in self.timelines if one.member.is_carried}
        # Conflicting graphs, with the timelines that conflict.
        self.conflicting: dict[GraphAccess, set[int]] = {}
        # Conflicting graphs that were replayed since this one was.
        self.overtaken: set[GraphAccess] = set()
        try:
            for access in self.timelines:
                self._join(access)
        except BaseException:
            insist(self.dissolve)
            raise

    def _join(self, access: TimelineAccess) -> None:
        timeline = access.timeline
        for other in timeline.graphs:
            if any(other.member.conflicts(r, writes=w) for r, w in access.member.claims):
                self.conflicting.setdefault(other.graph, set()).add(access.index)
                other.graph.conflicting.setdefault(self, set()).add(other.index)
                other.graph.quick_stream = None
        timeline.join_graph(access)

    def dissolve(self) -> None:
        """Leave every timeline, after its stamps are recorded there."""
        for access in self.timelines:
            access.timeline.leave_graph(access)
        for other in tuple(self.conflicting):
            other.forget(self)
            self.conflicting.pop(other, None)
        self.direct.clear()
        # These refer back to this access, and keep their storages.
        self.timelines, self._checked = (), ()

    def forget(self, other: GraphAccess) -> None:
        """Remove a conflicting graph that is gone: its stamps are recorded in the timelines."""
        self.dirty |= self.conflicting.get(other, set())
        self.overtaken.discard(other)
        self.quick_stream = None
        self.conflicting.pop(other, None)  # last, so that an interrupted call can be repeated

    @property
    def writes(self) -> bool:
        """Whether a replay writes any region, so that two replays conflict."""
        return any(access.member.writes for access in self.timelines)

    def first_conflict(self) -> Holder | None:
        """A built replay, of this or of a conflicting graph, that blocks a replay of this one."""
        if self.holders and self.writes:
            return self.holders[0]
        return next((one.holders[0] for one in self.conflicting if one.holders), None)

    def pause_direct(self) -> bool:
        """Have launches on direct timelines report again; False if one of these is held."""
        for timeline in self.direct:
            if timeline.held is not None:
                return False
            timeline.stream = None
        return True

    def release(self, holder: Holder) -> None:
        """Take a built replay off; without any, direct timelines have their sole stream again."""
        if holder in self.holders:
            self.holders.remove(holder)
        if self.direct and self.quick_stream is not None and not self.holders:
            for timeline in self.direct:
                timeline.stream = self.quick_stream

    def due(self, stream: Stream | None = None) -> tuple[TimelineAccess, ...]:
        """The timelines to check before a replay on a stream; None is a stream chosen later.

        Dirty timelines are due, and direct ones, which are so no longer. A conflicting replay on
        the same stream that cannot fail needs no check, since the stream orders it before this one.
        A replay on another stream than the last one also checks the timelines of conflicting
        graphs, whose replays only that stream ordered.
        """
        for timeline in tuple(self.direct):
            timeline.end_direct()
        for other in tuple(self.overtaken):
            stamp = other.stamp
            if stamp is None or stamp.is_doubtful or stream not in (None, stamp.stream):
                self.dirty |= self.conflicting[other]
        if self.stamp is not None and stream not in (None, self.stamp.stream):
            self.dirty.update(*self.conflicting.values())
        found = tuple(self.timelines[index] for index in sorted(self.dirty))
        for access in found:
            access.timeline.end_direct()  # of other graphs
        return found

    def order(self, stream: Stream) -> dict[int, list[Outcome]]:
        """Order a replay behind all conflicting uses; gives unsettled outcomes of its inputs."""
        if self.stamp is not None:
            stream.wait_for(self.stamp.stream, self.stamp.count)
        upstream: dict[int, list[Outcome]] = {}
        self._doubtful = set()
        self._checked = self.due(stream)
        for access in self._checked:
            timeline = access.timeline
            for region, writes in access.member.claims:
                timeline.order(stream, region, writes=writes)
            for region, source, hidden in access.member.inputs:
                found = timeline.upstream(region, hidden)
                if found:
                    upstream.setdefault(source, []).extend(found)
                    self._doubtful.add(access.index)
        return upstream

    def leave(self, stamp: ReplayStamp) -> None:
        """Leave the stamp of a submitted replay, in place of a use in each timeline."""
        is_first, self.stamp = self.stamp is None, stamp
        self.overtaken.clear()
        # A failure reaches the next replay even if these timelines do not become dirty: inputs with
        # unsettled outcomes, and regions that a replay reads and the one before it wrote.
        self.dirty = self._doubtful | self._carried if stamp.is_doubtful else set()
        quick = None if stamp.is_doubtful or not stamp.stream.is_plain else stamp.stream
        self.quick_stream = quick if self.is_simple else None
        self.overtake(quick)
        if self.quick_stream is not None and not is_first:  # the first replay checks all timelines
            self._find_direct(self.quick_stream)

    def leave_again(self, stream: Stream, count: int) -> None:
        """Leave the stamp of a replay on the quick stream."""
        stamp = self.stamp
        if stamp is None or stamp.is_seen or stamp.stream is not stream:
            self.stamp = ReplayStamp(stream, count, {})
        else:
            stamp.count = count
        if self.conflicting:
            self.overtake(stream)
        if self.direct:
            self._direct_for += 1
            if self._direct_for == _DIRECT_FOR:
                self.direct.clear()  # clean: this replay is ordered behind their uses

    def _find_direct(self, stream: Stream) -> None:
        """Make timelines direct that launches have used on a stream since the last replay."""
        self._direct_for = 0
        for access in self._checked:
            timeline = access.timeline
            is_free = all(other is access or other.may_miss_uses for other in timeline.graphs)
            if is_free and timeline.is_sole(stream):
                self.direct.add(timeline)

    def overtake(self, quick: Stream | None) -> None:
        """Tell conflicting graphs of a replay; on the quick stream they need no check after it."""
        for other in tuple(self.conflicting):
            other.overtaken.add(self)
            if other.quick_stream is not quick:
                other.quick_stream = None

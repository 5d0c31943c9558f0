"""Leases: the storages of one graph as one thing, so that a replay costs the same for any number.

A built replay holds the lease and no borrows of its own; a submitted one leaves a single stamp. A
storage takes the stamps of its leases over as fences when somebody next asks it for something, so
it knows all that it would know if each node had been an operation. In the other direction, whoever
writes a borrow down on a storage makes it *touched* in its leases, and a replay looks at touched
storages only: no replay is submitted as long as a borrow conflicts with it, so none is overlooked.

Launches at home write nothing down. So a lease knows which of its storages may have a home: that is
the stream of its last replay, or else they are touched. A replay there comes behind them as it is,
and one elsewhere looks at them and takes the home away. One that is built is told of, as launches
at home are, when somebody else builds something. Everything here happens under the device's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tilewright.runtime.memory.regions import Region
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.failure import Fence, Outcome
from tilewright.runtime.order.insisting import insist

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device
    from tilewright.runtime.devices.stream import Stream
    from tilewright.runtime.graphs.plan import Claim as Right
    from tilewright.runtime.graphs.plan import Member, Sources
    from tilewright.runtime.order.borrows import Holder

__all__ = ["Claim", "Lease", "Leased", "Share", "Stamp", "catch_up"]

# What stands for a built replay where the device knows the operation built last.
Claim: TypeAlias = "tuple[Lease, Device]"


class Leased(Protocol):
    """What a lease needs of a storage to hand fences over."""

    def take_read(self, region: Region, fence: Fence) -> None:
        """Take the fence of a submitted reader."""

    def take_write(self, region: Region, fence: Fence) -> None:
        """Take the fence of a submitted writer."""


class Stamp:
    """A submitted replay: where it ends, and what may make its results doubtful.

    As long as nobody has seen it, it may stand for later replays as well: its count is moved on.
    """

    __slots__ = (
        "_fences", "_refused", "_sources", "count", "is_doubtful", "is_seen", "stream",
    )  # fmt: skip

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
        self._fences: dict[Sources, Fence] = {}
        # Whether anything that it leaves behind may have failed.
        self.is_doubtful = refused is not None or bool(sources)
        self.is_seen = False  # a storage has made fences of it

    def fence(self, sources: Sources) -> Fence:
        """The fence for contents that come from some sources."""
        found = self._fences.get(sources)
        if found is None:
            found = Fence(self.stream, self.count, self._outcome(sources))
            self._fences[sources] = found
        return found

    def _outcome(self, sources: Sources) -> Outcome | None:
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


class Share:
    """One storage's part in a lease."""

    __slots__ = ("index", "lease", "member", "seen")

    def __init__(self, lease: Lease, index: int, member: Member) -> None:
        self.lease = lease
        self.index = index
        self.member = member
        self.seen: Stamp | None = None  # the last stamp that the storage has taken over

    def touch(self) -> None:
        """Make the next replay look at this storage."""
        self.lease.touched.add(self.index)
        self.lease.calm = None

    def expect_home(self, stream: Stream) -> None:
        """Make replays know that the storage may get a stream as its home, before it does.

        From then on launches there tell nobody. A replay elsewhere looks at the storage.
        """
        lease = self.lease
        if lease.is_simple:
            lease.at_home.add(self.index)
            if lease.stamp is None or lease.stamp.stream is not stream:
                self.touch()

    @property
    def is_known(self) -> bool:
        """Whether the storage knows all replays, of which none is built and none can fail."""
        lease = self.lease
        is_seen = lease.stamp is None or lease.stamp is self.seen
        return is_seen and lease.is_simple and not lease.holders

    def held_against(self, region: Region, *, writes: bool) -> tuple[Right, Holder] | None:
        """The claim of a built replay that stands against another use."""
        if not self.lease.holders:
            return None
        claim = self.member.conflicts(region, writes=writes)
        return None if claim is None else (claim, self.lease.holders[0])


def catch_up(storage: Leased, shares: Iterable[Share]) -> None:
    """Turn the stamps that a storage has not seen into fences of its own.

    Whatever has an order and is not seen yet is on one stream, so that counts tell it: a replay
    makes the storage catch up with its rivals' before it leaves its own elsewhere.
    """
    for share in shares:
        stamp = share.lease.stamp
        if stamp is None or stamp is share.seen:
            continue
        before, share.seen = share.seen, stamp
        stamp.is_seen = True
        try:
            reader = Fence(stamp.stream, stamp.count, None)
            for region in share.member.reads:
                storage.take_read(region, reader)
            for region, sources in share.member.writes:
                storage.take_write(region, stamp.fence(sources))
        except BaseException:  # of a signal handler
            share.seen = before
            raise


class Lease:
    """The storages of one graph."""

    __slots__ = (
        "_carried", "_doubtful", "at_home", "calm", "holders", "is_closed", "is_simple",
        "overtaken", "rivals", "shares", "stamp", "touched",
    )  # fmt: skip

    def __init__(self, members: tuple[Member, ...], *, is_simple: bool = False) -> None:
        self.is_closed = False  # to replays: whoever holds it changes the graph
        self.is_simple = is_simple  # no replay can fail, or has others to tell
        self.holders: list[Holder] = []  # built replays
        self.stamp: Stamp | None = None
        # Where another replay may follow at once, if no rival has one that is built: since the last
        # one there nothing has happened but launches at home there, and replays of rivals there
        # that leave no doubts.
        self.calm: Stream | None = None
        self.touched: set[int] = set(range(len(members)))
        # Storages that may have a home: that of the last replay, or else they are touched.
        self.at_home: set[int] = set()
        self.shares = tuple(Share(self, index, one) for index, one in enumerate(members))
        self._doubtful: set[int] = set()  # storages whose contents the last replay had to trust
        self._carried = {share.index for share in self.shares if share.member.is_carried}
        self.rivals: dict[Lease, set[int]] = {}  # our storages on which we conflict with them
        self.overtaken: set[Lease] = set()  # rivals replayed since our last replay
        try:
            for share in self.shares:
                self._join(share)
        except BaseException:
            insist(self.dissolve)
            raise

    def _join(self, share: Share) -> None:
        storage = share.member.storage
        for other in storage.shares:
            if any(other.member.conflicts(r, writes=w) for r, w in share.member.claims):
                self.rivals.setdefault(other.lease, set()).add(share.index)
                other.lease.rivals.setdefault(self, set()).add(other.index)
                other.lease.calm = None
        storage.join_lease(share)

    def close(self, holder: Holder) -> None:
        """Let nobody replay the graph any more, whatever a finaliser would like to do."""
        self.holders.append(holder)
        self.is_closed = True
        self.calm = None

    def reopen(self, holder: Holder) -> None:
        """Let the graph be replayed again: it has not been changed."""
        if holder in self.holders:
            self.holders.remove(holder)
        self.is_closed = False

    def dissolve(self) -> None:
        """Leave every storage, with all fences handed over."""
        for share in self.shares:
            share.member.storage.leave_lease(share)
        self.at_home.clear()
        for rival in tuple(self.rivals):
            rival.forget(self)
            self.rivals.pop(rival, None)
        self.shares = ()  # which refer to this lease, and keep their storages

    def forget(self, rival: Lease) -> None:
        """Know no more of a rival that is gone: its fences are those of the storages now."""
        self.touched |= self.rivals.get(rival, set())
        self.overtaken.discard(rival)
        self.calm = None
        self.rivals.pop(rival, None)  # last, if this breaks off in between

    @property
    def writes(self) -> bool:
        """Whether a replay writes anything, so that it conflicts with another."""
        return any(share.member.writes for share in self.shares)

    def first_rival(self) -> Holder | None:
        """A built replay, of this graph or of another, that conflicts with one of this graph."""
        if self.holders and (self.writes or self.is_closed):
            return self.holders[0]
        # A finaliser may settle a graph that is gone, and it is nobody's rival any more.
        return next((one.holders[0] for one in tuple(self.rivals) if one.holders), None)

    def due(self, stream: Stream | None = None) -> tuple[Share, ...]:
        """The storages to look at before a replay on a stream, or on whichever it will be.

        Somebody has used them since the last one. On the stream of a rival's replay that leaves no
        doubts there is nothing to look at: it comes before this one as it is. Away from the last
        one's stream, whatever else was only known to be on that has to be seen.
        """
        for rival in tuple(self.overtaken):
            stamp = rival.stamp
            if stamp is None or stamp.is_doubtful or stream not in (None, stamp.stream):
                self.touched |= self.rivals[rival]
        if self.stamp is not None and stream not in (None, self.stamp.stream):
            self.touched.update(self.at_home, *self.rivals.values())
        return tuple(self.shares[index] for index in sorted(self.touched))

    def order(self, stream: Stream) -> dict[int, list[Outcome]]:
        """Put a replay behind all it conflicts with; gives what may make its inputs doubtful."""
        if self.stamp is not None:
            stream.wait_for(self.stamp.stream, self.stamp.count)
        doubts: dict[int, list[Outcome]] = {}
        self._doubtful = set()
        for share in self.due(stream):
            storage = share.member.storage
            for region, writes in share.member.claims:
                storage.order(stream, region, writes=writes)
            for region, source, hidden in share.member.inputs:
                found = storage.doubts(region, hidden)
                if found:
                    doubts.setdefault(source, []).extend(found)
                    self._doubtful.add(share.index)
            if share.index in self.at_home and storage.home is not stream:
                storage.leave_home()
                self.at_home.discard(share.index)  # last, if this breaks off in between
        return doubts

    def tell(self, claim: Claim) -> None:
        """Let everybody see that a replay is built: launches at home look for nothing but borrows.

        Until then its claim stays where it is.
        """
        device = claim[1]
        alone(device, self._leave_homes)
        if device.latest is claim:
            device.latest = None

    def _leave_homes(self) -> None:
        self.touched |= self.at_home
        self.calm = None
        for index in tuple(self.at_home):
            self.shares[index].member.storage.leave_home()
            self.at_home.discard(index)  # last, if this breaks off in between

    def leave(self, stamp: Stamp) -> None:
        """Stamp a submitted replay, in place of a fence on each storage."""
        self.stamp = stamp
        self.overtaken.clear()
        # Nobody may touch these before the next replay, and still a failure concerns it: inputs
        # that are not known to be good yet, and what it reads that this one wrote.
        self.touched = self._doubtful | self._carried if stamp.is_doubtful else set()
        calm = None if stamp.is_doubtful or not stamp.stream.is_plain else stamp.stream
        self.calm = calm if self.is_simple else None
        if stamp.is_doubtful:
            self._leave_homes()
        self.overtake(calm)

    def overtake(self, calm: Stream | None) -> None:
        """Let rivals know of a replay, and of the stream where it is no reason to look."""
        for rival in tuple(self.rivals):
            rival.overtaken.add(self)
            if rival.calm is not calm:
                rival.calm = None

"""The plan of a graph: the edges between its nodes, and the effect of a replay on each storage.

An edge stands for a conflict (two nodes use one region, and one of them writes it), so independent
nodes may overlap; edges that others imply are left out. For each storage the plan also has the
effect of a whole replay: the regions read before they are written, the regions left written, and
the sources whose failure reaches them. The plan is pure: it depends on regions, not on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from tilewright.runtime.graphs.recording import RecordedUse
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.storage import Storage

__all__ = ["Claim", "GraphMember", "GraphPlan", "Input", "Sources", "make_plan"]

# Set of nodes and inputs whose failure may reach some contents, as bits: nodes first, then inputs.
Sources = int


class Claim(NamedTuple):
    """A region that a replay uses, and whether it is written."""

    region: Region
    writes: bool


class Input(NamedTuple):
    """A region that a replay reads before the graph has written all of it."""

    region: Region
    source: Sources
    hidden: tuple[Region, ...]  # regions written before that read


@dataclass(frozen=True, slots=True, eq=False)
class GraphMember:
    """The effect of one replay on one timeline, named by one of its storages."""

    storage: Storage
    claims: tuple[Claim, ...]
    inputs: tuple[Input, ...]
    reads: tuple[Region, ...]  # not overwritten later in the graph
    writes: tuple[tuple[Region, Sources], ...]

    @property
    def is_carried(self) -> bool:
        """Whether a replay reads a region that the replay before it wrote."""
        return any(one.region.overlaps(used) for one in self.inputs for used, _ in self.writes)

    def conflicts(self, region: Region, *, writes: bool) -> Claim | None:
        """The claim that conflicts with a use of a region."""
        for claim in self.claims:
            if (writes or claim.writes) and claim.region.overlaps(region):
                return claim
        return None


@dataclass(frozen=True, slots=True, eq=False)
class GraphPlan:
    """The edges of a graph, and its timelines."""

    after: tuple[tuple[int, ...], ...]  # for each node, the nodes before it
    members: tuple[GraphMember, ...]


class _Track:
    """The uses of one timeline so far, with nodes added in the order of recording."""

    def __init__(self, storage: Storage, bits: count[int]) -> None:
        self._storage = storage
        self._bits = bits
        self._claims: list[Claim] = []
        self._inputs: list[Input] = []
        self._writers: list[tuple[Region, int, Sources]] = []
        self._readers: list[tuple[Region, int]] = []

    def before(self, use: RecordedUse) -> set[int]:
        """The nodes that conflict with a use."""
        found = {node for used, node, _ in self._writers if used.overlaps(use.region)}
        if use.mode.writes:
            found |= {node for used, node in self._readers if used.overlaps(use.region)}
        return found

    def sources(self, use: RecordedUse) -> Sources:
        """The sources whose failure reaches the contents that a use reads."""
        if not use.mode.reads:
            return 0
        found, whole = 0, False
        for used, _, sources in self._writers:
            if used.overlaps(use.region):
                found |= sources
                whole = whole or used.covers(use.region)
        return found if whole else found | self._input(use.region)

    def _input(self, region: Region) -> Sources:
        hidden = tuple(written for written, _, _ in self._writers)
        for known in self._inputs:
            if known.region == region and known.hidden == hidden:
                return known.source
        made = Input(region, 1 << next(self._bits), hidden)
        self._inputs.append(made)
        return made.source

    def add(self, use: RecordedUse, node: int, sources: Sources) -> None:
        """Add a use; a write hides earlier uses whose regions it covers."""
        region, writes = use.region, use.mode.writes
        self._claims.append(Claim(region, writes))
        if writes:
            self._readers = [entry for entry in self._readers if not region.covers(entry[0])]
            self._writers = [entry for entry in self._writers if not region.covers(entry[0])]
            self._writers.append((region, node, sources))
        else:
            self._readers.append((region, node))

    def member(self) -> GraphMember:
        """The effect of a replay on the storage."""
        return GraphMember(
            self._storage,
            _widest(self._claims),
            tuple(self._inputs),
            tuple(claim.region for claim in _widest([Claim(r, False) for r, _ in self._readers])),
            tuple((region, sources) for region, _, sources in self._writers),
        )


def make_plan(nodes: Sequence[tuple[RecordedUse, ...]], can_fail: Sequence[bool]) -> GraphPlan:
    """Order the nodes of a graph, given the uses of each and whether it can fail by itself."""
    bits = count(len(nodes))
    tracks: dict[int, _Track] = {}  # by timeline: storages that share memory have one
    after: list[tuple[int, ...]] = []
    ancestors: list[int] = []  # of each node, as bits
    for number, uses in enumerate(nodes):
        used = [(use, _track(use.storage, tracks, bits)) for use in uses]
        before: set[int] = set()
        sources = 1 << number if can_fail[number] else 0
        for use, track in used:
            before |= track.before(use)
            sources |= track.sources(use)
        for use, track in used:
            track.add(use, number, sources)
        implied = 0
        for node in before:
            implied |= ancestors[node]
        after.append(tuple(sorted(node for node in before if not implied >> node & 1)))
        for node in before:
            implied |= 1 << node
        ancestors.append(implied)
    return GraphPlan(tuple(after), tuple(track.member() for track in tracks.values()))


def _track(storage: Storage, tracks: dict[int, _Track], bits: count[int]) -> _Track:
    found = tracks.get(id(storage.timeline))
    if found is None:
        found = tracks[id(storage.timeline)] = _Track(storage, bits)
    return found


def _widest(claims: list[Claim]) -> tuple[Claim, ...]:
    """The claims that no other claim covers."""
    kept: list[Claim] = []
    for claim in sorted(claims, key=lambda one: not one.writes):
        if not any(other.region.covers(claim.region) for other in kept):
            kept.append(claim)
    return tuple(kept)

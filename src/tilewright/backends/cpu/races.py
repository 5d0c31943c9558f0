"""Detects races: unordered accesses of one element, at least one plain and at least one a write.

A watched program records every access while it runs; `find_race` analyses the records afterwards,
so the schedule of blocks does not matter. Blocks of one launch are unordered, except for releases
that another block acquires. Within a block only tokens order accesses, regardless of program order.
Atomics are ordered among themselves.

Memory that is never written has no races. Where all accesses of a memory are tiles of one
partition, two overlap only if they have the same index; all other accesses are compared as
intervals of addresses, in bulk.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tilewright.backends.cpu.accesses import (
    Event,
    Spans,
    element_at,
    layout,
    meet,
    stretches,
)
from tilewright.backends.cpu.faults import AccessMode, FaultSite
from tilewright.backends.cpu.frontiers import CONFLICTS, Frontier
from tilewright.backends.cpu.memory import AddressSpace
from tilewright.backends.cpu.synchronisation import BlockId, Synchronisation
from tilewright.backends.cpu.views import IndexedView, TiledView, is_injective

__all__ = ["Race", "Record", "find_race"]

Array = np.ndarray[Any, Any]
Record = tuple[BlockId, list[Any]]  # the accesses of one block: tuples of the parts of `Event`


class Noted(NamedTuple):
    """One access, and its index in its block; hot loops use plain tuples of these fields."""

    block: BlockId
    number: int
    event: Event


@dataclass(frozen=True)
class Race:
    """Two unordered accesses of one element; the first one writes."""

    writer: Noted
    other: Noted
    address: int

    def describe(self, kernel: str, sites: Sequence[FaultSite]) -> str:
        """Describe both accesses to a reader of the kernel."""
        writer, other = sites[self.writer.event.site], sites[self.other.event.site]
        if self.writer.block == self.other.block:
            return (
                f"race in kernel `{kernel}`, inside block {self.writer.block}: {writer} "
                f"{_VERBS[writer.access]} {self._element()}, and {other} {_VERBS[other.access]} "
                "it, and no token orders the two"
            )
        too = " too" if other.outward is writer.outward else ""
        return (
            f"race in kernel `{kernel}`: block {self.writer.block} {_VERBS[writer.outward]} "
            f"{self._element()} ({writer}), and block {self.other.block} "
            f"{_VERBS[other.outward]} it{too} ({other})"
        )

    def _element(self) -> str:
        for noted in (self.writer, self.other):
            known = element_at(noted.event.where, noted.event.at, self.address)
            if known:
                return known
        return f"the element at {self.address:#x}"


_VERBS = {
    AccessMode.READ: "reads",
    AccessMode.WRITE: "writes",
    AccessMode.ATOMIC_READ: "reads atomically",
    AccessMode.ATOMIC_WRITE: "updates atomically",
}


def find_race(
    records: Sequence[Record], sites: Sequence[FaultSite], space: AddressSpace
) -> Race | None:
    """Return the first race in the records of a run."""
    order = Synchronisation(records, sites)
    for group in _contended(sorted(records, key=_block_order), sites, _Regions(space)):
        search = _OnePartition if _is_one_partition(group) else _AnyShape
        race = search(sites, order).find(group)
        if race is not None:
            return race
    return None


def _block_order(record: Record) -> BlockId:
    return record[0][::-1]


def _contended(
    records: Sequence[Record], sites: Sequence[FaultSite], regions: _Regions
) -> Iterator[list[Any]]:
    """Return the accesses of each written region. The loops visit every access."""
    writes = [site.access.writes for site in sites]
    written: set[int] = set()
    for _, events in records:
        for event in events:
            if writes[event[0]]:
                written.update(regions.of(event[1]))
    groups: dict[int, list[Any]] = {region: [] for region in written}
    for block, events in records:
        for number, event in enumerate(events):
            for region in regions.of(event[1]):
                if region in groups:
                    groups[region].append((block, number, event))
    yield from groups.values()


class _Regions:
    """Indices of disjoint parts of memory; overlapping memories are one region."""

    def __init__(self, space: AddressSpace) -> None:
        starts, end = [], -1
        for memory in sorted(space.all_memories(), key=lambda memory: memory.address):
            if memory.address >= end:
                starts.append(memory.address)
            end = max(end, memory.end)
        self._starts = np.array(starts, np.int64)
        self._known: dict[int, tuple[int, ...]] = {}

    def of(self, where: TiledView | IndexedView | Spans) -> tuple[int, ...]:
        """Return the regions that an access touches: a view touches one."""
        known = self._known.get(id(where))
        if known is None:
            touched = where.starts if isinstance(where, Spans) else _base(where)
            found = np.unique(np.searchsorted(self._starts, touched, "right"))
            known = self._known[id(where)] = tuple(found.tolist())
        return known


def _base(view: TiledView | IndexedView) -> Array:
    origin = tuple(np.zeros(1, np.int64) for _ in view.tensor.shape)
    return view.tensor.addresses(origin).reshape(-1)


def _is_one_partition(group: Sequence[Any]) -> bool:
    """Whether all accesses are tiles of one partition, which are equal or disjoint."""
    partitions = set()
    for view in {id(event[1]): event[1] for _, _, event in group}.values():
        if not isinstance(view, TiledView) or not is_injective(view.array):
            return False
        if any(step < tile for step, tile in zip(view.steps, view.tile, strict=True)):
            return False
        partitions.add((*layout(view), view.dim_map, view.tile, view.steps))
    return len(partitions) == 1


def _named(noted: Any) -> Noted:
    block, number, event = noted
    return Noted(block, number, Event(*event))


def _raced(one: Noted, other: Noted, sites: Sequence[FaultSite], address: int) -> Race:
    swap = not sites[one.event.site].access.writes
    return Race(other, one, address) if swap else Race(one, other, address)


# --- tiles of one partition ------------------------------------------------------------------


class _Cell:
    """Accesses of one tile: those of the current block, and those of earlier blocks."""

    __slots__ = ("block", "others", "own", "shown")

    def __init__(self, block: BlockId) -> None:
        self.block = block
        self.own: dict[AccessMode, int] = {}  # its events, a bit each
        self.shown: dict[AccessMode, list[Any]] = {}  # compared with other blocks
        self.others: dict[AccessMode, list[Any]] = {}

    def add(self, noted: Any, site: FaultSite) -> None:
        """Add an access of the current block; for other blocks one of each kind is enough."""
        self.own[site.access] = self.own.get(site.access, 0) | 1 << noted[1]
        shown = self.shown.setdefault(site.outward, [])
        if not shown:
            shown.append(noted)

    def enter(self, block: BlockId) -> None:
        """Continue with the accesses of another block."""
        for kind, shown in self.shown.items():
            self.others.setdefault(kind, []).extend(shown)
        self.block, self.own, self.shown = block, {}, {}


class _OnePartition:
    """Accesses that overlap only at equal indices; blocks come in order."""

    def __init__(self, sites: Sequence[FaultSite], order: Synchronisation) -> None:
        self._sites = sites
        self._order = order

    def find(self, group: Sequence[Any]) -> Race | None:
        alone: dict[Any, Any] = {}  # the only access of a tile
        cells: dict[Any, _Cell] = {}  # of tiles with several accesses
        for noted in group:
            at = noted[2][2]
            first = alone.setdefault(at, noted)
            if first is noted:
                continue
            if at not in cells:
                cells[at] = _Cell(first[0])
                cells[at].add(first, self._sites[first[2][0]])
            race = self._raced(cells[at], noted, group)
            if race is not None:
                return race
        return self._between_blocks(group, cells) if self._order else None

    def _between_blocks(self, group: Sequence[Any], tiles: Container[Any]) -> Race | None:
        """Compare the accesses of some tiles in order, if blocks synchronise with each other."""
        frontiers: dict[Any, Frontier] = {}
        for noted in sorted(group, key=self._order.time):
            at = noted[2][2]
            if at in tiles:
                frontier = frontiers.get(at) or frontiers.setdefault(at, self._frontier())
                other = frontier.add(noted)
                if other is not None:
                    return self._told(other, noted)
        return None

    def _frontier(self) -> Frontier:
        return Frontier(self._sites, self._order)

    def _raced(self, cell: _Cell, noted: Any, group: Sequence[Any]) -> Race | None:
        site = self._sites[noted[2][0]]
        if cell.block != noted[0]:
            cell.enter(noted[0])
        other = self._unordered(cell, noted, site, group)
        if other is not None:
            return self._told(other, noted)
        cell.add(noted, site)
        return None

    def _told(self, other: Any, noted: Any) -> Race:
        named = _named(noted)
        start = int(stretches(named.event.where, named.event.at).starts[0])
        return _raced(_named(other), named, self._sites, start)

    def _unordered(self, cell: _Cell, noted: Any, site: FaultSite, group: Sequence[Any]) -> Any:
        """Return an earlier, unordered access of the tile that conflicts with this one, or None."""
        for kind in CONFLICTS[site.outward] if not self._order else ():
            for other in cell.others.get(kind, ()):
                return other
        for kind in CONFLICTS[site.access]:
            for number in _bits(cell.own.get(kind, 0) & ~noted[2][3]):
                return next(n for n in group if n[:2] == (noted[0], number))
        return None


def _bits(mask: int) -> Iterator[int]:
    """Iterate over the indices of the set bits, from the lowest."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


# --- accesses of any shape -------------------------------------------------------------------

# Patterns of a race on a part of memory: accesses of all kinds in the first tuple exist, and those
# of the kinds in the second come from more than one block.
_PATTERNS = (
    ((AccessMode.WRITE,), tuple(CONFLICTS)),
    ((AccessMode.ATOMIC_WRITE, AccessMode.READ), (AccessMode.ATOMIC_WRITE, AccessMode.READ)),
)


class _AnyShape:
    """Accesses as intervals of addresses."""

    def __init__(self, sites: Sequence[FaultSite], order: Synchronisation) -> None:
        self._sites = sites
        self._order = order

    def find(self, group: Sequence[Any]) -> Race | None:
        named = [_named(noted) for noted in group]
        return self._between_blocks(named) or self._within_blocks(named)

    def _between_blocks(self, group: Sequence[Noted]) -> Race | None:
        """Cut the addresses at the ends of intervals, and collect the accesses of each part."""
        cover = _Cover.of(group)
        kinds = [self._sites[noted.event.site].outward for noted in group]
        for present, involved in _PATTERNS:
            wrong = cover.several_blocks(np.array([kind in involved for kind in kinds]))
            for wanted in present:
                wrong = wrong & (cover.depth(np.array([kind is wanted for kind in kinds])) > 0)
            for part in np.flatnonzero(wrong):
                race = self._told(group, int(cover.cuts[part]))
                if race is not None:
                    return race
        return None

    def _told(self, group: Sequence[Noted], address: int) -> Race | None:
        """Return two conflicting accesses of different blocks at an address."""
        meeting = [noted for noted in group if _touches(noted.event, address)]
        if self._order:
            meeting.sort(key=self._order.time)
        frontier = Frontier(self._sites, self._order)
        for noted in meeting:
            other = frontier.add(noted)
            if other is not None:
                return _raced(other, noted, self._sites, address)
        return None

    def _within_blocks(self, group: Sequence[Noted]) -> Race | None:
        earlier: dict[int, Noted] = {}
        masks: dict[AccessMode, int] = {}
        block: BlockId | None = None
        for noted in group:
            if noted.block != block:
                block, earlier, masks = noted.block, {}, {}
            access = self._sites[noted.event.site].access
            for kind in CONFLICTS[access]:
                for number in _bits(masks.get(kind, 0) & ~noted.event.before):
                    address = meet(earlier[number].event, noted.event)
                    if address is not None:
                        return _raced(earlier[number], noted, self._sites, address)
            earlier[noted.number] = noted
            masks[access] = masks.get(access, 0) | 1 << noted.number
        return None


def _touches(event: Event, address: int) -> bool:
    starts, ends = stretches(event.where, event.at)
    at = int(np.searchsorted(starts, address, "right")) - 1
    return at >= 0 and bool(ends[at] > address)


@dataclass(frozen=True)
class _Cover:
    """Intervals of many accesses over the parts into which their ends cut the addresses."""

    cuts: Array  # start of each part
    first: Array  # first part of each interval
    end: Array  # part after the last one of each interval
    owner: Array  # access of each interval
    blocks: Array  # block of each access, as a number

    @staticmethod
    def of(group: Sequence[Noted]) -> _Cover:
        numbers = {block: i for i, block in enumerate(dict.fromkeys(n.block for n in group))}
        found = [stretches(noted.event.where, noted.event.at) for noted in group]
        starts = np.concatenate([spans.starts for spans in found])
        ends = np.concatenate([spans.ends for spans in found])
        cuts = np.unique(np.concatenate((starts, ends)))
        return _Cover(
            cuts,
            np.searchsorted(cuts, starts),
            np.searchsorted(cuts, ends),
            np.repeat(np.arange(len(group)), [spans.starts.size for spans in found]),
            np.array([numbers[noted.block] for noted in group], np.int64),
        )

    def depth(self, chosen: Array) -> Array:
        """Count the chosen accesses of each part."""
        return self._sum(chosen.astype(np.int64))

    def several_blocks(self, chosen: Array) -> Array:
        """Return the parts that accesses of more than one block touch.

        All numbers of a part are equal if and only if the square of their sum is their count times
        the sum of their squares.
        """
        weight = chosen.astype(np.int64)
        total, squares = self._sum(weight * self.blocks), self._sum(weight * self.blocks**2)
        differ: Array = total * total != self._sum(weight) * squares
        return differ

    def _sum(self, weight: Array) -> Array:
        change = np.zeros(self.cuts.size + 1, np.int64)
        np.add.at(change, self.first, weight[self.owner])
        np.add.at(change, self.end, -weight[self.owner])
        total: Array = np.cumsum(change)[:-1]
        return total

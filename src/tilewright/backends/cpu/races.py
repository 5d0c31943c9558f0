"""Finds races: accesses of one element that nothing orders, one of them a plain one, one writing.

A watched program notes every access while it runs; `find_race` looks at the notes afterwards, so
which block ran first does not matter. Blocks of one launch have no order. Within a block only
tokens order accesses, whatever the program's text says. Atomics are ordered among themselves.

Memory that nobody writes cannot be raced for. Where all accesses of a memory are tiles of one
partition, two meet only if they have the same index; anything else is compared as intervals of
addresses, all at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
from tilewright.backends.cpu.faults import Access, Site
from tilewright.backends.cpu.memory import AddressSpace
from tilewright.backends.cpu.views import IndexedView, TiledView, is_injective

__all__ = ["Race", "Record", "find_race"]

Array = np.ndarray[Any, Any]
BlockId = tuple[int, int, int]
Record = tuple[BlockId, list[Any]]  # what one block did: tuples of the parts of `Event`

# With which kinds of access each kind has a conflict.
_CONFLICTS: dict[Access, tuple[Access, ...]] = {
    one: tuple(
        other
        for other in (Access.READ, Access.WRITE, Access.ATOMIC_READ, Access.ATOMIC_WRITE)
        if (one.writes or other.writes) and (one.plain is one or other.plain is other)
    )
    for one in (Access.READ, Access.WRITE, Access.ATOMIC_READ, Access.ATOMIC_WRITE)
}


class Noted(NamedTuple):
    """One access, and which of its block's it is."""

    block: BlockId
    number: int
    event: Event


@dataclass(frozen=True)
class Race:
    """Two accesses of one element that nothing orders; the first one writes."""

    writer: Noted
    other: Noted
    address: int

    def describe(self, kernel: str, sites: Sequence[Site]) -> str:
        """What a reader of the kernel needs to find both accesses."""
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
    Access.READ: "reads",
    Access.WRITE: "writes",
    Access.ATOMIC_READ: "reads atomically",
    Access.ATOMIC_WRITE: "updates atomically",
}


def find_race(records: Sequence[Record], sites: Sequence[Site], space: AddressSpace) -> Race | None:
    """The first race that the notes of a run tell of."""
    for group in _by_region(sorted(records, key=_block_order), space):
        if any(sites[noted.event.site].access.writes for noted in group):
            search = _OnePartition if _is_one_partition(group) else _AnyShape
            race = search(sites).find(group)
            if race is not None:
                return race
    return None


def _block_order(record: Record) -> BlockId:
    return record[0][::-1]


def _by_region(records: Sequence[Record], space: AddressSpace) -> Iterator[list[Noted]]:
    """Accesses that may touch common bytes; memories that overlap are one region."""
    starts = np.array(_region_starts(space), np.int64)
    groups: dict[int, list[Noted]] = defaultdict(list)
    of_view: dict[TiledView | IndexedView, int] = {}
    for block, events in records:
        for number, parts in enumerate(events):
            noted = Noted(block, number, Event(*parts))
            where = noted.event.where
            if isinstance(where, Spans):
                for region in np.unique(np.searchsorted(starts, where.starts, "right")):
                    groups[int(region)].append(noted)
                continue
            if where not in of_view:
                of_view[where] = int(np.searchsorted(starts, _base(where), "right"))
            groups[of_view[where]].append(noted)
    yield from groups.values()


def _base(view: TiledView | IndexedView) -> int:
    origin = tuple(np.zeros(1, np.int64) for _ in view.tensor.shape)
    return int(view.tensor.addresses(origin).reshape(-1)[0])


def _region_starts(space: AddressSpace) -> list[int]:
    starts, end = [], -1
    for memory in sorted(space.all_memories(), key=lambda memory: memory.address):
        if memory.address >= end:
            starts.append(memory.address)
        end = max(end, memory.end)
    return starts


def _is_one_partition(group: Sequence[Noted]) -> bool:
    """Whether all accesses are tiles of one partition, which are equal or disjoint."""
    partitions = set()
    for view in {id(noted.event.where): noted.event.where for noted in group}.values():
        if not isinstance(view, TiledView) or not is_injective(view.array):
            return False
        if any(step < tile for step, tile in zip(view.steps, view.tile, strict=True)):
            return False
        partitions.add((*layout(view), view.dim_map, view.tile, view.steps))
    return len(partitions) == 1


def _raced(one: Noted, other: Noted, sites: Sequence[Site], address: int) -> Race:
    swap = not sites[one.event.site].access.writes
    return Race(other, one, address) if swap else Race(one, other, address)


# --- tiles of one partition ------------------------------------------------------------------


@dataclass
class _Cell:
    """Who touched one tile: the block that does so now, and those before it."""

    block: BlockId
    own: dict[Access, int] = field(default_factory=dict)  # its events, a bit each
    first: dict[Access, Noted] = field(default_factory=dict)  # its first ones, as others see them
    others: dict[Access, Noted] = field(default_factory=dict)


class _OnePartition:
    """Accesses that meet only where their index is the same; blocks come in order."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._sites = sites

    def find(self, group: Sequence[Noted]) -> Race | None:
        cells: dict[Any, _Cell] = {}
        for noted in group:
            site = self._sites[noted.event.site]
            cell = cells.get(noted.event.at)
            if cell is None:
                cell = cells[noted.event.at] = _Cell(noted.block)
            elif (other := self._unordered(cell, noted, site, group)) is not None:
                start = int(stretches(noted.event.where, noted.event.at).starts[0])
                return _raced(other, noted, self._sites, start)
            cell.own[site.access] = cell.own.get(site.access, 0) | 1 << noted.number
            cell.first.setdefault(site.outward, noted)
        return None

    @staticmethod
    def _unordered(cell: _Cell, noted: Noted, site: Site, group: Sequence[Noted]) -> Noted | None:
        """An earlier access of the tile that has a conflict with this one."""
        if cell.block != noted.block:
            cell.others = cell.first | cell.others
            cell.block, cell.own, cell.first = noted.block, {}, {}
        for kind in _CONFLICTS[site.outward]:
            if kind in cell.others:
                return cell.others[kind]
        for kind in _CONFLICTS[site.access]:
            for number in _bits(cell.own.get(kind, 0) & ~noted.event.before):
                return next(n for n in group if (n.block, n.number) == (noted.block, number))
        return None


def _bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, from the lowest."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


# --- anything else ---------------------------------------------------------------------------

# What makes a part of memory raced for: accesses of these kinds are there, and the blocks of those
# kinds are not one block.
_PATTERNS = (
    ((Access.WRITE,), tuple(_CONFLICTS)),
    ((Access.ATOMIC_WRITE, Access.READ), (Access.ATOMIC_WRITE, Access.READ)),
)


class _AnyShape:
    """Accesses as intervals of addresses."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._sites = sites

    def find(self, group: Sequence[Noted]) -> Race | None:
        return self._between_blocks(group) or self._within_blocks(group)

    def _between_blocks(self, group: Sequence[Noted]) -> Race | None:
        """Cut the addresses where an interval starts or ends, and see who touches each part."""
        cover = _Cover.of(group)
        kinds = [self._sites[noted.event.site].outward for noted in group]
        for present, involved in _PATTERNS:
            wrong = cover.several_blocks(np.array([kind in involved for kind in kinds]))
            for wanted in present:
                wrong = wrong & (cover.depth(np.array([kind is wanted for kind in kinds])) > 0)
            if wrong.any():
                return self._told(group, int(cover.cuts[int(np.argmax(wrong))]))
        return None

    def _told(self, group: Sequence[Noted], address: int) -> Race:
        """Two accesses of different blocks that meet at an address and have a conflict."""
        meeting = [noted for noted in group if _touches(noted.event, address)]
        for i, one in enumerate(meeting):
            conflicts = _CONFLICTS[self._sites[one.event.site].outward]
            for other in meeting[i + 1 :]:
                if other.block != one.block and self._sites[other.event.site].outward in conflicts:
                    return _raced(one, other, self._sites, address)
        raise AssertionError("the parts that several blocks touch have a conflict")

    def _within_blocks(self, group: Sequence[Noted]) -> Race | None:
        earlier: dict[int, Noted] = {}
        masks: dict[Access, int] = {}
        block: BlockId | None = None
        for noted in group:
            if noted.block != block:
                block, earlier, masks = noted.block, {}, {}
            access = self._sites[noted.event.site].access
            for kind in _CONFLICTS[access]:
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
    """The intervals of many accesses over the parts that their ends cut the addresses into."""

    cuts: Array  # where each part starts
    first: Array  # of each interval: the part it starts with
    end: Array  # and the part behind its last
    owner: Array  # the access it belongs to
    blocks: Array  # of each access: its block, as a number

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
        """How many of the chosen accesses touch each part."""
        return self._sum(chosen.astype(np.int64))

    def several_blocks(self, chosen: Array) -> Array:
        """Which parts accesses of more than one block touch.

        All numbers of a part are one if the square of their sum is their count times the sum of
        their squares, and only then.
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

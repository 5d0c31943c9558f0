"""Happens-before between blocks through atomics: a release that another block acquires.

All accesses of a block that precede a release (by its tokens) happen before all accesses of another
block that follow a later acquire of the same place. Such pairs are ordered although no token leads
from one block to the other. The schedule of the run decides which acquire is later, so a racy
kernel may pass by luck; every reported race is real.

All releases and acquires are visited once, in the order of their turns. A place keeps the events
released there, for each block: a vector clock with a bit for every event, since tokens order the
events of a block only in part. An acquire refers to its place's clock at its turn; a query whether
one access precedes another visits the acquires of one block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tilewright.backends.cpu.accesses import Event, stretches
from tilewright.backends.cpu.faults import FaultSite

__all__ = ["BlockId", "Synchronisation"]

BlockId = tuple[int, int, int]  # along x, y and z


class _Turn(NamedTuple):
    """One release or acquire."""

    block: BlockId
    number: int
    event: Event
    site: FaultSite


@dataclass
class _Past:
    """The events that precede a point: for each block a bit for each of its events.

    A `_Past` is immutable once it is published. `cell` is its place, if it has one: successive
    pasts of one place are monotonic.
    """

    events: dict[BlockId, int] = field(default_factory=dict)
    cell: int | None = None


class Synchronisation:
    """The releases and acquires of a run."""

    def __init__(
        self, records: Sequence[tuple[BlockId, list[Any]]], sites: Sequence[FaultSite]
    ) -> None:
        self._acquired: dict[BlockId, list[tuple[int, _Past]]] = defaultdict(list)
        self._times: dict[BlockId, list[int]] = {}
        self._is_active = False
        if any(site.releases for site in sites) and any(site.acquires for site in sites):
            turns = sorted(_turns(records, sites), key=lambda turn: turn.event.turn)
            self._times = {block: _times(events) for block, events in records}
            self._walk(turns)

    def __bool__(self) -> bool:
        return self._is_active

    def orders(self, one: Any, other: Any) -> bool:
        """Whether two accesses of different blocks are ordered, either way."""
        return bool(self) and (self.leads(one, other) or self.leads(other, one))

    def leads(self, first: Any, second: Any) -> bool:
        """Whether a chain of releases and acquires leads from one access to another."""
        known = second[2][3] | 1 << second[1]
        return any(
            known >> number & 1 and past.events.get(first[0], 0) >> first[1] & 1
            for number, past in reversed(self._acquired.get(second[0], ()))
        )

    def time(self, noted: Any) -> int:
        """Return a number that is greater for an access than for all that precede it.

        The number is the turn of the block's last release or acquire so far.
        """
        block, number, _ = noted
        found: int = self._times[block][number]
        return found

    def _walk(self, turns: Sequence[_Turn]) -> None:
        places = _Cells([turn.event for turn in turns])
        released: dict[int, _Past] = {}  # by cell
        for turn in turns:
            cells = places.of(turn.event)
            if turn.site.acquires:
                found = [released[cell] for cell in cells if cell in released]
                if found:
                    past = found[0] if len(found) == 1 else _joined(found)
                    self._acquired[turn.block].append((turn.number, past))
                    self._is_active = True
            if turn.site.releases:
                own = turn.event.before | 1 << turn.number
                pasts = self._acquired_by(turn.block, own)
                for cell in cells:
                    released[cell] = _released(released.get(cell), cell, turn.block, own, pasts)

    def _acquired_by(self, block: BlockId, known: int) -> list[_Past]:
        """Return the pasts that the acquires among a block's events have acquired, each once."""
        pasts = (past for number, past in self._acquired.get(block, ()) if known >> number & 1)
        return list({id(past): past for past in pasts}.values())


def _turns(
    records: Sequence[tuple[BlockId, list[Any]]], sites: Sequence[FaultSite]
) -> Iterator[_Turn]:
    for block, events in records:
        for number, parts in enumerate(events):
            site = sites[parts[0]]
            if site.releases or site.acquires:
                yield _Turn(block, number, Event(*parts), site)


def _times(events: Sequence[Any]) -> list[int]:
    found, last = [], -1
    for parts in events:
        last = parts[4] if len(parts) > 4 else last
        found.append(last)
    return found


def _joined(pasts: Sequence[_Past]) -> _Past:
    events: dict[BlockId, int] = {}
    for past in pasts:
        for block, known in past.events.items():
            events[block] = events.get(block, 0) | known
    return _Past(events)


def _released(
    before: _Past | None, cell: int, block: BlockId, own: int, pasts: Sequence[_Past]
) -> _Past:
    """Return the past of a place after a release by a block that knows these pasts."""
    events = {} if before is None else dict(before.events)
    for past in pasts:
        if past.cell != cell:  # else the place's own past includes it
            for other, known in past.events.items():
                events[other] = events.get(other, 0) | known
    events[block] = events.get(block, 0) | own
    return _Past(events, cell)


class _Cells:
    """The addresses of synchronising accesses, cut at the ends of each.

    Two accesses overlap if and only if they share a cell.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        spans = (stretches(event.where, event.at) for event in events)
        ends = {int(end) for starts, stops in spans for part in (starts, stops) for end in part}
        self._cuts = sorted(ends)

    def of(self, event: Event) -> list[int]:
        """Return the cells that an access touches."""
        starts, stops = stretches(event.where, event.at)
        return [
            cell
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
            for cell in range(bisect_left(self._cuts, start), bisect_left(self._cuts, stop))
        ]

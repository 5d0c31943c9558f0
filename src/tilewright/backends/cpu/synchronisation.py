"""What blocks learn of each other through atomics: a release that another block acquires.

Whatever a block did before a release (by its tokens) comes before whatever another block does after
an acquire of the same place that came later. Such pairs are ordered though no token leads from one
block to the other. The order of the run decides which acquire came later, so a kernel that relies
on luck may look right; what is reported is always real.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tilewright.backends.cpu.accesses import Event, meet
from tilewright.backends.cpu.faults import Site

__all__ = ["Synchronisation"]

BlockId = tuple[int, int, int]


class _Turn(NamedTuple):
    """One access that releases or acquires."""

    block: BlockId
    number: int
    event: Event


class Synchronisation:
    """The releases and acquires of a run."""

    def __init__(self, records: Sequence[tuple[BlockId, list[Any]]], sites: Sequence[Site]) -> None:
        self._releases: dict[BlockId, list[_Turn]] = defaultdict(list)
        self._acquires: dict[BlockId, list[_Turn]] = defaultdict(list)
        if not any(site.releases for site in sites):
            return
        for block, events in records:
            for number, parts in enumerate(events):
                site = sites[parts[0]]
                turn = _Turn(block, number, Event(*parts))
                if site.releases:
                    self._releases[block].append(turn)
                if site.acquires:
                    self._acquires[block].append(turn)

    def __bool__(self) -> bool:
        return bool(self._releases and self._acquires)

    def orders(self, one: Any, other: Any) -> bool:
        """Whether one of two accesses of different blocks comes before the other."""
        return bool(self) and (self._leads(one, other) or self._leads(other, one))

    def _leads(self, first: Any, second: Any) -> bool:
        """Whether a chain of releases and acquires leads from one access to another."""
        seen: set[tuple[BlockId, int]] = set()
        open_ = list(self._acquired_by(second[0], second[1], second[2][3]))
        while open_:
            acquire = open_.pop()
            if (acquire.block, acquire.number) in seen:
                continue
            seen.add((acquire.block, acquire.number))
            own = self._releases.get(first[0], ())
            if any(_reaches(release, first[1]) and _passes(release, acquire) for release in own):
                return True
            open_ += self._further(acquire)
        return False

    def _further(self, acquire: _Turn) -> Iterator[_Turn]:
        """The acquires behind the releases that an acquire may have seen."""
        for block, releases in self._releases.items():
            for release in releases:
                if block != acquire.block and _passes(release, acquire):
                    yield from self._acquired_by(block, release.number, release.event.before)

    def _acquired_by(self, block: BlockId, number: int, before: int) -> Iterator[_Turn]:
        """The acquires that an access of a block waits for, or is."""
        known = before | 1 << number
        return (turn for turn in self._acquires.get(block, ()) if known >> turn.number & 1)


def _reaches(release: _Turn, number: int) -> bool:
    """Whether an access of the same block comes before a release, or is it."""
    return bool((release.event.before | 1 << release.number) >> number & 1)


def _passes(release: _Turn, acquire: _Turn) -> bool:
    """Whether an acquire comes behind a release of the same place."""
    return (
        release.event.turn < acquire.event.turn and meet(release.event, acquire.event) is not None
    )

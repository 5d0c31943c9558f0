"""Which of many keys to tune first, when there may not be time for all of them.

First those that have no record, then those whose record is stale, then the others; among
equals the first key of each kernel, then the second of each: whenever the time is up, every kernel
has got as much as the others. Authors put the keys first that matter most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import zip_longest

from tilewright.tune.keys import Key
from tilewright.tune.records import Records
from tilewright.tune.task import Tunable

__all__ = ["Need", "by_need", "in_turns", "need_of"]


class Need(IntEnum):
    """How much a key needs to be tuned; the least number is the most urgent."""

    MISSING = 0  # it has no record
    STALE = 1  # its kernel, or what runs without a record, has changed since it was tuned
    NONE = 2


def in_turns(tunables: Iterable[Tunable]) -> Iterator[tuple[Tunable, Key]]:
    """The first key of each kernel, then the second of each: when time is up, all have some."""
    lists = [[(tunable, key) for key in tunable.keys] for tunable in tunables]
    for row in zip_longest(*lists):
        yield from (one for one in row if one is not None)


def need_of(tunable: Tunable, key: Key, records: Records, target: str) -> Need:
    """How much a key needs to be tuned, by the records there are for a target."""
    record = records.get(tunable.name, key)
    if record is None:
        return Need.MISSING
    is_fresh = record.provenance.source == tunable.source(key, target)
    return Need.NONE if is_fresh else Need.STALE


def by_need(
    wanted: Iterable[tuple[Tunable, Key]], records: Records, target: str
) -> list[tuple[Need, Tunable, Key]]:
    """The most urgent ones first, otherwise in their order, each with how much it needs it."""
    each = ((need_of(tunable, key, records, target), tunable, key) for tunable, key in wanted)
    return sorted(each, key=lambda one: one[0])

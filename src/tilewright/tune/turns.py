"""The order in which keys are tuned, when there may not be time for all of them.

Keys without a record come first, then those with a stale record, then the others; among equals the
first key of each kernel, then the second of each: whenever the time is up, every kernel has had the
same share. Authors list the most important keys first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import zip_longest

from tilewright.tune.keys import Key
from tilewright.tune.records import Records
from tilewright.tune.task import Tunable

__all__ = ["Urgency", "by_need", "in_turns", "need_of"]


class Urgency(IntEnum):
    """Urgency of tuning a key; the least number is the most urgent."""

    MISSING = 0  # it has no record
    STALE = 1  # its kernel, or its default, has changed since it was tuned
    NONE = 2


def in_turns(tunables: Iterable[Tunable]) -> Iterator[tuple[Tunable, Key]]:
    """Iterate over the first key of each kernel, then the second of each."""
    lists = [[(tunable, key) for key in tunable.keys] for tunable in tunables]
    for row in zip_longest(*lists):
        yield from (one for one in row if one is not None)


def need_of(tunable: Tunable, key: Key, records: Records, target: str) -> Urgency:
    """Return the urgency of a key, by the existing records for a target."""
    record = records.get(tunable.name, key)
    if record is None:
        return Urgency.MISSING
    is_fresh = record.provenance.source == tunable.source(key, target)
    return Urgency.NONE if is_fresh else Urgency.STALE


def by_need(
    wanted: Iterable[tuple[Tunable, Key]], records: Records, target: str
) -> list[tuple[Urgency, Tunable, Key]]:
    """Return the keys by urgency, otherwise in their order, each with its urgency."""
    each = ((need_of(tunable, key, records, target), tunable, key) for tunable, key in wanted)
    return sorted(each, key=lambda one: one[0])

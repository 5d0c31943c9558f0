"""Many searches at once: the candidates of all of them are assembled while others are measured.

All cores assemble from the first second to the last, and the device waits for them only at the
start. What two searches have in common is compiled once. A search is made when its turn comes and
let go when it is concluded, so only some have their tensors on the device at a time. One that
cannot be made or concluded costs itself and no other. This is for kernels that do not hang:
`tilewright tune` has a process for each search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tilewright.errors import TilewrightError
from tilewright.jit.compile.compile_all import Finished, Start, each_finished
from tilewright.runtime.devices.cores import usable_cores
from tilewright.tune.plans import Found
from tilewright.tune.search import Search
from tilewright.tune.task import Task

__all__ = ["Concluded", "MakeSearch", "search_all"]

_AHEAD = 4  # compilations under way for each core: enough while a search is concluded

# Makes a search, with its tensors.
MakeSearch = Callable[[], Search]


@dataclass(frozen=True, eq=False)
class Concluded:
    """What one of many searches came to: what it found, or why it found nothing."""

    name: str
    task: Task | None  # None if the search could not be made
    found: Found | TilewrightError


def search_all(
    searches: Iterable[tuple[str, MakeSearch]], until: float = math.inf
) -> Iterator[Concluded]:
    """Every search, by distinct names, as it is concluded, in about their order.

    At `until`, by `time.monotonic()`, no further one is begun. Those that have begun are brought to
    an end: theirs are few candidates, of which most have been assembled.
    """
    race = _Race(searches, until)
    for finished in each_finished(race.starts(), at_once=_AHEAD * usable_cores()):
        race.settle(finished)
        yield from race.concluded()
    yield from race.concluded()


class _Race:
    """Which searches have begun, and which of them are through."""

    def __init__(self, searches: Iterable[tuple[str, MakeSearch]], until: float) -> None:
        self._searches = iter(searches)
        self._until = until
        self._owners: dict[str, Search] = {}
        self._names: dict[Search, str] = {}
        self._left: dict[Search, int] = {}  # candidates that are not settled
        self._through: list[Search] = []
        self._refused: list[Concluded] = []

    def starts(self) -> Iterator[tuple[str, Start]]:
        """How to begin with each candidate of each search."""
        while time.monotonic() < self._until:
            name, make = next(self._searches, (None, None))
            if name is None or make is None:
                return
            try:
                search = make()
            except TilewrightError as error:
                self._refused.append(Concluded(name, None, error))
                continue
            self._names[search] = name
            begin = search.starts()
            if not begin:  # all is known
                self._through.append(search)
                continue
            self._left[search] = len(begin)
            self._owners |= dict.fromkeys(begin, search)
            yield from begin.items()

    def settle(self, finished: Finished) -> None:
        """Look at a candidate that has been assembled."""
        search = self._owners.pop(finished.name)
        search.settle(finished)
        self._left[search] -= 1
        if not self._left[search]:
            del self._left[search]
            self._through.append(search)

    def concluded(self) -> Iterator[Concluded]:
        """Those that are through, each once."""
        while self._refused:
            yield self._refused.pop(0)
        while self._through:
            search = self._through.pop(0)
            yield Concluded(self._names.pop(search), search.task, _conclude(search))


def _conclude(search: Search) -> Found | TilewrightError:
    try:
        return search.conclude()
    except TilewrightError as error:
        return error

"""Many searches at once: candidates of all searches are assembled while others are timed.

All cores assemble throughout, and the device waits for them only at the start. Kernels common to
two searches are compiled once. A search is made at its turn and dropped when it is concluded, so
only a few have their tensors on the device at a time. A search that fails does not affect the
others. The kernels must not hang: `tilewright tune` has a process for each search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tilewright.errors import TilewrightError
from tilewright.jit.compile.compile_all import Finished, Start, each_finished
from tilewright.runtime.devices.process import usable_cores
from tilewright.tune.plans import SearchResult
from tilewright.tune.search import Search
from tilewright.tune.task import Task

__all__ = ["Concluded", "MakeSearch", "search_all"]

_AHEAD = 4  # compilations in flight for each core: enough to bridge the conclusion of a search

# Makes a search, with its tensors.
MakeSearch = Callable[[], Search]


@dataclass(frozen=True, eq=False)
class Concluded:
    """Outcome of one of many searches: its result, or the reason why it has none."""

    name: str
    task: Task | None  # None if the search could not be made
    found: SearchResult | TilewrightError


def search_all(
    searches: Iterable[tuple[str, MakeSearch]], until: float = math.inf
) -> Iterator[Concluded]:
    """Run every search, by distinct names; yield each as it is concluded, roughly in order.

    After `until`, by `time.monotonic()`, no search is begun. Those that have begun are completed:
    they have few candidates left, most of them assembled.
    """
    race = _SearchState(searches, until)
    for finished in each_finished(race.starts(), at_once=_AHEAD * usable_cores()):
        race.settle(finished)
        yield from race.concluded()
    yield from race.concluded()


class _SearchState:
    """The searches that have begun, and those that are complete."""

    def __init__(self, searches: Iterable[tuple[str, MakeSearch]], until: float) -> None:
        self._searches = iter(searches)
        self._until = until
        self._owners: dict[str, Search] = {}
        self._names: dict[Search, str] = {}
        self._left: dict[Search, int] = {}  # candidates without an outcome
        self._through: list[Search] = []
        self._refused: list[Concluded] = []

    def starts(self) -> Iterator[tuple[str, Start]]:
        """Iterate over the first steps of each candidate of each search."""
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
            if not begin:  # all candidates have an outcome
                self._through.append(search)
                continue
            self._left[search] = len(begin)
            self._owners |= dict.fromkeys(begin, search)
            yield from begin.items()

    def settle(self, finished: Finished) -> None:
        """Examine a candidate that has been assembled."""
        search = self._owners.pop(finished.name)
        search.settle(finished)
        self._left[search] -= 1
        if not self._left[search]:
            del self._left[search]
            self._through.append(search)

    def concluded(self) -> Iterator[Concluded]:
        """Iterate over the completed searches, each once."""
        while self._refused:
            yield self._refused.pop(0)
        while self._through:
            search = self._through.pop(0)
            yield Concluded(self._names.pop(search), search.task, _conclude(search))


def _conclude(search: Search) -> SearchResult | TilewrightError:
    try:
        return search.conclude()
    except TilewrightError as error:
        return error

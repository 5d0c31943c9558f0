"""Many searches at once: the candidates of all of them are assembled while others are measured.

All cores assemble from the first second to the last, and the device waits for them only at the
start. What two searches have in common is compiled once. A search is made when its turn comes and
let go when it is concluded, so only some have their tensors on the device at a time. This is for
kernels that do not hang: `tilewright tune` has a process for each search.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from tilewright.errors import TuneError
from tilewright.jit.compile_all import Finished, Start, each_finished
from tilewright.runtime.cores import usable_cores
from tilewright.tune.plans import Found
from tilewright.tune.search import Search

__all__ = ["search_all"]

_AHEAD = 4  # compilations under way for each core: enough while a search is concluded


def search_all(
    searches: Iterable[Search], until: float
) -> Iterator[tuple[Search, Found | TuneError]]:
    """Every search as it is concluded, in about their order, or why it found nothing.

    At `until`, by `time.monotonic()`, those that are not through are left out: what they have found
    is in their journal.
    """
    race = _Race(searches)
    at_once = _AHEAD * (usable_cores())
    for finished in each_finished(race.starts(), at_once=at_once, until=until):
        race.settle(finished)
        yield from race.concluded()
        if time.monotonic() >= until:
            return
    yield from race.concluded()


class _Race:
    """Which searches have begun, and which of them are through."""

    def __init__(self, searches: Iterable[Search]) -> None:
        self._searches = searches
        self._owners: dict[str, Search] = {}
        self._left: dict[Search, int] = {}  # candidates that are not settled
        self._through: list[Search] = []

    def starts(self) -> Iterator[tuple[str, Start]]:
        """How to begin with each candidate of each search."""
        for search in self._searches:
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

    def concluded(self) -> Iterator[tuple[Search, Found | TuneError]]:
        """Those that are through, each once."""
        while self._through:
            search = self._through.pop(0)
            yield search, _conclude(search)


def _conclude(search: Search) -> Found | TuneError:
    try:
        return search.conclude()
    except TuneError as error:
        return error

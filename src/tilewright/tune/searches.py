"""Many searches at once: the candidates of all of them are assembled while others are measured.

All cores assemble from the first second to the last, and the device waits for them only at the
start. What two searches have in common is compiled once. The tensors of all of them are on the
device together, so this is for a device with room for them, and for kernels that do not hang:
`tilewright tune` makes one search after the other, each in a process of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

from tilewright.errors import TuneError
from tilewright.jit.compile_all import Start, each_finished
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
    left: dict[Search, int] = {}
    owners: dict[str, Search] = {}
    starts: dict[str, Start] = {}
    for search in searches:
        begin = search.starts()
        if not begin:  # all is known
            yield search, _conclude(search)
            continue
        left[search] = len(begin)
        starts |= begin
        owners |= dict.fromkeys(begin, search)
    at_once = _AHEAD * (os.cpu_count() or 1)
    for finished in each_finished(starts, at_once=at_once, until=until):
        search = owners[finished.name]
        search.settle(finished)
        left[search] -= 1
        if not left[search]:
            yield search, _conclude(search)
        if time.monotonic() >= until:
            return


def _conclude(search: Search) -> Found | TuneError:
    try:
        return search.conclude()
    except TuneError as error:
        return error

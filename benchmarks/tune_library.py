"""Tune the library kernels within a budget of seconds, the neediest keys first.

    python benchmarks/tune_library.py --budget 120 --folder tuned matmul attention

Records go to FOLDER/sm_NN.json and steps to FOLDER/journal.jsonl as they come; a restart with the
same folder resumes. Keys without a record come before those with a stale record, and those before
the others (`--stale` omits the others); once the budget is spent no further search starts. All
searches share one process and its compiled kernels, so a hang ends them all; `tilewright tune` has
a process for each. Reviewed records are then added to those of the package:

    python benchmarks/tune_library.py --adopt tuned/sm_90.json

which also drops stale ones: their kernel, or the untuned choice, has changed since.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tilewright.errors import TilewrightError
from tilewright.kernels.tunables import TUNABLES
from tilewright.runtime.devices.device import Device
from tilewright.tune import Key, Records, Tunable
from tilewright.tune.attempts import tally
from tilewright.tune.engine import measured_by, provenance_on, record_of, stale_reasons
from tilewright.tune.journal import Journal
from tilewright.tune.plans import SearchPlan, SearchResult
from tilewright.tune.records import (
    Record,
    add_record,
    read_records,
    records_for,
    shipped_file,
    write_records,
)
from tilewright.tune.search import Search
from tilewright.tune.searches import Concluded, MakeSearch, search_all
from tilewright.tune.task import task_of
from tilewright.tune.turns import Urgency, by_need, in_turns, need_of

__all__ = ["Campaign", "adopt", "wanted_keys"]

TOOL = "benchmarks/tune_library.py"  # in records

Wanted = Sequence[tuple[Tunable, Key]]
Advance = Callable[[str], None]


def wanted_keys(names: Iterable[str], only: Sequence[str], is_stale: bool, target: str) -> Wanted:
    """The keys of these kernels, of all if none is named, the neediest first.

    Shipped records come from this tool: records of other tools count as missing.
    """
    every = in_turns(TUNABLES[name] for name in names or TUNABLES)
    ours = Records(one for one in records_for(target) if one.provenance.tool == TOOL)
    ordered = by_need(every, ours, target)
    return [
        (tunable, key)
        for need, tunable, key in ordered
        if (not only or any(text in str(key) for text in only))
        and not (is_stale and need is Urgency.NONE)
    ]


class Campaign:
    """Many searches with their records and journal in one folder."""

    def __init__(self, device: Device, folder: Path, plan: SearchPlan | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._device = device
        self._plan = plan or SearchPlan()
        self._journal = Journal(folder / "journal.jsonl")
        self._file = folder / f"{device.target}.json"
        self._here = provenance_on(device, "unknown", TOOL)
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)

    def run(self, wanted: Wanted, budget: float) -> int:
        """Search until the budget is spent; returns the number of written records."""
        left = self._left(wanted)
        start, written = time.monotonic(), 0
        searches = [(_label(*one), self._maker(*one)) for one in left]
        unknown = [name for name, _ in searches]
        with self._bar(len(left)) as advance:
            for one in search_all(searches, start + budget):
                unknown.remove(one.name)
                written += self._settle(one)
                advance(f"{one.name}, {time.monotonic() - start:.0f} s")
        for name in unknown:
            self._say(f"no time for {name}")
        if unknown:
            self._say(f"the same command again goes on with these {len(unknown)}")
        return written

    def _left(self, wanted: Wanted) -> Wanted:
        """The keys without a record of this kernel from this machine in the folder."""
        known = Records(
            read_records(self._file, self._device.target) if self._file.exists() else ()
        )
        left = [one for one in wanted if not self._is_settled(*one, known)]
        if len(left) < len(wanted):
            self._say(f"{len(wanted) - len(left)} keys have their record in {self._file} already")
        return left

    def _is_settled(self, tunable: Tunable, key: Key, known: Records) -> bool:
        record = known.get(tunable.name, key)
        if record is None or need_of(tunable, key, known, self._device.target) is not Urgency.NONE:
            return False
        return record.provenance.machine == self._here.machine

    def _maker(self, tunable: Tunable, key: Key) -> MakeSearch:
        def make() -> Search:
            task = measured_by(task_of(tunable, key, self._device), self._here)
            return Search(task, self._plan, self._journal)

        return make

    def _settle(self, one: Concluded) -> bool:
        """Write the record of a search, or report why there is none."""
        if one.task is None or isinstance(one.found, TilewrightError):
            self._say(f"{one.name}: {one.found}")
            return False
        record = record_of(one.task, one.found, replace(self._here, source=one.task.source))
        add_record(self._file, self._device.target, record)
        self._say(told(record, one.found))
        return True

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False)

    @contextmanager
    def _bar(self, total: int) -> Iterator[Advance]:
        console = self._console
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(
            *(*columns, TimeElapsedColumn()), console=console, transient=True,
            disable=not console.is_terminal,
        ) as progress:  # fmt: skip
            bar = progress.add_task("", total=total)
            yield lambda text: progress.update(bar, advance=1, description=text)


def _label(tunable: Tunable, key: Key) -> str:
    return f"{tunable.name} {key}"


def told(record: Record, found: SearchResult) -> str:
    """The result of a search, and the outcomes of all candidates."""
    gain = "" if found.gain is None else f"{found.gain:.3f} x, noise {found.noise:.3f}, "
    kept = "" if record.config == found.winner.config else "not kept: "
    head = f"{record.kernel} {record.key}: {found.seconds * 1e6:.1f} us, {gain}{kept}"
    skipped = [f"{found.skipped} for which there was no time"] if found.skipped else []
    return "\n    ".join((f"{head}{found.winner.config}", *tally(found.attempts), *skipped))


def adopt(found: Path, shipped: Path) -> tuple[Record, ...]:
    """Add records to those of the package; returns the stale ones that are dropped."""
    target = found.stem
    known = read_records(shipped, target) if shipped.exists() else ()
    every = {(one.kernel, one.key): one for one in (*known, *read_records(found, target))}
    stale = {place for place, one in every.items() if not _is_fresh(one, target)}
    write_records(shipped, target, (one for place, one in every.items() if place not in stale))
    return tuple(every[place] for place in sorted(stale, key=repr))


def _is_fresh(record: Record, target: str) -> bool:
    tunable = TUNABLES.get(record.kernel)
    if tunable is None or record.key not in tunable.keys:
        return False
    return not any(stale_reasons(record, tunable.source(record.key, target), None))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="kernels, all if none is named")
    parser.add_argument("--only", action="append", default=[], help="only keys that contain this")
    parser.add_argument("--stale", action="store_true", help="only keys without a fresh record")
    parser.add_argument("--budget", type=float, default=150.0, help="seconds for searches to start")
    parser.add_argument("--folder", type=Path, default=Path("tuned"), help="folder of the results")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--adopt", type=Path, metavar="FILE", help="ship the records of a run")
    given = parser.parse_args()
    if given.adopt is not None:
        for record in adopt(given.adopt, shipped_file(given.adopt.stem)):
            print(f"gone: {record.kernel} {record.key}")
        return
    if unknown := set(given.names) - set(TUNABLES):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(TUNABLES)}")
    device = Device(given.device)
    wanted = wanted_keys(given.names, given.only, given.stale, device.target)
    written = Campaign(device, given.folder).run(wanted, given.budget)
    print(f"{written} records of {len(wanted)} keys")


if __name__ == "__main__":
    main()

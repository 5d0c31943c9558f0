"""Tune the kernels of the library in a given number of seconds, the shapes of all of them in turns.

    python benchmarks/tune_library.py --seconds 150 --folder tuned matmul attention

Records go to FOLDER/sm_NN.json and steps to FOLDER/journal.jsonl: started again with the same
folder, it goes on where it was. All searches share one process and what it has compiled, so one
that hangs ends them all; `tilewright tune` has a process for each. What was found is looked
through, and then put among the records that we ship:

    python benchmarks/tune_library.py --adopt tuned/sm_90.json

which also drops those whose kernel has changed since they were measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from tilewright.errors import TuneError
from tilewright.kernels.tunables import TUNABLES
from tilewright.runtime.device import Device
from tilewright.tune import Key, Tunable
from tilewright.tune.engine import measured_by, provenance_on, record_of, stale_reasons
from tilewright.tune.journal import Journal
from tilewright.tune.plans import Found, Plan
from tilewright.tune.records import (
    Record,
    add_record,
    read_records,
    shipped_file,
    write_records,
)
from tilewright.tune.search import Search
from tilewright.tune.searches import search_all
from tilewright.tune.sources import source_digest
from tilewright.tune.task import task_of

__all__ = ["adopt", "in_turns", "tune_all"]


def in_turns(tunables: Iterable[Tunable]) -> Iterator[tuple[Tunable, Key]]:
    """The first key of each kernel, then the second of each: when time is up, all have some."""
    lists = [[(tunable, key) for key in tunable.keys] for tunable in tunables]
    for row in zip_longest(*lists):
        yield from (one for one in row if one is not None)


def tune_all(
    wanted: Iterable[tuple[Tunable, Key]], device: Device, seconds: float, folder: Path, plan: Plan
) -> int:
    """Search until the time is up; how many records were written."""
    folder.mkdir(parents=True, exist_ok=True)
    journal, records = Journal(folder / "journal.jsonl"), folder / f"{device.target}.json"
    start = time.monotonic()
    here = provenance_on(device, "")
    wanted = list(wanted)
    searches = (
        Search(measured_by(task_of(tunable, key, device), here), plan, journal)
        for tunable, key in wanted
    )
    left, written = {(tunable.name, key) for tunable, key in wanted}, 0
    for search, found in search_all(searches, start + seconds):
        task, taken = search.task, time.monotonic() - start
        left.remove((task.kernel, task.key))
        if isinstance(found, TuneError):
            print(f"{task.kernel} {task.key}: {found}", flush=True)
            continue
        record = record_of(task, found, replace(here, source=task.source))
        add_record(records, device.target, record)
        written += 1
        print(f"{told(record, found)}; after {taken:.1f} s", flush=True)
    for tunable, key in wanted:
        if (tunable.name, key) in left:
            print(f"no time for {tunable.name} {key}")
    return written


def told(record: Record, found: Found) -> str:
    """What a search came to, in two lines."""
    gain = "" if found.gain is None else f"{found.gain:.3f} x, noise {found.noise:.3f}, "
    counts = ", ".join(f"{count} {verdict.value}" for verdict, count in found.counts.items())
    kept = "" if record.config == found.winner.config else "not kept: "
    time = f"{found.seconds * 1e6:.1f} us"
    return f"{record.kernel} {record.key}: {time}, {gain}{kept}{found.winner.config}\n    {counts}"


def adopt(found: Path, shipped: Path) -> tuple[Record, ...]:
    """Put records among those that we ship; what goes, because its kernel is another one now."""
    target = found.stem
    known = read_records(shipped, target) if shipped.exists() else ()
    every = {(one.kernel, one.key): one for one in (*known, *read_records(found, target))}
    sources = {name: source_digest(*one.kernels) for name, one in TUNABLES.items()}
    stale = {
        place
        for place, one in every.items()
        if any(stale_reasons(one, sources.get(one.kernel), None))
        or one.key not in TUNABLES[one.kernel].keys
    }
    write_records(shipped, target, (one for place, one in every.items() if place not in stale))
    return tuple(every[place] for place in sorted(stale, key=repr))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="kernels, all if none is named")
    parser.add_argument("--only", action="append", default=[], help="only keys with this in them")
    parser.add_argument("--seconds", type=float, default=150.0, help="for all searches together")
    parser.add_argument("--folder", type=Path, default=Path("tuned"), help="where results go")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--adopt", type=Path, metavar="FILE", help="ship what an earlier run found")
    given = parser.parse_args()
    if given.adopt is not None:
        for record in adopt(given.adopt, shipped_file(given.adopt.stem)):
            print(f"gone: {record.kernel} {record.key}")
        return
    if unknown := set(given.names) - set(TUNABLES):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(TUNABLES)}")
    wanted = [
        (tunable, key)
        for tunable, key in in_turns(TUNABLES[name] for name in given.names or TUNABLES)
        if not given.only or any(text in str(key) for text in given.only)
    ]
    written = tune_all(wanted, Device(given.device), given.seconds, given.folder, Plan())
    print(f"{written} records")


if __name__ == "__main__":
    main()

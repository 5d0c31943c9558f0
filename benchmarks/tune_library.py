"""Tunes kernels of the library within a number of seconds, the shapes of all of them in turns.

    python benchmarks/tune_library.py --seconds 150 --folder tuned matmul attention

Records go to FOLDER/sm_NN.json and steps to FOLDER/journal.jsonl: started again with the same
folder, it goes on where it was. All searches share one process and what it has compiled, so one
that hangs ends them all; `tilewright tune` has a process for each. What was found is looked
through, and then put into src/tilewright/kernels/tuned.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from tilewright.errors import TuneError
from tilewright.kernels.tunables import TUNABLES
from tilewright.runtime.device import Device
from tilewright.tune import Key, Tunable
from tilewright.tune.engine import tune
from tilewright.tune.journal import Journal
from tilewright.tune.records import add_record
from tilewright.tune.search import Plan
from tilewright.tune.task import task_of

__all__ = ["in_turns", "tune_all"]


def in_turns(tunables: Iterable[Tunable]) -> Iterator[tuple[Tunable, Key]]:
    """The first key of each kernel, then the second of each: when time is up, all have some."""
    lists = [[(tunable, key) for key in tunable.keys] for tunable in tunables]
    for row in zip_longest(*lists):
        yield from (one for one in row if one is not None)


def tune_all(
    tunables: Iterable[Tunable], device: Device, seconds: float, folder: Path, plan: Plan
) -> int:
    """Search one after the other until the time is up; how many records were written."""
    folder.mkdir(parents=True, exist_ok=True)
    journal, records = Journal(folder / "journal.jsonl"), folder / f"{device.target}.json"
    end, written = time.monotonic() + seconds, 0
    for tunable, key in in_turns(tunables):
        if time.monotonic() > end:
            print(f"no time for {tunable.name} {key}")
            continue
        start = time.monotonic()
        try:
            record, found = tune(task_of(tunable, key, device), plan, journal=journal)
        except TuneError as error:
            print(f"{tunable.name} {key}: {error}", flush=True)
            continue
        if found.is_worth_keeping:
            add_record(records, device.target, record)
            written += 1
        took = time.monotonic() - start
        gain = "" if found.gain is None else f"{found.gain:.3f} x, noise {found.noise:.3f}, "
        counts = ", ".join(f"{count} {verdict.value}" for verdict, count in found.counts.items())
        print(f"{tunable.name} {key}: {record.seconds * 1e6:.1f} us, {gain}{record.config}")
        print(f"    {counts}; {took:.1f} s", flush=True)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="kernels, all if none is named")
    parser.add_argument("--seconds", type=float, default=150.0, help="for all searches together")
    parser.add_argument("--each", type=float, default=30.0, help="for one search")
    parser.add_argument("--folder", type=Path, default=Path("tuned"), help="where results go")
    parser.add_argument("--device", default="cuda:0")
    given = parser.parse_args()
    if unknown := set(given.names) - set(TUNABLES):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(TUNABLES)}")
    tunables = [TUNABLES[name] for name in given.names or TUNABLES]
    plan = Plan(seconds=given.each)
    written = tune_all(tunables, Device(given.device), given.seconds, given.folder, plan)
    print(f"{written} records")


if __name__ == "__main__":
    main()

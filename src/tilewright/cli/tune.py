"""`tilewright tune`: search for fast configurations, and inspect the records of earlier searches.

A search runs in a child process, so that a candidate that hangs or breaks the driver costs only
itself. The journal holds the progress of a search; an interrupted search resumes from it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tilewright.cli.options import TARGETS, json_option, seconds_option
from tilewright.cli.screen import BadInput, Screen
from tilewright.cli.tune_goals import Goal, find_goals
from tilewright.cli.tune_moves import export_records, import_records
from tilewright.cli.tune_records import show_records, show_tunables
from tilewright.errors import TuneError
from tilewright.files.private_files import Unusable
from tilewright.runtime.devices.backend import load_backend
from tilewright.runtime.devices.device import Device
from tilewright.tune import Record, Records
from tilewright.tune.engine import tune
from tilewright.tune.journal import Journal
from tilewright.tune.own_files import make_own_folder
from tilewright.tune.plans import Progress as Step
from tilewright.tune.plans import SearchPlan
from tilewright.tune.records import add_record, keep, own_file, read_records, records_for
from tilewright.tune.supervision import supervise
from tilewright.tune.turns import Urgency

__all__ = ["tune_command"]

_PATIENCE = 180.0  # seconds; the first candidates include their assembly
_HERE = (sys.executable, "-m", "tilewright", "tune")


@dataclass(frozen=True)
class TuneRequest:
    """The settings of a search, and the paths of its files."""

    device: str
    seconds: float
    finalists: int
    patience: float
    journal: Path
    output: Path | None

    @property
    def target(self) -> str:
        """The architecture of the records."""
        return Device(self.device).target

    @property
    def plan(self) -> SearchPlan:
        """The settings of the engine."""
        return SearchPlan(seconds=self.seconds, finalists=self.finalists)

    def child(self, goal: Goal, arguments: tuple[str, ...]) -> list[str]:
        """The command of one search in a child process."""
        given = [part for argument in arguments for part in ("--arg", argument)]
        kept = [] if self.output is None else ["--output", str(self.output)]
        return [
            *_HERE, goal.name, "--in-process", *given, *kept,
            "--only", "" if arguments else goal.what, "--device", self.device,
            "--seconds", str(self.seconds), "--finalists", str(self.finalists),
            "--journal", str(self.journal),
        ]  # fmt: skip


@click.command("tune")
@click.argument("names", metavar="[KERNEL | FILE::KERNEL]…", nargs=-1)
@click.option("--list", "is_list", is_flag=True, help="List the tunable kernels of the library.")
@click.option("--check", "is_check", is_flag=True, help="List the records, and the stale ones.")
@click.option(
    "--export",
    "exported",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write your own records to a file, for another machine with such a GPU.",
)
@click.option(
    "--import",
    "imported",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Add the records of such a file to your own.",
)
@click.option("--target", type=click.Choice(TARGETS), metavar="sm_NN", help="GPU of the records.")
@click.option("--only", default="", metavar="TEXT", help="Only keys that contain this text.")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="NAME=DTYPE:EXTENTS",
    help="A tensor of a kernel in a file, --arg x=f16:4096,1024, or a number, --arg eps=1e-6.",
)
@click.option("--device", default="cuda:0", show_default=True, help="Device to measure on.")
@seconds_option("--seconds", 120.0, "Time limit of one search.")
@seconds_option(
    "--budget",
    math.inf,
    "Seconds after which no further search starts; the neediest keys come first.",
)
@click.option("--stale", "is_stale", is_flag=True, help="Only keys without a fresh record.")
@click.option(
    "--finalists",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Candidates of the run-off.",
)
@seconds_option("--patience", _PATIENCE, "Seconds without progress.")
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of progress, from which an interrupted search resumes.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of the records (default: in the folder of TILEWRIGHT_TUNED).",
)
@click.option("--in-process", is_flag=True, help="No child process: a hang cannot be ended.")
@json_option
@click.pass_obj
def tune_command(screen: Screen, /, names: tuple[str, ...], **options: Any) -> None:
    """Search for the fastest configurations of kernels, and record them."""
    if options["is_list"]:
        show_tunables(screen, options["as_json"])
        return
    if options["is_check"]:
        show_records(screen, options["target"], options["as_json"])
        return
    if options["exported"] is not None or options["imported"] is not None:
        _move(screen, names, options)
        return
    if not names:
        raise BadInput("name a kernel to tune, `tilewright tune matmul`; --list shows them all")
    wanted = _wanted(options)
    known = Records((*records_for(wanted.target), *_records(wanted)))
    goals = find_goals(names, options["only"], options["arguments"], known, wanted.target)
    if options["is_stale"]:
        goals = _needed(screen, goals)
    search = _search_here if options["in_process"] else _search_in_child
    found, failed, end = [], 0, time.monotonic() + options["budget"]
    with _bar(screen) as show:
        for number, goal in enumerate(goals):
            if time.monotonic() >= end:
                _tell_left(screen, goals[number:])
                break
            told = search(goal, wanted, options["arguments"], show)
            found += _told(screen, goal, told)
            failed += isinstance(told, TuneError)
    if options["as_json"]:
        screen.answer([record.to_json() for record in found])
    if failed:
        raise TuneError(f"{failed} of {len(goals)} searches found nothing")


def _move(screen: Screen, names: tuple[str, ...], options: dict[str, Any]) -> None:
    exported: Path | None = options["exported"]
    imported: Path | None = options["imported"]
    if names or (exported is not None and imported is not None):
        raise BadInput("--export FILE and --import FILE take no kernel, and one of them is given")
    target, as_json = options["target"], options["as_json"]
    if exported is not None:
        export_records(screen, exported, target, as_json=as_json)
    if imported is not None:
        import_records(screen, imported, target, as_json=as_json)


def _wanted(options: dict[str, Any]) -> TuneRequest:
    device = options["device"]
    reason = load_backend("cuda").missing() if device.startswith("cuda") else None
    if reason is not None:
        raise BadInput(f"{reason}: configurations are measured on a GPU")
    target, output = Device(device).target, options["output"]
    kept = output or own_file(target)
    if kept is None:
        raise BadInput("records are not kept here (TILEWRIGHT_TUNED is `off`): give --output FILE")
    if kept.stem != target:
        raise BadInput(f"--output {output}: records of this device go into {target}.json")
    try:
        if output is None:
            make_own_folder()
        kept.parent.mkdir(parents=True, exist_ok=True)
    except (Unusable, OSError) as error:
        raise BadInput(f"{error}: give --output FILE") from None
    journal = options["journal"] or kept.with_suffix(".journal")
    numbers = (options["seconds"], options["finalists"], options["patience"])
    return TuneRequest(device, *numbers, journal, output)


# --- one search -----------------------------------------------------------------------------------

Show = Callable[[str, int, int], None]
Told = list[Record] | TuneError


def _search_here(goal: Goal, wanted: TuneRequest, _: tuple[str, ...], show: Show) -> Told:
    """Search in this process; many searches share compiled kernels."""

    def step(now: Step) -> None:
        show(goal.label, now.done, now.total)

    try:
        task = goal.make(Device(wanted.device))
        record = tune(
            task, wanted.plan, tool="tilewright tune", journal=Journal(wanted.journal), report=step
        )[0]
    except TuneError as error:
        return error
    _keep(record, wanted)
    return [record]


def _keep(record: Record, wanted: TuneRequest) -> None:
    if wanted.output is None:
        keep(record, wanted.target)
        return
    add_record(wanted.output, wanted.target, record)


def _search_in_child(
    goal: Goal, wanted: TuneRequest, arguments: tuple[str, ...], show: Show
) -> Told:
    """Search in a child process, watched through its journal."""
    begun = _lines(wanted.journal)

    def look() -> None:
        show(goal.label, min(_lines(wanted.journal) - begun, goal.candidates), goal.candidates)

    before = _records(wanted)
    try:
        supervise(wanted.child(goal, arguments), wanted.journal, wanted.patience, look)
    except TuneError as error:
        return error
    return [record for record in _records(wanted) if record not in before]


def _lines(journal: Path) -> int:
    """The number of finished candidates."""
    return journal.read_bytes().count(b'"attempt"') if journal.exists() else 0


def _records(wanted: TuneRequest) -> tuple[Record, ...]:
    file = wanted.output or own_file(wanted.target)
    return read_records(file, wanted.target) if file is not None and file.exists() else ()


# --- text output ----------------------------------------------------------------------------------


@contextmanager
def _bar(screen: Screen) -> Iterator[Show]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=screen.err, transient=True) as progress:
        bar = progress.add_task("", total=None)

        def show(label: str, done: int, total: int) -> None:
            progress.update(bar, description=label, completed=done, total=total)

        yield show


def _needed(screen: Screen, goals: Sequence[Goal]) -> list[Goal]:
    """The goals without a fresh record."""
    needed = [goal for goal in goals if goal.need is not Urgency.NONE]
    if len(needed) < len(goals):
        screen.err.print(f"{len(goals) - len(needed)} of {len(goals)} have a fresh record")
    return needed


def _tell_left(screen: Screen, left: Sequence[Goal]) -> None:
    """Report the goals beyond the budget, and the way to continue."""
    for goal in left:
        screen.err.print(f"no time for {goal.label}", soft_wrap=True)
    screen.err.print(f"the same with --stale goes on with these {len(left)}")


def _told(screen: Screen, goal: Goal, found: Told) -> list[Record]:
    if isinstance(found, TuneError):
        screen.refuse(goal.label, str(found))
        return []
    for record in found:
        time = f"{record.seconds * 1e6:,.1f} us"
        screen.err.print(f"{record.kernel} {record.key}: {time}, {record.choice}", soft_wrap=True)
    return found

"""The tuning engine: from a task to a record with its provenance.

`tune.loader` imports this module by name on the first tuning, because looking up configurations
needs neither clocks nor a toolchain.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import replace

from tilewright.backends.cuda.gpus import list_gpus
from tilewright.backends.cuda.toolchain import release_here
from tilewright.runtime.devices.device import Device
from tilewright.tune.journal import Journal
from tilewright.tune.plans import Report, SearchPlan, SearchResult
from tilewright.tune.records import UNTUNED, Provenance, Record
from tilewright.tune.search import search
from tilewright.tune.task import Task
from tilewright.version import VERSION

__all__ = ["measured_by", "provenance_on", "record_of", "stale_reasons", "tune"]

_UNKNOWN = "unknown"


def provenance_on(device: Device, source: str, tool: str) -> Provenance:
    """Return the provenance of a figure that a tool measures here and now."""
    gpus = [one for one in list_gpus() if one.target == device.target]
    # nvidia-smi and the driver may number GPUs differently: if the names differ, all are recorded.
    names = sorted({one.name for one in gpus})
    return Provenance(
        tool=tool,
        gpu=" or ".join(names) or device.name,
        driver=gpus[0].driver if gpus else _UNKNOWN,
        tileiras=release_here() or _UNKNOWN,
        tilewright=VERSION,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        source=source,
    )


def tune(
    task: Task,
    plan: SearchPlan | None = None,
    *,
    tool: str,
    journal: Journal | None = None,
    report: Report = lambda _: None,
) -> tuple[Record, SearchResult]:
    """Search, and return the record of the winner, which is not stored yet.

    `tool` is the name of the tool in the record.
    """
    origin = provenance_on(task.device, task.source, tool)
    found = search(measured_by(task, origin), plan, journal=journal, report=report)
    return record_of(task, found, origin), found


def measured_by(task: Task, origin: Provenance) -> Task:
    """Return a task bound to one machine: another GPU or assembler starts a new search."""
    return replace(task, machine=origin.machine)


def record_of(task: Task, found: SearchResult, origin: Provenance) -> Record:
    """Return the record to store: the winner, or that the default is fastest."""
    untuned = found.untuned
    if untuned is not None and not found.is_better:
        return Record(task.kernel, task.key, UNTUNED, untuned, origin)
    return Record(task.kernel, task.key, found.winner.config, found.seconds, origin)


def stale_reasons(record: Record, source: str | None, tileiras: str | None) -> Iterable[str]:
    """Iterate over the reasons why a record may no longer be the best choice.

    `source` is the current digest of the record's kernels and default, None if there is no such
    kernel; `tileiras` is the release in use, None if there is none.
    """
    if source is None:
        yield "there is no such kernel"
    elif record.provenance.source != source:
        yield "the kernel, or its untuned choice, has changed"
    if tileiras is not None and record.provenance.tileiras != tileiras:
        yield f"it was tuned with tileiras {record.provenance.tileiras}, and here is {tileiras}"

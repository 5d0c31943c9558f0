"""From a task to a record: search, and say where the result comes from.

Loaded by name on the first tuning (`tune.loader`), because whoever only looks configurations up
needs no clocks and no toolchain.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import replace

from tilewright.backends.cuda.gpus import list_gpus
from tilewright.backends.cuda.toolchain import release_here
from tilewright.runtime.devices.device import Device
from tilewright.tune.journal import Journal
from tilewright.tune.plans import Found, Plan, Report
from tilewright.tune.records import UNTUNED, Provenance, Record
from tilewright.tune.search import search
from tilewright.tune.task import Task
from tilewright.version import VERSION

__all__ = ["measured_by", "provenance_on", "record_of", "stale_reasons", "tune"]

_UNKNOWN = "unknown"


def provenance_on(device: Device, source: str, tool: str) -> Provenance:
    """Where a figure that a tool measures here and now comes from."""
    gpus = [one for one in list_gpus() if one.target == device.target]
    # How nvidia-smi counts them says nothing of how the driver does: where there are different
    # ones, all are named.
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
    plan: Plan | None = None,
    *,
    tool: str,
    journal: Journal | None = None,
    report: Report = lambda _: None,
) -> tuple[Record, Found]:
    """Search, and make the record of what was found; nothing is kept yet.

    `tool` is who the record says it comes from.
    """
    origin = provenance_on(task.device, task.source, tool)
    found = search(measured_by(task, origin), plan, journal=journal, report=report)
    return record_of(task, found, origin), found


def measured_by(task: Task, origin: Provenance) -> Task:
    """A task whose times are those of one machine: another GPU or assembler begins anew."""
    return replace(task, machine=origin.machine)


def record_of(task: Task, found: Found, origin: Provenance) -> Record:
    """What is to be kept: the winner, or that nothing is faster than what runs without a record."""
    untuned = found.untuned
    if untuned is not None and not found.is_better:
        return Record(task.kernel, task.key, UNTUNED, untuned, origin)
    return Record(task.kernel, task.key, found.winner.config, found.seconds, origin)


def stale_reasons(record: Record, source: str | None, tileiras: str | None) -> Iterable[str]:
    """Why a record may no longer be the best choice; nothing if there is no reason to think so.

    `source` is the digest of what it is about as that is now, None if there is no such kernel;
    `tileiras` the release that is used now, None if there is none.
    """
    if source is None:
        yield "there is no such kernel"
    elif record.provenance.source != source:
        yield "the kernel, or what runs without a record, has changed"
    if tileiras is not None and record.provenance.tileiras != tileiras:
        yield f"it was tuned with tileiras {record.provenance.tileiras}, and here is {tileiras}"

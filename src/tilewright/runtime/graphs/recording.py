"""Recording: operations put on a capture stream are kept in a list instead of being run.

A capture stream is a stream to operations, so chains and zips are recorded part by part, by the
code that runs them. Building and replaying graphs is done elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.devices.context import INTERCEPTED, ContextFlag, Setting
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import CallSite
from tilewright.runtime.order.access import Access, Mode
from tilewright.runtime.order.failure import Check

if TYPE_CHECKING:
    from tilewright.runtime.graphs.graph import Graph
    from tilewright.runtime.ops.work import DeviceWork

__all__ = [
    "GraphMaker",
    "Job",
    "NoQueue",
    "RecordedBlock",
    "RecordedUse",
    "RepeatedWork",
    "Tape",
    "allocation_in_graph",
    "block_is_open",
    "copy_to_host_in_graph",
    "graph_maker",
    "is_recording",
    "recording_on",
    "refuse_move",
    "refuse_recorded",
]


class RepeatedWork(Protocol):
    """A work with its addresses resolved, ready to be put on streams any number of times."""

    @property
    def kind(self) -> object:
        """Equal for works that differ only in their tensors and numbers."""

    def enqueue(self, stream: Stream) -> None:
        """Put the work on a stream."""

    def renew(self) -> Check:
        """Report failures to a new record from now on, which the new check reads."""


class RecordedUse(NamedTuple):
    """The access of an operation to a region. It keeps no handle, which may be moved away."""

    storage: Storage
    region: Region
    mode: Mode
    name: str

    def meets(self, storage: Storage, region: Region) -> bool:
        """Whether another use may overlap the same bytes."""
        return storage.shares_memory(self.storage) and region.overlaps(self.region)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One recorded operation with work of its own."""

    label: str
    site: CallSite
    uses: tuple[RecordedUse, ...]
    work: DeviceWork
    check: Check | None


class NoQueue:
    """The queue of a capture stream: every method refuses, since it takes operations, not work."""

    def __getattr__(self, name: str) -> NoReturn:
        raise LaunchError(
            "this operation puts work on its stream by itself, and a graph is being recorded, which"
            " takes operations only: run it outside the block"
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        self.__getattr__(name)


class Tape(Stream):
    """A capture stream: operations put there are kept and not run."""

    __slots__ = ("jobs", "kept")

    def __init__(self, device: Device, queue: Any = None) -> None:
        nothing: Any = NoQueue()  # has every method of a queue, and each one refuses
        super().__init__(device, "tape", queue or nothing, is_listed=False)
        self.jobs: list[Job] = []
        self.kept: list[object] = []

    def keep(self, thing: object, nbytes: int = 0, *, until: int = 0) -> None:
        """Keep an object alive as long as the recorded operations."""
        self.kept.append(thing)

    def make_room(self) -> None:
        """Do nothing: no work is queued here."""

    def settle(self, *, ask: bool = True) -> None:
        """Do nothing: no work runs here."""

    def add(
        self, label: str, site: CallSite, accesses: tuple[Access, ...], work: DeviceWork,
        check: Check | None,
    ) -> None:  # fmt: skip
        """Record one operation."""
        uses = tuple(
            RecordedUse(a.tensor.storage, a.tensor.region, a.mode, a.describe()) for a in accesses
        )
        self.jobs.append(Job(label, site, uses, work, check))


# --- the block that records -----------------------------------------------------------------------


class RecordedBlock:
    """A `with tw.graph()` block. Tasks and threads begun inside may outlive it and still see it."""

    __slots__ = ("is_open", "jobs", "thread")

    def __init__(self, jobs: list[Job]) -> None:
        self.jobs = jobs
        self.thread = threading.get_ident()
        self.is_open = True


_block: ContextFlag[RecordedBlock] = ContextFlag("recording")


def _open_block() -> RecordedBlock | None:
    block = _block.get()
    return block if block is not None and block.is_open else None


def recording_on(jobs: list[Job]) -> Setting[RecordedBlock]:
    """Record into a list inside, until the block is closed; only one block may be open."""
    if _open_block() is not None:
        raise LaunchError(
            "a graph is being recorded already, and one is recorded at a time: end that block first"
        )
    block = RecordedBlock(jobs)
    return Setting(block, (_block, block), (INTERCEPTED, True))


def is_recording(jobs: list[Job]) -> bool:
    """Whether the innermost open block of this thread records into this list."""
    block = _open_block()
    return block is not None and block.jobs is jobs and block.thread == threading.get_ident()


def block_is_open() -> bool:
    """Whether this context is inside a block that records a graph."""
    return _open_block() is not None


def refuse_recorded(used: Iterable[tuple[Storage, Region]], label: str) -> None:
    """Refuse to run work inside a block that records writes to the same memory."""
    block = _open_block()
    assert block is not None, "asked inside a block"
    places = tuple(used)
    for job in block.jobs:
        for use in job.uses:
            if use.mode.writes and any(use.meets(*place) for place in places):
                raise LaunchError(
                    f"{label} would run now, and uses {use.name} of {job.label}, recorded at"
                    f" {job.site}: recording runs nothing, so its output is not there yet."
                    " End the block and replay the graph first, or record this operation, too"
                )


def refuse_move(storage: Storage, region: Region) -> None:
    """Refuse to move a tensor that operations of the surrounding block use."""
    block = _open_block()
    for job in () if block is None else block.jobs:
        if any(use.meets(storage, region) for use in job.uses):
            raise BorrowError(
                f"{job.label}, recorded at {job.site}, uses this tensor, and its graph is made when"
                " the block ends: move the tensor behind the block"
            )


# --- work that cannot be a node, the same for all backends ----------------------------------------


def allocation_in_graph() -> LaunchError:
    """The refusal of an operation that allocates memory when it runs."""
    return LaunchError(
        "an operation that allocates memory when it runs cannot be part of a graph, which has the"
        " same addresses at every replay: make its tensors before, and record the writes to"
        " them"
    )


def copy_to_host_in_graph() -> LaunchError:
    """The refusal of a copy to an array of the host."""
    return LaunchError(
        "a copy to the host cannot be part of a graph: replay the graph, and then read its tensors"
    )


class GraphMaker:
    """Makes a graph of an operation; set by `graph`, which imports operations."""

    make: Callable[[Any], Graph]


# Called by `op.graph()`.
graph_maker = GraphMaker()

"""The protocol of a backend, and the one place where backends are loaded.

`runtime` never imports a backend: it loads `tilewright.backends.<kind>.device` by name on the first
use of that kind, so that importing tilewright loads no CUDA library. All methods are called under
the device's lock except `wait`, `known` and `completed`, which any thread may call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tilewright.errors import LaunchError
from tilewright.runtime.loading import load_module
from tilewright.runtime.order.failure import Allocation, FailureRecord

__all__ = [
    "ALIGNMENT",
    "KINDS",
    "Backend",
    "BackendGraph",
    "BackendModule",
    "BackendPool",
    "Bytes",
    "Hold",
    "PoolStatistics",
    "Queue",
    "Recipe",
    "Stamp",
    "Tell",
    "load_backend",
]

ALIGNMENT = 256  # bytes; every allocation of every backend starts at a multiple
# All kinds of device.
KINDS = ("cpu", "cuda", "meta")

# Host memory, byte by byte.
Bytes = npt.NDArray[np.uint8]
# Called when work has completed, with the driver's error if the device has failed.
Tell = Callable[[BaseException | None], None]


class Hold(Protocol):
    """A queue stopped by a test."""

    def release(self) -> None:
        """Let the queue continue."""


class Stamp(Protocol):
    """The time at which a queue reached a point."""

    def seconds_since(self, earlier: Self) -> float:
        """Seconds since an earlier stamp of the same device; both points have been reached."""


_A = TypeVar("_A")


class Queue(Protocol[_A]):
    """The backend's side of one stream: work in order, and its progress.

    Setting `marked` ends that operation: it has completed when all work put so far has.
    """

    marked: int

    @property
    def number(self) -> int:
        """The driver's handle of the stream; 0 if there is no driver."""

    @property
    def may_raise(self) -> bool:
        """Whether work can raise while it runs (`take_error` then gives the exception)."""

    @property
    def known(self) -> int:
        """The last operation known to have completed; does not query the device."""

    @property
    def may_be_recorded(self) -> bool:
        """Whether it is a stream of another library, which may capture the work put on it."""

    @property
    def tail(self) -> object:
        """The last work put, for comparison; a new object in each call if the queue cannot tell."""

    def is_capturing(self) -> bool:
        """Whether work put on it is captured into another library's graph instead of being run."""

    def completed(self) -> int:
        """The last operation that has completed; queries the device and never blocks.

        A busy queue may give an older operation.
        """

    def progress(self) -> int:
        """The same for repeated polling: it advances although the queue is busy."""

    def wait(self, count: int) -> None:
        """Block until operation `count` has completed."""

    def make_room(self) -> None:
        """Block while too much work is queued, if queued work takes memory. No lock is held."""

    def stop_all(self) -> None:
        """Stop the running work and all that follows, if possible: the process ends."""

    def passes_soon(self, count: int) -> bool:
        """Whether operation `count` has completed; may take some microseconds to find out.

        Releases the interpreter and the queue meanwhile. Any thread may call it.
        """

    def when_completed(self, count: int, tell: Tell) -> None:
        """Call `tell` once, on a thread of the backend, when operation `count` has completed."""

    def order_after(self, other: Self, count: int) -> int:
        """Make later work wait for operation `count` of another queue.

        Gives the last operation of the other queue that the wait includes.
        """

    def take_error(self, count: int) -> BaseException | None:
        """The exception that operation `count` raised while it ran; given once."""

    def hold(self) -> Hold:
        """Stop before the work put next, until released. For tests."""

    def end_holds(self) -> None:
        """Release every hold: the process ends."""

    def stamp(self) -> Stamp:
        """Record the time when all work put so far has completed."""

    def restart(self) -> None:
        """Restart in a forked child, where no thread of the parent runs."""

    def allocate(self, nbytes: int, pool: Any) -> _A:
        """Memory of one of the backend's pools that later work may use."""

    def free(self, allocation: _A, pool: Any) -> None:
        """Free memory to its pool after all work put so far."""

    def fill(self, allocation: _A, pattern: bytes, repeats: int, offset: int = 0) -> None:
        """Repeat a pattern of 1, 2, 4 or 8 bytes from an offset that is a multiple of those."""

    def copy(self, target: _A, target_offset: int, source: _A, offset: int, nbytes: int) -> None:
        """Copy bytes of this device; the two ranges do not overlap."""

    def upload(self, allocation: _A, source: Bytes) -> None:
        """Copy host bytes to the start; the caller keeps `source` until this has completed."""

    def download(self, allocation: _A, offset: int, target: Bytes) -> None:
        """Copy bytes to the host; the caller keeps `target` until this has completed."""


# Puts the work of one node of a graph on a queue.
Recipe = Callable[[Any], None]


class BackendGraph(Protocol):
    """The backend's side of a graph: nodes with fixed work, to be launched many times.

    Recipes put work on an object like a queue, which refuses allocations.
    """

    def change(self, node: int, recipe: Recipe) -> bool:
        """Give a node other work of the same kind, for later launches; False if that fails.

        After False the graph is half changed and must not be launched again.
        """

    def launch(self, queue: Any) -> Mapping[int, BaseException]:
        """Put all nodes on a queue; gives the exceptions by node, complete once all have ended."""

    def destroy(self) -> None:
        """Destroy the graph; no launch is in flight."""


class PoolStatistics(NamedTuple):
    """Bytes of a pool: those in use by tensors, and those taken from the system."""

    used: int
    highest_used: int
    reserved: int
    highest_reserved: int


class BackendPool(Protocol):
    """The backend's side of a memory pool."""

    def statistics(self) -> PoolStatistics:
        """The bytes in use and reserved."""

    def trim(self, keep: int) -> None:
        """Give unused memory back to the system, all but `keep` bytes."""

    def reset_highest(self) -> None:
        """Restart the highest numbers at the current ones."""


class Backend(Protocol):
    """One opened device."""

    @property
    def target(self) -> str:
        """The target that code is compiled for: `cpu`, `sm_90`."""

    @property
    def runs(self) -> str:
        """The kind of backend that builds programs for it."""

    @property
    def can_run(self) -> bool:
        """Whether it has memory and runs programs at all."""

    def resident_blocks(self, occupancy: int = 1, num_ctas: int = 1) -> int:
        """Blocks that run at once: `occupancy` per multiprocessor, or one on `num_ctas` of them."""

    @property
    def survives_fork(self) -> bool:
        """Whether a forked child may continue to use it."""

    def new_queue(self, label: str) -> Queue[Any]:
        """A queue that is ordered with no other queue."""

    def adopt_queue(self, number: int) -> Queue[Any]:
        """A stream of another library, by the driver's number."""

    def new_pool(self, release_threshold: int | None, limit: int | None) -> BackendPool:
        """A memory pool of its own; None leaves a number to the backend."""

    def build_graph(self, nodes: Sequence[tuple[Recipe, tuple[int, ...]]]) -> BackendGraph:
        """A graph of nodes, each with the numbers of the nodes that it waits for."""

    def take_record(self) -> FailureRecord:
        """A failure record set to "no failure"."""

    @property
    def needs_staging(self) -> bool:
        """Whether a copy from or to ordinary host memory blocks the calling thread."""

    @property
    def waits_by_working(self) -> bool:
        """Whether a thread that waits does the work: its queues have `is_awaited`."""

    def stage(self, nbytes: int) -> Bytes | None:
        """Host memory whose copies do not block the caller; None if the backend has none."""

    def adopt(self, address: int, nbytes: int, *, read_only: bool) -> Allocation:
        """Memory that another library owns and keeps."""

    def end(self) -> None:
        """Stop the backend's threads: the process ends, and all work has completed."""

    def owner_of(self, address: int) -> int:
        """The number of the device of this kind that an address belongs to."""


class BackendModule(Protocol):
    """The interface of the module `tilewright.backends.<kind>.device`."""

    missing: Callable[[], str | None]
    open_device: Callable[[int], Backend]


def load_backend(kind: str) -> BackendModule:
    """The backend of a kind of device."""
    if kind not in KINDS:
        kinds = " or ".join(repr(known) for known in KINDS)
        raise LaunchError(f"there is no device of kind {kind!r}: say {kinds}")
    return cast("BackendModule", load_module(f"tilewright.backends.{kind}.device"))

"""What a kind of device must be able to do, and the one place where a backend is loaded.

`runtime` never imports a backend: it loads `tilewright.backends.<kind>.device` by name on the first
use of that kind, so that importing tilewright costs no CUDA library. Everything here happens under
the device's lock except `wait`, `known` and `completed`, which any thread may call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tilewright.errors import LaunchError
from tilewright.runtime.loading import load_module
from tilewright.runtime.order.failure_records import Allocation, FailureRecord

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
# The kinds of device there are.
KINDS = ("cpu", "cuda", "meta")

# Host memory, byte by byte.
Bytes = npt.NDArray[np.uint8]
# Is told when work has completed, or what the driver says is wrong with the device.
Tell = Callable[[BaseException | None], None]


class Hold(Protocol):
    """A queue stopped by a test."""

    def release(self) -> None:
        """Let the queue go on."""


class Stamp(Protocol):
    """The time at which a queue got somewhere."""

    def seconds_since(self, earlier: Self) -> float:
        """How much later it was than another of the same device; both have been reached."""


_A = TypeVar("_A")


class Queue(Protocol[_A]):
    """The backend's side of one stream: work in order, and how far it has come.

    To set `marked` ends that operation: it has completed when everything put so far has.
    """

    marked: int

    @property
    def number(self) -> int:
        """What the driver calls it; 0 where there is no driver."""

    @property
    def may_raise(self) -> bool:
        """Whether work can raise while it runs (then `take_error` says what)."""

    @property
    def known(self) -> int:
        """The last operation known to have completed, without asking the device."""

    @property
    def may_be_recorded(self) -> bool:
        """Whether it is somebody else's, who may record what is put on it."""

    @property
    def tail(self) -> object:
        """The last that was put, to be compared; another one each time where that is not known."""

    def is_capturing(self) -> bool:
        """Whether work put on it is recorded into somebody's graph instead of being run."""

    def completed(self) -> int:
        """The last operation that has completed; asks the device and never blocks.

        Of a queue that is still busy this may be one from before it was.
        """

    def progress(self) -> int:
        """The same for who asks again and again: then it moves on though the queue is busy."""

    def wait(self, count: int) -> None:
        """Block until operation `count` has completed."""

    def make_room(self) -> None:
        """Wait as long as very much is queued, where that takes memory. No lock is held."""

    def stop_all(self) -> None:
        """Stop what is running and all that comes, where that can be done: the process ends."""

    def passes_soon(self, count: int) -> bool:
        """Whether operation `count` has completed; may take some microseconds to find out.

        Holds neither the interpreter nor the queue meanwhile. Any thread may ask.
        """

    def when_completed(self, count: int, tell: Tell) -> None:
        """Call `tell` once, on a thread of the backend, when operation `count` has completed."""

    def order_after(self, other: Self, count: int) -> int:
        """Make work put from now on wait for operation `count` of another queue.

        Gives back the last operation of the other queue that the wait includes.
        """

    def take_error(self, count: int) -> BaseException | None:
        """What operation `count` raised while it ran, once."""

    def hold(self) -> Hold:
        """Stop before whatever is put next, until released. For tests."""

    def end_holds(self) -> None:
        """Release every hold: the process ends."""

    def stamp(self) -> Stamp:
        """Note the time when everything put so far has completed."""

    def restart(self) -> None:
        """Go on in a forked child, where no thread of the parent runs."""

    def allocate(self, nbytes: int, pool: Any) -> _A:
        """Memory of one of the backend's pools that work put from now on may use."""

    def free(self, allocation: _A, pool: Any) -> None:
        """Give memory back to its pool after everything put so far."""

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
    """The backend's side of a graph: nodes with their work fixed, to be launched often.

    Recipes get something that work can be put on as on a queue; what allocates there is refused.
    """

    def change(self, node: int, recipe: Recipe) -> bool:
        """Give a node other work of the same kind, for launches from now on; False if that fails.

        After False the graph is in between and must not be launched again.
        """

    def launch(self, queue: Any) -> Mapping[int, BaseException]:
        """Put all nodes on a queue; gives what each raised, known when they have completed."""

    def destroy(self) -> None:
        """Give everything back; no launch is under way."""


class PoolStatistics(NamedTuple):
    """Bytes of a pool: what tensors hold, and what was taken from the system for them."""

    used: int
    highest_used: int
    reserved: int
    highest_reserved: int


class BackendPool(Protocol):
    """The backend's side of a memory pool."""

    def statistics(self) -> PoolStatistics:
        """How much is in use."""

    def trim(self, keep: int) -> None:
        """Give unused memory back, all but `keep` bytes."""

    def reset_highest(self) -> None:
        """Let the highest numbers start again."""


class Backend(Protocol):
    """One opened device."""

    @property
    def target(self) -> str:
        """What code is compiled for: `cpu`, `sm_90`."""

    @property
    def runs(self) -> str:
        """What programs for it are made by: a kind of backend."""

    @property
    def can_run(self) -> bool:
        """Whether it has memory and runs programs at all."""

    def resident_blocks(self, occupancy: int = 1, num_ctas: int = 1) -> int:
        """Blocks that run at once: so many share a multiprocessor, or one takes several."""

    @property
    def survives_fork(self) -> bool:
        """Whether a forked child may go on using it."""

    def new_queue(self, label: str) -> Queue[Any]:
        """A queue that is ordered with no other."""

    def adopt_queue(self, number: int) -> Queue[Any]:
        """A stream of another library, by the driver's number."""

    def new_pool(self, release_threshold: int | None, limit: int | None) -> BackendPool:
        """A memory pool of its own; None leaves a number to the backend."""

    def build_graph(self, nodes: Sequence[tuple[Recipe, tuple[int, ...]]]) -> BackendGraph:
        """A graph of nodes, each with those before it that must have completed."""

    def take_record(self) -> FailureRecord:
        """A failure record that says "no failure"."""

    @property
    def needs_staging(self) -> bool:
        """Whether a copy from or to any host memory keeps the calling thread until it is done."""

    def stage(self, nbytes: int) -> Bytes | None:
        """Host memory that is copied from and to like any other; None if there is none."""

    def adopt(self, address: int, nbytes: int, *, read_only: bool) -> Allocation:
        """Memory that somebody else owns and keeps."""

    def end(self) -> None:
        """The process ends, and all work has completed: end what runs beside it."""

    def owner_of(self, address: int) -> int:
        """The number of the device of this kind that an address belongs to."""


class BackendModule(Protocol):
    """What `tilewright.backends.<kind>.device` provides."""

    missing: Callable[[], str | None]
    open_device: Callable[[int], Backend]


def load_backend(kind: str) -> BackendModule:
    """The backend of a kind of device."""
    if kind not in KINDS:
        kinds = " or ".join(repr(known) for known in KINDS)
        raise LaunchError(f"there is no device of kind {kind!r}: say {kinds}")
    return cast("BackendModule", load_module(f"tilewright.backends.{kind}.device"))

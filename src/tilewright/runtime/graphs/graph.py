"""Graphs: operations recorded once and replayed any number of times.

Recording only fills a list. When the block ends, lazy tensors get their bytes and the backend's
graph is built node by node, with an edge for each conflict; an exception before that has nothing to
undo. A built graph keeps its memory alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import partial
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import ref

from tilewright.errors import LaunchError
from tilewright.given import as_int, shown
from tilewright.runtime.devices.context import INTERCEPTED, Exit, Setting
from tilewright.runtime.devices.device import Device, current_device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.built_graph import BuiltGraph, allocate_jobs
from tilewright.runtime.graphs.recording import (
    Job,
    RecordedBlock,
    Tape,
    block_is_open,
    graph_maker,
    is_recording,
    recording_on,
    refuse_recorded,
)
from tilewright.runtime.interop.streams import in_their_order, library_streams
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import CallSite, user_frame
from tilewright.runtime.ops.lifecycle import Ends, State, run_steps
from tilewright.runtime.ops.operation import DeviceOp
from tilewright.runtime.ops.refusals import OnlyOne
from tilewright.runtime.ops.single import SingleOp
from tilewright.runtime.order.borrow import Borrow
from tilewright.runtime.order.critical import critical, reentered
from tilewright.runtime.order.deferred import DeferredCall
from tilewright.runtime.order.failure import Fence

__all__ = ["Graph", "Replay", "ReplayHolder", "graph"]


T = TypeVar("T")


class _Phase(Enum):
    """The phase of a graph; the values say why it cannot be used in it."""

    NEW = "has not been recorded: `with tw.graph() as g: g.record(…)`"
    RECORDING = "is still being recorded: end its block first"
    BUILT = "has been recorded already, and records no more: make another"
    ABANDONED = "was given up by an exception while it was recorded: record it again"


class Graph(OnlyOne):
    """Operations that run together, repeatedly, at the cost of one launch."""

    not_copied = "a graph is recorded once and is not copied: record another"
    not_pickled = "a graph belongs to this process and is not pickled: record it where it runs"

    def __init__(self) -> None:
        self._phase = _Phase.NEW
        self._device: Device | None = None  # of the first operation
        self._jobs: list[Job] = []
        self._results: tuple[Any, ...] = ()
        self._only: dict[int, int] = {}  # node to result, for operations that are one node
        self._built: BuiltGraph | None = None
        self._block: Setting[RecordedBlock] | None = None
        self.exit: ref[Any] | None = None  # of the `with` statement that began last
        self._exit: ref[Any] | None = None  # of the `with` statement that records it

    # --- recording ---

    def __enter__(self) -> Self:
        if self._look_up() is not _Phase.NEW:
            raise LaunchError(f"this graph {self._phase.value}")
        block, self._exit = recording_on(self._jobs), self.exit
        block.open(self._exit)
        self._block, self._phase = block, _Phase.RECORDING
        return self

    def _leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._block is not None, "a block that ends has begun"
        self._block.given.is_open = False
        self._block.close()
        jobs, self._jobs, self._block = self._jobs, [], None
        self._phase = _Phase.ABANDONED
        if error is None:
            device = self._device or current_device()
            with device.lock:
                device.check_open()
                device.settle_deferred()
                allocate_jobs(device, jobs)
                self._built = critical(device, "building a graph", BuiltGraph, device, jobs)
            self._phase = _Phase.BUILT

    __exit__ = Exit(_leave)

    def _look_up(self) -> _Phase:
        """The current phase; a signal handler may have ended the block without `__exit__`."""
        is_gone = self._exit is not None and self._exit() is None
        if self._phase is _Phase.RECORDING and is_gone:
            self._phase, self._jobs, self._block = _Phase.ABANDONED, [], None
        return self._phase

    def record(self, operation: DeviceOp[T]) -> T:
        """Add a built operation without running it; gives its result handles.

        Its borrows are released, so that the next operation may use its outputs: replays run
        conflicting operations in the order of recording. Chains and zips are recorded part by part.
        """
        if self._look_up() is not _Phase.RECORDING:
            raise LaunchError(f"this graph {self._phase.value}")
        if not is_recording(self._jobs):
            raise LaunchError(
                "a graph records operations of its block's thread and task, and this is another"
            )
        _check_operation(operation, self._device)
        jobs, result = _tape(operation)
        self._device = operation.device
        if len(jobs) == 1:
            self._only[len(self._jobs)] = len(self._results)
        self._jobs += jobs
        self._results += (result,)
        return result

    # --- using ---

    @property
    def results(self) -> tuple[Any, ...]:
        """The results of `record`, one per operation; a replay fills their contents."""
        return self._results

    def launch(self) -> DeviceOp[tuple[Any, ...]]:
        """An operation that replays the graph once and gives `results`."""
        built = self._built or self._ready()
        return Replay().build(built, self._results)

    def update(self, operation: DeviceOp[Any], node: int | None = None) -> None:
        """Give one node other tensors or numbers, for all later replays.

        The operation is of the same kernel, compiled alike. `node` is the node's number in the
        order of recording, required if several nodes run the kernel.
        """
        built = self._ready()
        _check_operation(operation, built.device)
        label, site = operation.label, operation.site
        number = _find_node(built, label, node)
        with built.device.lock:
            built.device.check_open()  # before the operation is taken
        jobs, result = _tape(operation)
        if len(jobs) != 1:
            raise LaunchError(
                f"{label}, built at {site}, consists of {len(jobs)} operations with work of their"
                " own, and an update changes one node: update with each by itself"
            )
        with built.device.lock:
            built.device.settle_deferred()
            allocate_jobs(built.device, jobs)
            by = ReplayHolder(label, site.code, site.instruction)
            critical(built.device, "updating a graph", built.update, number, jobs[0], by)
        if number in self._only:
            place = self._only[number]
            self._results = (*self._results[:place], result, *self._results[place + 1 :])

    def _ready(self) -> BuiltGraph:
        if self._built is None:
            raise LaunchError(f"this graph {self._look_up().value}")
        return self._built

    def __len__(self) -> int:
        """Number of operations that are nodes."""
        return len(self._jobs) if self._built is None else len(self._built.nodes)

    def __bool__(self) -> bool:
        """True, also for a graph without operations."""
        return True

    def __repr__(self) -> str:
        phase = self._look_up()
        return f"<graph of {len(self)} operations: {phase.name.lower()}>"


def graph() -> Graph:
    """Record a graph: `with tw.graph() as g: g.record(op)`, and then `g.launch().sync()`."""
    return Graph()


def _check_operation(operation: Any, device: Device | None) -> None:
    if not isinstance(operation, DeviceOp):
        raise LaunchError(
            f"a graph consists of operations, and this is {type(operation).__name__}: give it"
            " the result of a kernel call"
        )
    if device is not None and operation.device is not device:
        raise LaunchError(
            f"{operation.name} runs on {operation.device.name}, and this graph on {device.name}:"
            " record a graph for each"
        )


def _tape(operation: DeviceOp[T]) -> tuple[list[Job], T]:
    """The work that an operation puts on a capture stream, and its result."""
    was_built = operation.state is State.BUILT
    try:
        operation.take()
        tape = Tape(operation.device)
        operation.compile()
        result = run_steps(operation, tape, Ends())
        operation.mark_recorded()
    except BaseException as error:
        if was_built:
            operation.abandon(error)
        raise
    return tape.jobs, result


def _find_node(built: BuiltGraph, label: str, node: int | None) -> int:
    alike = [number for number, one in enumerate(built.nodes) if one.label == label]
    if node is not None:
        return _check_node(built, label, _as_number(node), alike)
    if len(alike) != 1:
        raise LaunchError(
            f"an update with {label} changes a node that runs it, and {_listed(alike)}"
            + (": say which, `g.update(op, node=…)`" if alike else ": record the graph again")
        )
    return alike[0]


def _as_number(node: Any) -> int:
    try:
        if not isinstance(node, bool):
            return as_int(node)
    except TypeError:
        pass
    raise LaunchError(
        f"node={shown(node)}: nodes of a graph are counted from 0 in the order of recording"
    )


def _check_node(built: BuiltGraph, label: str, node: int, alike: list[int]) -> int:
    """The number of a node, if it runs the operation of an update."""
    if node in alike:
        return node
    if 0 <= node < len(built.nodes):
        raise LaunchError(
            f"node {node} of the graph runs {built.nodes[node].label}, and an update with {label}"
            f" changes a node that runs that: {_listed(alike)}"
        )
    raise LaunchError(
        f"the graph has {len(built.nodes)} nodes, counted from 0, and no node {shown(node)}: an"
        f" update with {label} changes a node that runs it, and {_listed(alike)}"
    )


def _listed(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"node {numbers[0]} does"
    return f"nodes {', '.join(map(str, numbers))} do" if numbers else "no node does"


def _graph_of(operation: DeviceOp[Any]) -> Graph:
    with Graph() as made:
        made.record(operation)
    return made


graph_maker.make = _graph_of


# --- replays --------------------------------------------------------------------------------------


# Looking up members of an enumeration is slow.
_BUILT, _TAKEN, _CLOSED = State.BUILT, State.TAKEN, State.CLOSED
_LABEL = "graph replay"


class ReplayHolder:
    """A built replay, or an update of a graph, as messages of other operations name it."""

    __slots__ = ("code", "instruction", "label")

    state = Borrow.state

    def __init__(self, label: str, code: CodeType, instruction: int) -> None:
        self.label = label
        self.code, self.instruction = code, instruction

    @property
    def site(self) -> CallSite:
        """The line that built it."""
        return CallSite(self.code, self.instruction)


class Replay(SingleOp[tuple[Any, ...]]):
    """All operations of a graph once more, by `Replay().build(…)`; gives the recorded results."""

    __slots__ = ("_graph", "_holder")

    _graph: BuiltGraph | None  # until it is submitted
    _holder: ReplayHolder

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    else:
        __init__ = object.__init__  # `build` sets all attributes, which saves a Python call

    def build(self, graph: BuiltGraph, results: tuple[Any, ...], depth: int = 2) -> Self:
        """Hold the access, for the user's call `depth` frames up or further."""
        self._state = _CLOSED
        self.label = _LABEL
        self.device = device = graph.device
        self._chosen = self._outcome = None
        self._result = results
        self._graph = graph
        self._count = 0
        frame = user_frame(depth + 1)
        self._holder = holder = ReplayHolder(_LABEL, frame.f_code, frame.f_lasti)
        with device.lock:
            if device.busy is not None:
                raise reentered(device)
            try:
                if device.deferred or device.forked:
                    device.check_open()
                    device.settle_deferred()
                device.busy = self.label
                access = graph.access
                is_quick = access.quick_stream is not None and not access.holders
                if is_quick and access.conflicting:
                    is_quick = access.first_conflict() is None
                if is_quick and (not access.direct or access.pause_direct()):
                    access.holders.append(holder)
                else:
                    graph.acquire(holder)
                self._state = _BUILT
            except BaseException:
                graph.access.release(holder)
                self._graph = None
                raise
            finally:
                device.busy = None
        return self

    @property
    def site(self) -> CallSite:
        """The line that built it."""
        return self._holder.site

    def compile(self) -> Self:
        """Do nothing: the kernels were compiled when the graph was recorded."""
        return self

    def give_back(self) -> None:
        """Release the access. The device's lock is held."""
        if self._graph is not None:
            self._graph.access.release(self._holder)
        self._graph = None

    def put(self, stream: Stream) -> None:
        """Launch the graph on a stream."""
        graph = self._graph
        assert graph is not None, "a built replay has its graph"
        if graph.access.quick_stream is stream and not INTERCEPTED.values:
            self._stream, self._count = stream, graph.replay_again(stream)
            return
        if isinstance(stream, Tape):
            raise LaunchError(
                f"{self.name} cannot be recorded: a graph has operations as its nodes, and no"
                " graphs. Record the operations themselves"
            )
        if block_is_open():
            members = [access.member for access in graph.access.timelines]
            refuse_recorded(((m.storage, c.region) for m in members for c in m.claims), self.name)
        if stream.queue.is_capturing():
            raise LaunchError(
                f"{self.name} cannot be recorded into a CUDA graph of another library, which has"
                " operations as its nodes: submit the operations themselves there"
            )
        with in_their_order(stream, library_streams(self.storages())):
            graph.replay(stream, self._end_at)

    def _end_at(self, fence: Fence) -> None:
        self._stream, self._count, self._outcome = fence.stream, fence.count, fence.outcome

    def storages(self) -> Iterable[Storage]:
        """Storages that name the streams of all libraries whose arrays the graph uses."""
        return () if self._graph is None else self._graph.foreign.speakers

    def __del__(self) -> None:
        # No lock: the collector may run this at any point.
        if self._graph is not None and (self._state is _BUILT or self._state is _TAKEN):
            release = partial(self._graph.access.release, self._holder)
            self.device.deferred.append(DeferredCall(release))
            self.warn_if_never_run()

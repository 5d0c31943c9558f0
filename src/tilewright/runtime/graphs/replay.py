"""A replay of a graph: an operation that holds the graph's access while it is built."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any, Self

from tilewright.errors import LaunchError
from tilewright.runtime.devices.context import INTERCEPTED
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.built_graph import BuiltGraph
from tilewright.runtime.graphs.recording import Tape, block_is_open, refuse_recorded
from tilewright.runtime.interop.streams import in_their_order, library_streams
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import CallSite, user_frame
from tilewright.runtime.ops.lifecycle import State
from tilewright.runtime.ops.single import SingleOp
from tilewright.runtime.order.borrow import Borrow
from tilewright.runtime.order.critical import reentered
from tilewright.runtime.order.deferred import DeferredCall
from tilewright.runtime.order.failure import Fence

__all__ = ["Replay", "ReplayHolder"]

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

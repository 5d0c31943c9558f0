"""A replay of a graph: an operation like any other, which holds the graph's lease while built."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tilewright.errors import LaunchError
from tilewright.runtime.devices.context import UNUSUAL
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.graphs.built_graph import BuiltGraph
from tilewright.runtime.graphs.recording import Tape, block_is_open
from tilewright.runtime.interop.streams import in_their_order, library_streams
from tilewright.runtime.memory.storage import Storage
from tilewright.runtime.ops.call_site import Site, user_frame
from tilewright.runtime.ops.lifecycle import State
from tilewright.runtime.ops.work import SingleOp
from tilewright.runtime.order.failure import Fence
from tilewright.runtime.order.tickets import Ticket

__all__ = ["Replay"]

# Members of an enumeration are slow to find.
_BUILT, _TAKEN, _CLOSED, _SUBMITTED = State.BUILT, State.TAKEN, State.CLOSED, State.SUBMITTED


class _Holder:
    """A built replay as others see it."""

    __slots__ = ("code", "instruction")

    code: CodeType
    instruction: int
    label = "graph replay"
    state = Ticket.state

    @property
    def site(self) -> Site:
        """Where it was built."""
        return Site(self.code, self.instruction)


class Replay(SingleOp[tuple[Any, ...]]):
    """All operations of a graph once more: `Replay().build(…)`; gives what recording them gave."""

    __slots__ = ("_count", "_fence", "_graph", "_holder", "_stream")

    _graph: BuiltGraph | None  # until it is submitted
    _holder: _Holder
    _fence: Fence | None  # where it ends, if that had to be looked at
    _stream: Stream  # the same otherwise
    _count: int

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    else:
        __init__ = object.__init__  # `build` sets everything: that saves Python a call

    def build(self, graph: BuiltGraph, results: tuple[Any, ...], depth: int = 2) -> Self:
        """Begin to hold the lease, for a call that is so many calls up, or further."""
        self._state = _CLOSED
        self.label = _Holder.label
        self.device = device = graph.device
        self._chosen = None
        self._result = results
        self._graph = graph
        self._fence = None
        self._count = 0
        frame = user_frame(depth + 1)
        self._holder = holder = _Holder()
        holder.code, holder.instruction = frame.f_code, frame.f_lasti
        try:
            with device.lock:
                lease, replays = graph.lease, device.replays
                if (
                    not (lease.rivals and lease.first_rival() is not None)
                    and device.replays == replays  # nor has a finaliser built any meanwhile
                    and lease.calm is not None
                    and not lease.holders
                    and device.latest is None
                    and not device.notes
                    and not device.is_barred
                ):
                    if lease.at_home:
                        device.latest = graph.claim
                    device.replays += 1
                    lease.holders.append(holder)
                else:
                    device.check_open()
                    device.settle_notes()
                    graph.acquire(holder)
                self._state = _BUILT
        except BaseException:
            self._give_up()
            raise
        return self

    def _give_up(self) -> None:
        """Hold nothing: it could not be built, or a signal has raised meanwhile."""
        with self.device.lock:
            self._state = _CLOSED
            if self._graph is not None and self._holder in self._graph.lease.holders:
                self.give_back()
            self._graph = None

    @property
    def site(self) -> Site:
        """Where it was built."""
        return self._holder.site

    @property
    def fence(self) -> Fence | None:
        """Where it ends."""
        return Fence(self._stream, self._count, None) if self._count else self._fence

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the replay to a stream without waiting."""
        device, graph = self.device, self._graph
        usual = None if device.current.said else device.default
        chosen = stream if stream is not None else self._chosen or usual or device.stream
        with device.lock:
            try:
                if graph is not None and graph.lease.calm is chosen and chosen.has_loose_ends:
                    chosen.settle(ask=False)  # before anything is asked: it may end other things
                if (
                    graph is not None
                    and self._state is _BUILT
                    and graph.lease.calm is chosen
                    and not UNUSUAL.said
                    and not device.notes
                    and not device.is_barred
                ):
                    self._count = graph.replay_again(chosen)
                    self._stream = chosen
                    graph.lease.holders.remove(self._holder)
                    if device.latest is graph.claim:
                        device.latest = None
                    self._graph = None
                    self._state = _SUBMITTED
                    return self
            except BaseException as error:
                self.abandon(error)
                raise
        return super().submit(stream)

    def compile(self) -> Self:
        """Nothing: that was done when the graph was recorded."""
        return self

    def give_back(self) -> None:
        """Give the lease back. The device's lock is held."""
        if self._graph is not None:
            self._graph.release(self._holder)
        self._graph = None

    def put(self, stream: Stream) -> None:
        """Launch the graph on a stream."""
        if isinstance(stream, Tape):
            raise LaunchError(
                f"{self.name} cannot be recorded: a graph has operations as its nodes, and no"
                " graphs. Record the operations themselves"
            )
        graph = self._graph
        assert graph is not None, "a built replay has its graph"
        if block_is_open():
            graph.refuse_recorded(self.name)
        if stream.queue.is_capturing():
            raise LaunchError(
                f"{self.name} cannot be recorded into a CUDA graph of another library, which has"
                " operations as its nodes: submit the operations themselves there"
            )
        theirs = library_streams(self.storages())
        with in_their_order(stream, theirs):
            graph.replay(stream, self._end_at)

    def _end_at(self, fence: Fence) -> None:
        self._fence = fence

    def storages(self) -> Iterable[Storage]:
        """Memory of other libraries that the graph uses: enough to ask for all their streams."""
        return () if self._graph is None else self._graph.guests.speakers

    def __del__(self) -> None:
        # No lock here: the collector may run this anywhere.
        if self._graph is not None and (self._state is _BUILT or self._state is _TAKEN):
            self.device.notes.append(_Dropped(self._graph, self._holder))
            self.warn_if_never_run()


class _Dropped(NamedTuple):
    """A built replay that was dropped."""

    graph: BuiltGraph
    holder: _Holder
    may_be_repeated: bool = True

    def settle(self) -> None:
        """Give its lease back."""
        self.graph.release(self.holder)

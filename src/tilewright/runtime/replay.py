"""A replay of a graph: an operation like any other, which holds the graph's lease while built."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from tilewright.errors import LaunchError
from tilewright.runtime.built_graph import BuiltGraph
from tilewright.runtime.failures import Fence
from tilewright.runtime.handshake import in_their_order, library_streams
from tilewright.runtime.lifecycle import State
from tilewright.runtime.recording import Tape, block_is_open
from tilewright.runtime.sites import Site, user_site
from tilewright.runtime.storage import Storage
from tilewright.runtime.stream import Stream
from tilewright.runtime.surroundings import UNUSUAL
from tilewright.runtime.tickets import Ticket
from tilewright.runtime.work import SingleOp

__all__ = ["Replay"]

_BUILT = State.BUILT  # members of an enumeration are slow to find


class Replay(SingleOp[tuple[Any, ...]]):
    """All operations of a graph once more; gives what recording them gave."""

    __slots__ = ("_fence", "_graph", "_holder")

    _fence: Fence | None

    def __init__(self, graph: BuiltGraph, results: tuple[Any, ...]) -> None:
        super().__init__("graph replay", graph.device)
        self._graph: BuiltGraph | None = graph
        self._fence = None
        self._holder = Ticket(self.label, user_site())
        self._result = results
        with self.device.lock:
            self.device.check_usable()
            self.device.settle_notes()
            graph.acquire(self._holder)
            self._state = State.BUILT

    @property
    def site(self) -> Site:
        """Where it was built."""
        return self._holder.site

    @property
    def fence(self) -> Fence | None:
        """Where it ends."""
        return self._fence

    def submit(self, stream: Stream | None = None) -> Self:
        """Hand the replay to a stream without waiting."""
        device, lock = self.device, self.device.lock
        chosen = stream or self._chosen or device.stream
        lock.acquire()  # costs a third of `with`
        try:
            is_usual = device.notes.empty() and not UNUSUAL.get() and not device.forked
            if is_usual and self._state is _BUILT and self._put_again(chosen):
                self._state = State.SUBMITTED
                return self
        except BaseException as error:
            self.abandon(error)
            raise
        finally:
            lock.release()
        return super().submit(stream)

    def _put_again(self, stream: Stream) -> bool:
        """Launch behind the last replay, if that is all there is to do. The lock is held."""
        assert self._graph is not None, "a built replay has its graph"
        self._fence = self._graph.replay_again(stream)
        if self._fence is not None:
            self.give_back()
        return self._fence is not None

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
        self.give_back()
        with in_their_order(stream, theirs):
            self._fence = graph.replay(stream)

    def storages(self) -> Iterable[Storage]:
        """The memory of other libraries that the graph uses."""
        return () if self._graph is None else self._graph.foreign_storages()

    def __del__(self) -> None:
        # No lock here: the collector may run this anywhere.
        if self._state in (State.BUILT, State.TAKEN) and self._graph is not None:
            self.device.notes.put(_Dropped(self._graph, self._holder))
            self.warn_if_never_run()


class _Dropped(NamedTuple):
    """A built replay that was dropped."""

    graph: BuiltGraph
    holder: Ticket

    def settle(self) -> None:
        """Give its lease back."""
        self.graph.release(self.holder)

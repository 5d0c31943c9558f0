"""Repeated launches, each by the faster of two ways, as a part of the real driver.

A launch costs the host about twice as much as a graph of one equivalent node, whose parameters the
driver has laid out in advance. But a kernel of a graph begins after all its predecessors have
ended, and a launch may start early. On an idle stream the host is the bottleneck, and a graph is
faster; on a busy stream an early start is. The stream is queried now and then.

The driver never runs a graph twice at a time. On one stream this has no effect; on another stream
the second launch would wait for the first without need. So a graph stays with its stream.
"""

# The package is compiled and has no stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from queue import SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary

from cuda.bindings import driver as cu

from tilewright.backends.cuda.capture_bindings import beside_captures
from tilewright.backends.cuda.driver import Parameters
from tilewright.backends.cuda.graph_bindings import GraphCalls
from tilewright.backends.cuda.launch_bindings import LaunchCalls, call_again
from tilewright.errors import DriverError
from tilewright.runtime.devices.function import LaunchShape, ReadyCall

__all__ = ["ReadyCalls"]

_SUCCESS = cu.CUresult.CUDA_SUCCESS
# Launches between queries of a stream: making a graph costs as much as twenty launches by it save.
_LAUNCHES = 32
# Polls of one query: a launch made just before takes about that long to end.
_QUESTIONS = 8
# Graphs of one node that a GPU keeps; each takes about 110 KiB of its memory.
_MOST = 256
# Graphs for which room is made at a time.
_PLACES = 32

# An executable graph, and the graph it was made of.
_Handles = tuple[Any, Any]
# A driver call with its arguments, and its name in messages; immutable. It is a plain tuple, which
# is unpacked faster.
_Way = tuple[Callable[..., tuple[Any]], tuple[Any, ...], str]


class ReadyCalls(LaunchCalls, GraphCalls):
    """Launches and graphs on one GPU, and launches that are either."""

    def prepare_launch(self, kernel: Any, blocks: int, parameters: Parameters) -> ReadyCall:
        """Return a launch as a function of one of our streams; it keeps the parameters alive.

        Launches happen under the device's lock, and most are on the stream of the previous one. A
        finaliser may make the same launch on another stream in the middle of this function, which
        therefore keeps its own choice in a local.
        """
        ready = _ReadyLaunch(self, kernel, blocks, parameters)
        if parameters.may_change:
            return self._prepare_changing(ready)
        last: Any = None
        way: Any = None
        left = 0

        def launch(stream: Any, _: object) -> None:
            nonlocal last, left, way
            left -= 1
            if left < 0 or stream is not last:
                is_another, last = stream is not last, None  # none after an exception
                way = ready.choose(stream, is_another=is_another)
                last, left = stream, _LAUNCHES
            call, given, name = way
            (code,) = call(*given)
            if code is not _SUCCESS:
                call_again(self, name, code, stream.queue.handle, partial(call, *given))

        return launch

    def _prepare_changing(self, ready: _ReadyLaunch) -> ReadyCall:
        """Return the same with new parameters each time, which would need a new graph each time."""
        launch_kernel = cu.cuLaunchKernelEx
        last: Any = (None, None)  # a stream, and its way to launch

        def launch(stream: Any, _: object) -> None:
            nonlocal last
            chosen = last  # immutable, whatever a finaliser launches meanwhile
            if chosen[0] is not stream:
                last = chosen = stream, ready.as_launch(stream.queue)
            _, given, name = chosen[1]
            (code,) = launch_kernel(*given)
            if code is not _SUCCESS:
                again = partial(launch_kernel, *given)
                call_again(self, name, code, stream.queue.handle, again)

        return launch

    context_id: int  # unique over the life of the process

    @abstractmethod
    def make_room(self, places: int) -> None:
        """Reserve places for streams or branches of graphs; this may wait for the GPU."""

    @cached_property
    def graphs(self) -> _Graphs:
        """All graphs of one node on this GPU."""
        return _Graphs(self)


class _ReadyLaunch:
    """One launch and both ways to make it. The device's lock is held."""

    __slots__ = (
        "_blocks", "_driver", "_graph", "_kernel", "_launches", "_may_have_graph", "_parameters",
    )  # fmt: skip

    def __init__(
        self, driver: ReadyCalls, kernel: Any, blocks: int, parameters: Parameters
    ) -> None:
        self._driver, self._kernel, self._blocks = driver, kernel, blocks
        self._parameters = parameters
        self._may_have_graph = True
        self._graph: _OneNode | None = None
        # Weak keys, because a stream that is kept alive occupies resources of the GPU.
        self._launches: WeakKeyDictionary[Any, _Way] = WeakKeyDictionary()

    def choose(self, stream: Any, *, is_another: bool) -> _Way:
        """Return the way to launch on a stream: by a graph or by a launch."""
        may_be_graph = self._may_have_graph and not is_another
        if may_be_graph and _catches_up(self._driver, stream.queue.handle):
            graph = self._find_graph(stream)
            if graph is not None:
                return graph.way
        return self.as_launch(stream.queue)

    def as_launch(self, queue: Any) -> _Way:
        """Return the way to launch on a stream by a launch."""
        launch = self._launches.get(queue)
        if launch is None:
            given = self._shape(queue), self._kernel.handle, self._parameters.address, 0
            launch = self._launches[queue] = cu.cuLaunchKernelEx, given, "cuLaunchKernelEx"
        return launch

    def _shape(self, queue: Any) -> Any:
        """Return the configuration of a one-dimensional grid on a stream."""
        shape = cu.CUlaunchConfig()
        shape.gridDimX, shape.gridDimY, shape.gridDimZ = self._blocks, 1, 1
        shape.blockDimX = shape.blockDimY = shape.blockDimZ = 1
        shape.hStream = queue.handle.handle
        # On its own streams another library may rely on full serialisation.
        if self._kernel.waits and not queue.is_adopted:
            shape.attrs = [_starts_early()]
            shape.numAttrs = 1
        return shape

    def _find_graph(self, stream: Any) -> _OneNode | None:
        """Return the graph for a stream, made when the GPU allows it; None if there is none now."""
        if self._graph is None:
            graphs, address = self._driver.graphs, self._parameters.address
            try:
                if _others_have_ended(stream):
                    self._graph = graphs.make(self._kernel, self._blocks, address, stream.queue)
            except DriverError:  # launches work without a graph, and report an error of the GPU
                self._may_have_graph = False
        has_one = self._graph is not None and self._graph.queue is stream.queue
        return self._graph if has_one else None


class _OneNode:
    """A graph of one launch on one stream; it is destroyed when its last reference is gone."""

    __slots__ = ("_handles", "_left_behind", "queue", "way")

    def __init__(
        self, driver: ReadyCalls, handles: _Handles, queue: Any, left_behind: SimpleQueue[_Handles]
    ) -> None:
        self._handles, self._left_behind = handles, left_behind
        self.queue = queue
        executable, stream = handles[0], queue.handle.handle
        if queue.handle.has_context:
            self.way: _Way = cu.cuGraphLaunch, (executable, stream), "cuGraphLaunch"
        else:
            self.way = _launch_bound, (driver, executable, stream), "cuGraphLaunch"

    def __del__(self) -> None:
        # The garbage collector may run this anywhere: no lock, and no driver call.
        self._left_behind.put(self._handles)


class _Graphs:
    """The graphs of one node on one GPU. The device's lock is held."""

    def __init__(self, driver: ReadyCalls) -> None:
        self._driver = driver
        self._count = self._places = 0
        self._left_behind: SimpleQueue[_Handles] = SimpleQueue()

    def make(self, kernel: Any, blocks: int, parameters: int, queue: Any) -> _OneNode | None:
        """Return a new graph for a stream, or None if there are enough. Our streams are idle."""
        self._give_back()
        if self._count >= _MOST:
            return None
        driver = self._driver
        if self._count >= self._places:
            driver.make_room(2 * _PLACES)  # so that these graphs leave the places of others free
            self._places = self._count + _PLACES
        graph = driver.create_graph()
        try:
            shape = LaunchShape.of_blocks(blocks)
            driver.add_launch_node(graph, [], kernel, shape, parameters)
            executable = driver.instantiate_graph(graph)
        except BaseException:
            driver.destroy_graph(graph)
            raise
        self._count += 1
        return _OneNode(driver, (executable, graph), queue, self._left_behind)

    def _give_back(self) -> None:
        """Destroy unreferenced graphs; the driver frees those in flight when they end."""
        while not self._left_behind.empty():
            executable, graph = self._left_behind.get()
            self._count -= 1
            self._driver.destroy_executable_graph(executable)
            self._driver.destroy_graph(graph)


def _launch_bound(driver: ReadyCalls, executable: Any, stream: Any) -> tuple[Any]:
    """Launch a graph on the default stream of its own context.

    In any other context the driver refuses a launch, but not a graph: it would run after the work
    on that context's default stream, which may be on another GPU.
    """
    if cu.cuCtxGetId(None)[1] != driver.context_id:
        driver.bind()
    launched: tuple[Any] = cu.cuGraphLaunch(executable, stream)
    return launched


@beside_captures
def _catches_up(driver: LaunchCalls, stream: Any) -> bool:
    """Whether a stream is idle, or soon will be."""
    if not stream.has_context:
        driver.bind()  # else the default stream of another context would be queried
    return any(cu.cuStreamQuery(stream.handle)[0] is _SUCCESS for _ in range(_QUESTIONS))


def _others_have_ended(stream: Any) -> bool:
    """Whether no other stream is busy: creating a graph may wait for all of them."""
    return all(other is stream or other.has_ended() for other in stream.device.streams)


def _starts_early() -> Any:
    """Return the attribute of a kernel that itself waits for its predecessor on the stream."""
    attribute = cu.CUlaunchAttribute()
    attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    return attribute

"""Launches made over and over, each by the quicker of two ways, as a part of the real driver.

A launch costs the host about twice as much as a graph of one node that does the same: the driver
has laid out its parameters before. But a kernel of a graph begins when all before it has ended, and
a launch may start early. So it matters who waits: where a stream has nothing to do when a launch
comes, the host is what takes the time, and a graph is better; where it is still busy, an early
start is. The stream is asked now and then.

The driver never runs a graph twice at a time. On one stream that changes nothing, and on another
one it would wait for the first, as nobody has asked it to: so a graph stays with its stream.
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
# Launches until a stream is asked again: a graph takes as long to make as it saves in twenty.
_LAUNCHES = 32
# Times that it is asked: a launch that came just before takes as long until it has ended.
_QUESTIONS = 8
# Graphs of one node that a GPU keeps; each takes some 110 KiB of its memory.
_MOST = 256
# Graphs that room is made for at a time.
_PLACES = 32

# A graph that can be launched, and the one that it was made of.
_Handles = tuple[Any, Any]
# A call of the driver with all that it takes, and how it is called in messages. Nothing of it ever
# changes. It is a plain tuple since those are taken apart faster.
_Way = tuple[Callable[..., tuple[Any]], tuple[Any, ...], str]


class ReadyCalls(LaunchCalls, GraphCalls):
    """Launches and graphs on one GPU, and launches that are either."""

    def prepare_launch(self, kernel: Any, blocks: int, parameters: Parameters) -> ReadyCall:
        """A launch as a function of a stream of ours; it keeps the parameters.

        Launches happen under the device's lock, and most are on the stream of the one before. A
        finaliser may make the same launch on another stream in the middle of this: whatever it
        chooses, this one goes where it was going.
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
                is_another, last = stream is not last, None  # if this breaks off, all is open
                way = ready.choose(stream, is_another=is_another)
                last, left = stream, _LAUNCHES
            call, given, name = way
            (code,) = call(*given)
            if code is not _SUCCESS:
                call_again(self, name, code, stream.queue.handle, partial(call, *given))

        return launch

    def _prepare_changing(self, ready: _ReadyLaunch) -> ReadyCall:
        """The same with other parameters each time: a graph would have to be laid out anew."""
        launch_kernel = cu.cuLaunchKernelEx
        last: Any = (None, None)  # a stream, and how to launch on it

        def launch(stream: Any, _: object) -> None:
            nonlocal last
            chosen = last  # of which nothing changes, whatever a finaliser launches meanwhile
            if chosen[0] is not stream:
                last = chosen = stream, ready.as_launch(stream.queue)
            _, given, name = chosen[1]
            (code,) = launch_kernel(*given)
            if code is not _SUCCESS:
                again = partial(launch_kernel, *given)
                call_again(self, name, code, stream.queue.handle, again)

        return launch

    context_id: int  # which none has had before, and none has after

    @abstractmethod
    def make_room(self, places: int) -> None:
        """Have room for so many more streams, or branches of graphs; it may wait for the GPU."""

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
        # By stream, which may end: one that is kept takes up some of the GPU.
        self._launches: WeakKeyDictionary[Any, _Way] = WeakKeyDictionary()

    def choose(self, stream: Any, *, is_another: bool) -> _Way:
        """How to launch on a stream, by graph or by launch."""
        may_be_graph = self._may_have_graph and not is_another
        if may_be_graph and _catches_up(self._driver, stream.queue.handle):
            graph = self._find_graph(stream)
            if graph is not None:
                return graph.way
        return self.as_launch(stream.queue)

    def as_launch(self, queue: Any) -> _Way:
        """How to launch on a stream by launch."""
        launch = self._launches.get(queue)
        if launch is None:
            given = self._shape(queue), self._kernel.handle, self._parameters.address, 0
            launch = self._launches[queue] = cu.cuLaunchKernelEx, given, "cuLaunchKernelEx"
        return launch

    def _shape(self, queue: Any) -> Any:
        """A row of blocks on a stream."""
        shape = cu.CUlaunchConfig()
        shape.gridDimX, shape.gridDimY, shape.gridDimZ = self._blocks, 1, 1
        shape.blockDimX = shape.blockDimY = shape.blockDimZ = 1
        shape.hStream = queue.handle.handle
        # On its own streams another library may count on the whole order.
        if self._kernel.waits and not queue.is_adopted:
            shape.attrs = [_starts_early()]
            shape.numAttrs = 1
        return shape

    def _find_graph(self, stream: Any) -> _OneNode | None:
        """The graph for a stream, made when nothing is in its way; None if it has none now."""
        if self._graph is None:
            graphs, address = self._driver.graphs, self._parameters.address
            try:
                if _others_have_ended(stream):
                    self._graph = graphs.make(self._kernel, self._blocks, address, stream.queue)
            except DriverError:  # launches work without; what is wrong with the GPU they tell
                self._may_have_graph = False
        has_one = self._graph is not None and self._graph.queue is stream.queue
        return self._graph if has_one else None


class _OneNode:
    """A graph of one launch on one stream; it is given back when nobody has it any more."""

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
        # The collector may run this anywhere: no lock, and no call of a driver.
        self._left_behind.put(self._handles)


class _Graphs:
    """The graphs of one node on one GPU. The device's lock is held."""

    def __init__(self, driver: ReadyCalls) -> None:
        self._driver = driver
        self._count = self._places = 0
        self._left_behind: SimpleQueue[_Handles] = SimpleQueue()

    def make(self, kernel: Any, blocks: int, parameters: int, queue: Any) -> _OneNode | None:
        """Another one, for a stream; None if there are enough. Nothing of ours is under way."""
        self._give_back()
        if self._count >= _MOST:
            return None
        driver = self._driver
        if self._count >= self._places:
            driver.make_room(2 * _PLACES)  # so that these leave to others what those had
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
        """Give back what nobody has any more; the driver frees what is under way when it ends."""
        while not self._left_behind.empty():
            executable, graph = self._left_behind.get()
            self._count -= 1
            self._driver.destroy_executable_graph(executable)
            self._driver.destroy_graph(graph)


def _launch_bound(driver: ReadyCalls, executable: Any, stream: Any) -> tuple[Any]:
    """Launch a graph on the default stream of its own context.

    A launch is refused in any other one. A graph is not: it would run behind what that has put on
    its default stream, which may be another GPU's.
    """
    if cu.cuCtxGetId(None)[1] != driver.context_id:
        driver.bind()
    launched: tuple[Any] = cu.cuGraphLaunch(executable, stream)
    return launched


@beside_captures
def _catches_up(driver: LaunchCalls, stream: Any) -> bool:
    """Whether a stream has done everything, or soon has."""
    if not stream.has_context:
        driver.bind()  # or another context's default stream would be asked
    return any(cu.cuStreamQuery(stream.handle)[0] is _SUCCESS for _ in range(_QUESTIONS))


def _others_have_ended(stream: Any) -> bool:
    """Whether no other stream is at work: to make a graph the driver may wait for all of them."""
    return all(other is stream or other.has_ended() for other in stream.device.streams)


def _starts_early() -> Any:
    """The attribute of a kernel that waits itself for the one before it on its stream."""
    attribute = cu.CUlaunchAttribute()
    attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    return attribute

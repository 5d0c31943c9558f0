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

from functools import cached_property, partial
from queue import SimpleQueue
from typing import Any

from cuda.bindings import driver as cu

from tilewright.backends.cuda.capture_bindings import beside_captures
from tilewright.backends.cuda.driver import Parameters
from tilewright.backends.cuda.graph_bindings import GraphCalls
from tilewright.backends.cuda.launch_bindings import LaunchCalls, call_again
from tilewright.errors import DriverError
from tilewright.runtime.function import LaunchShape, ReadyCall

__all__ = ["ReadyCalls"]

_SUCCESS = cu.CUresult.CUDA_SUCCESS
# Launches until a stream is asked again: a graph takes as long to make as it saves in twenty.
_LAUNCHES = 32
# Times that it is asked: a launch that came just before takes as long until it has ended.
_QUESTIONS = 8
# Graphs of one node that a GPU keeps; each takes some 110 KiB of its memory.
_MOST = 256

# A graph that can be launched, and the one that it was made of.
_Handles = tuple[Any, Any]


class ReadyCalls(LaunchCalls, GraphCalls):
    """Launches and graphs on one GPU, and launches that are either."""

    def prepare_launch(self, kernel: Any, blocks: int, parameters: Parameters) -> ReadyCall:
        """A launch as a function of a stream of ours; it keeps the parameters.

        Launches happen under the device's lock, and most are on the stream of the one before.
        """
        ready = _ReadyLaunch(self, kernel, blocks, parameters)
        launch_kernel, launch_graph = cu.cuLaunchKernelEx, cu.cuGraphLaunch
        shape, handle, address = ready.given
        last: Any = None
        left, graph = 0, None

        def launch(stream: Any, _: object) -> None:
            nonlocal last, left, graph
            left -= 1
            if left < 0 or stream is not last:
                is_another, last = stream is not last, None  # if this breaks off, all is open
                graph = ready.choose(stream.queue, is_another=is_another)
                last, left = stream, _LAUNCHES
            if graph is None:
                (code,) = launch_kernel(shape, handle, address, 0)
            else:
                (code,) = launch_graph(*graph)
            if code is not _SUCCESS:
                ready.call_again(graph, code, stream.queue.handle)

        return launch

    @cached_property
    def graphs(self) -> _Graphs:
        """All graphs of one node on this GPU."""
        return _Graphs(self)


class _ReadyLaunch:
    """One launch and both ways to make it. The device's lock is held."""

    __slots__ = ("_driver", "_graph", "_kernel", "_may_have_graph", "_parameters", "given")

    def __init__(
        self, driver: ReadyCalls, kernel: Any, blocks: int, parameters: Parameters
    ) -> None:
        self._driver, self._kernel, self._parameters = driver, kernel, parameters
        # Where parameters change, a graph would have to be laid out anew.
        self._may_have_graph = not parameters.may_change
        self._graph: _OneNode | None = None
        shape = cu.CUlaunchConfig()
        shape.gridDimX, shape.gridDimY, shape.gridDimZ = blocks, 1, 1
        shape.blockDimX = shape.blockDimY = shape.blockDimZ = 1
        if kernel.waits:
            shape.attrs = [_starts_early()]
        self.given = shape, kernel.handle, parameters.address

    def choose(self, queue: Any, *, is_another: bool) -> tuple[Any, Any] | None:
        """What the driver takes to launch a graph on a stream; None if a launch is better there."""
        may_be_graph = self._may_have_graph and not is_another
        graph = self._find_graph(queue) if may_be_graph and _catches_up(queue.handle) else None
        if graph is not None:
            return graph.given
        shape = self.given[0]
        shape.hStream = queue.handle.handle
        # On its own streams another library may count on the whole order.
        shape.numAttrs = int(self._kernel.waits and not queue.is_adopted)
        return None

    def call_again(self, graph: tuple[Any, Any] | None, code: Any, stream: Any) -> None:
        """Make a launch again that was refused as a launch or as a graph, or say why it was."""
        if graph is None:
            launch = partial(cu.cuLaunchKernelEx, *self.given, 0)
            call_again(self._driver, "cuLaunchKernelEx", code, stream, launch)
        else:
            call_again(
                self._driver, "cuGraphLaunch", code, stream, partial(cu.cuGraphLaunch, *graph)
            )

    def _find_graph(self, queue: Any) -> _OneNode | None:
        """The graph for a stream, made when it is first asked for; None if it can have none."""
        if self._graph is None:
            shape, _, address = self.given
            try:
                self._graph = self._driver.graphs.make(self._kernel, shape.gridDimX, address, queue)
            except DriverError:  # launches work without; what is wrong with the GPU they tell
                self._may_have_graph = False
        has_one = self._graph is not None and self._graph.queue is queue
        return self._graph if has_one else None


class _OneNode:
    """A graph of one launch on one stream; it is given back when nobody has it any more."""

    __slots__ = ("_graph", "_left_behind", "given", "queue")

    def __init__(self, handles: _Handles, queue: Any, left_behind: SimpleQueue[_Handles]) -> None:
        executable, self._graph = handles
        self.given = executable, queue.handle.handle
        self.queue = queue
        self._left_behind = left_behind

    def __del__(self) -> None:
        # The collector may run this anywhere: no lock, and no call of a driver.
        self._left_behind.put((self.given[0], self._graph))


class _Graphs:
    """The graphs of one node on one GPU. The device's lock is held."""

    def __init__(self, driver: GraphCalls) -> None:
        self._driver = driver
        self._count = 0
        self._left_behind: SimpleQueue[_Handles] = SimpleQueue()

    def make(self, kernel: Any, blocks: int, parameters: int, queue: Any) -> _OneNode | None:
        """Another one, for a stream; None if there are enough."""
        self._give_back()
        if self._count >= _MOST:
            return None
        driver = self._driver
        graph = driver.create_graph()
        try:
            shape = LaunchShape.of_blocks(blocks)
            driver.add_launch_node(graph, [], kernel, shape, parameters)
            executable = driver.instantiate_graph(graph)
        except BaseException:
            driver.destroy_graph(graph)
            raise
        self._count += 1
        return _OneNode((executable, graph), queue, self._left_behind)

    def _give_back(self) -> None:
        """Give back what nobody has any more; the driver waits for launches under way."""
        while not self._left_behind.empty():
            executable, graph = self._left_behind.get()
            self._count -= 1
            self._driver.destroy_executable_graph(executable)
            self._driver.destroy_graph(graph)


@beside_captures
def _catches_up(stream: Any) -> bool:
    """Whether a stream has done everything, or soon has."""
    return any(cu.cuStreamQuery(stream.handle)[0] is _SUCCESS for _ in range(_QUESTIONS))


def _starts_early() -> Any:
    """The attribute of a kernel that waits itself for the one before it on its stream."""
    attribute = cu.CUlaunchAttribute()
    attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    return attribute

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

from collections.abc import Callable
from functools import cached_property, partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from cuda.bindings import driver as cu

from tilewright.backends.cuda.capture_bindings import beside_captures
from tilewright.backends.cuda.driver import Parameters
from tilewright.backends.cuda.graph_bindings import GraphCalls
from tilewright.backends.cuda.launch_bindings import LaunchCalls, call_again
from tilewright.errors import DriverError
from tilewright.runtime.function import LaunchShape, ReadyCall

__all__ = ["ReadyCalls"]

_SUCCESS = cu.CUresult.CUDA_SUCCESS
# Launches until a stream is asked: a graph takes as long to make as it saves in twenty.
_LAUNCHES = 32
# Graphs until then: what has become busy meanwhile waits for early starts.
_GRAPHS = 16
# Graphs of one node that a GPU keeps; each takes some 110 KiB of its memory.
_MOST = 256

# Puts a launch on a stream, and gives the driver's code.
Call = Callable[[], tuple[Any]]
# A graph that can be launched, and the one that it was made of.
_Handles = tuple[Any, Any]


class ReadyCalls(LaunchCalls, GraphCalls):
    """Launches and graphs on one GPU, and launches that are either."""

    def prepare_launch(self, kernel: Any, blocks: int, parameters: Parameters) -> ReadyCall:
        """A launch as a function of a stream of ours; it keeps the parameters.

        Launches happen under the device's lock, and most are on the stream of the one before.
        """
        ready = _ReadyLaunch(self, kernel, blocks, parameters)
        last: Any = None
        left = 0
        call: Any = None

        def launch(stream: Any, _: object) -> None:
            nonlocal last, left, call
            left -= 1
            if left < 0 or stream is not last:
                is_another, last = stream is not last, None  # if this breaks off, all is open
                call, left = ready.choose(stream.queue, is_another=is_another)
                last = stream
            (code,) = call()
            if code is not _SUCCESS:
                call_again(self, _name_of(call), code, stream.queue.handle, call)

        return launch

    @cached_property
    def graphs(self) -> _Graphs:
        """All graphs of one node on this GPU."""
        return _Graphs(self)


class _ReadyLaunch:
    """One launch and both ways to make it. The device's lock is held."""

    __slots__ = ("_driver", "_graph", "_may_have_graph", "_node", "_shape")

    def __init__(
        self, driver: ReadyCalls, kernel: Any, blocks: int, parameters: Parameters
    ) -> None:
        self._driver = driver
        self._node = _Node(kernel, LaunchShape.of_blocks(blocks), parameters)
        self._shape = cu.CUlaunchConfig()
        self._shape.gridDimX, self._shape.gridDimY, self._shape.gridDimZ = blocks, 1, 1
        self._shape.blockDimX = self._shape.blockDimY = self._shape.blockDimZ = 1
        if kernel.waits:
            self._shape.attrs = [_starts_early()]
        self._graph: _OneNode | None = None
        self._may_have_graph = True

    def choose(self, queue: Any, *, is_another: bool) -> tuple[Call, int]:
        """How to launch from now on, and how many more times before this is asked again."""
        if is_another:
            return self._as_launch(queue), _LAUNCHES
        with beside_captures():
            graph = self._find_graph(queue) if _is_idle(self._driver, queue.handle) else None
        if graph is None:
            return self._as_launch(queue), _LAUNCHES
        return graph.call, _GRAPHS

    def _as_launch(self, queue: Any) -> Call:
        self._shape.hStream = queue.handle.handle
        # On its own streams another library may count on the whole order.
        kernel, _, parameters = self._node
        self._shape.numAttrs = int(kernel.waits and not queue.is_adopted)
        return partial(cu.cuLaunchKernelEx, self._shape, kernel.handle, parameters.address, 0)

    def _find_graph(self, queue: Any) -> _OneNode | None:
        """The graph for a stream, made when it is first asked for; None if it can have none."""
        if self._graph is None and self._may_have_graph:
            try:
                self._graph = self._driver.graphs.make(self._node, queue)
            except DriverError:  # launches work without; what is wrong with the GPU they tell
                self._may_have_graph = False
        has_one = self._graph is not None and self._graph.queue is queue
        return self._graph if has_one else None


class _Node(NamedTuple):
    """What a graph of one node launches."""

    kernel: Any
    shape: LaunchShape
    parameters: Parameters


class _OneNode:
    """A graph of one launch on one stream; it is given back when nobody has it any more."""

    __slots__ = ("_handles", "_left_behind", "call", "queue")

    def __init__(
        self, handles: _Handles, queue: Any, call: Call, left_behind: SimpleQueue[_Handles]
    ) -> None:
        self.queue, self.call = queue, call
        self._handles, self._left_behind = handles, left_behind

    def __del__(self) -> None:
        # The collector may run this anywhere: no lock, and no call of a driver.
        self._left_behind.put(self._handles)


class _Graphs:
    """The graphs of one node on one GPU. The device's lock is held."""

    def __init__(self, driver: GraphCalls) -> None:
        self._driver = driver
        self._count = 0
        self._left_behind: SimpleQueue[_Handles] = SimpleQueue()

    def make(self, node: _Node, queue: Any) -> _OneNode | None:
        """Another one, for a stream; None if there are enough."""
        self._give_back()
        if self._count >= _MOST:
            return None
        driver, launch = self._driver, (node.kernel, node.shape, node.parameters.address)
        graph = driver.create_graph()
        try:
            handle = driver.add_launch_node(graph, [], *launch)
            executable = driver.instantiate_graph(graph)
        except BaseException:
            driver.destroy_graph(graph)
            raise
        self._count += 1
        call: Any = partial(cu.cuGraphLaunch, executable, queue.handle.handle)
        if node.parameters.may_change:
            changed = (executable, handle, driver.node_launch(*launch))
            call = partial(_change_and_launch, changed, call)
        return _OneNode((executable, graph), queue, call, self._left_behind)

    def _give_back(self) -> None:
        """Give back what nobody has any more; the driver waits for launches under way."""
        while not self._left_behind.empty():
            executable, graph = self._left_behind.get()
            self._count -= 1
            self._driver.destroy_executable_graph(executable)
            self._driver.destroy_graph(graph)


def _change_and_launch(changed: tuple[Any, Any, Any], launch: Call) -> tuple[Any]:
    """Launch a graph with the parameters as they are now; launches under way keep theirs."""
    (code,) = cu.cuGraphExecKernelNodeSetParams(*changed)
    return launch() if code is _SUCCESS else (code,)


def _is_idle(driver: ReadyCalls, stream: Any) -> bool:
    """Whether a stream has nothing to do."""
    if not stream.has_context:
        driver.bind()  # or another context's default stream would be asked
    (code,) = cu.cuStreamQuery(stream.handle)
    return code is _SUCCESS


def _name_of(call: Any) -> str:
    """What the driver calls it."""
    return "cuLaunchKernelEx" if call.func is cu.cuLaunchKernelEx else "cuGraphLaunch"


def _starts_early() -> Any:
    """The attribute of a kernel that waits itself for the one before it on its stream."""
    attribute = cu.CUlaunchAttribute()
    attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    return attribute

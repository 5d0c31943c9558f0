"""The driver's calls for graphs, as a part of the real driver.

The calls are those of cuda-bindings, which take packed parameters as a launch does; cuda-core's
graph definitions take them one by one as Python objects.
"""

# The package is compiled and has no stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

from cuda.bindings import driver as cu
from cuda.core import ObjectCode

from tilewright.backends.cuda.capture_bindings import beside_captures
from tilewright.backends.cuda.driver import Copy, MatrixFill
from tilewright.errors import DriverError
from tilewright.runtime.devices.function import LaunchShape

__all__ = ["GraphCalls"]

_HOST = cu.CUmemorytype.CU_MEMORYTYPE_HOST
_DEVICE = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
_SUCCESS = cu.CUresult.CUDA_SUCCESS
# CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC: port of an edge that does not wait for a kernel's end.
_PROGRAMMATIC_PORT = 1
# Compiled by the driver itself, for any GPU that runs tile kernels.
_IDLE = b"""\
.version 7.8
.target sm_80
.address_size 64
.visible .entry idle()
{
    ret;
}
"""


class GraphCalls(ABC):
    """Graphs of one GPU; the subclass binds its context and checks codes."""

    @property
    @abstractmethod
    def context(self) -> Any:
        """The context that the nodes run in."""

    @abstractmethod
    def bind(self) -> None:
        """Make the context current."""

    @abstractmethod
    def load(self, read: Any, code: bytes, name: str) -> Any:
        """Load a kernel from code by one of cuda-core's functions."""

    @abstractmethod
    def check(self, call: str, code: Any) -> None:
        """Raise a `DriverError` if a call failed."""

    def create_graph(self) -> Any:
        """Return an empty graph."""
        self.bind()
        code, graph = cu.cuGraphCreate(0)
        self.check("cuGraphCreate", code)
        return graph

    def add_empty_node(self, graph: Any, after: list[Any]) -> Any:
        """Add a node that does nothing after others."""
        code, node = cu.cuGraphAddEmptyNode(graph, after, len(after))
        self.check("cuGraphAddEmptyNode", code)
        return node

    @cached_property
    def _idle_kernel(self) -> Any:
        """Return a kernel that does nothing, or None if the driver cannot compile one."""
        try:
            return self.load(ObjectCode.from_ptx, _IDLE, "idle")
        except DriverError:
            return None

    def add_idle_node(self, graph: Any) -> Any:
        """Add a kernel that does nothing, whose successors the GPU distributes.

        The fallback is an empty node, whose successors the host distributes.
        """
        kernel = self._idle_kernel
        if kernel is None:
            return self.add_empty_node(graph, [])
        return self.add_launch_node(graph, [], kernel, LaunchShape.of_blocks(1), 0)

    def add_launch_node(
        self, graph: Any, after: list[Any], kernel: Any, shape: LaunchShape, parameters: int
    ) -> Any:
        """Add a node that launches a kernel; the parameters are copied now."""
        self.bind()
        launch = self._launch(kernel, shape, parameters)
        code, node = cu.cuGraphAddKernelNode(graph, after, len(after), launch)
        self.check("cuGraphAddKernelNode", code)
        return node

    def add_early_node(
        self, graph: Any, after: Any, kernel: Any, shape: LaunchShape, parameters: int
    ) -> Any:
        """Add a launch that may start before its one predecessor ends: the kernel itself waits."""
        node = self.add_launch_node(graph, [], kernel, shape, parameters)
        (code,) = cu.cuGraphAddDependencies(graph, [after], [node], [_early()], 1)
        self.check("cuGraphAddDependencies", code)
        return node

    def set_launch_node(
        self, executable: Any, node: Any, kernel: Any, shape: LaunchShape, parameters: int
    ) -> None:
        """Replace the launch of a node."""
        self.bind()
        launch = self._launch(kernel, shape, parameters)
        (code,) = cu.cuGraphExecKernelNodeSetParams(executable, node, launch)
        self.check("cuGraphExecKernelNodeSetParams", code)

    def _launch(self, kernel: Any, shape: LaunchShape, parameters: int) -> Any:
        launch = cu.CUDA_KERNEL_NODE_PARAMS()
        launch.kern, launch.ctx = kernel.kernel_handle, self.context
        launch.gridDimX, launch.gridDimY, launch.gridDimZ = shape.grid
        launch.blockDimX, launch.blockDimY, launch.blockDimZ = shape.block
        launch.sharedMemBytes = shape.shared_bytes
        launch.kernelParams = parameters
        return launch

    def add_fill_node(self, graph: Any, after: list[Any], fill: MatrixFill) -> Any:
        """Add a node that fills memory."""
        code, node = cu.cuGraphAddMemsetNode(graph, after, len(after), _fill(fill), self.context)
        self.check("cuGraphAddMemsetNode", code)
        return node

    def set_fill_node(self, executable: Any, node: Any, fill: MatrixFill) -> None:
        """Replace the fill of a node."""
        (code,) = cu.cuGraphExecMemsetNodeSetParams(executable, node, _fill(fill), self.context)
        self.check("cuGraphExecMemsetNodeSetParams", code)

    def add_copy_node(self, graph: Any, after: list[Any], copy: Copy) -> Any:
        """Add a node that copies bytes."""
        code, node = cu.cuGraphAddMemcpyNode(graph, after, len(after), _copy(copy), self.context)
        self.check("cuGraphAddMemcpyNode", code)
        return node

    def set_copy_node(self, executable: Any, node: Any, copy: Copy) -> None:
        """Replace the copy of a node."""
        (code,) = cu.cuGraphExecMemcpyNodeSetParams(executable, node, _copy(copy), self.context)
        self.check("cuGraphExecMemcpyNodeSetParams", code)

    @beside_captures
    def instantiate_graph(self, graph: Any) -> Any:
        """Return an executable graph."""
        self.bind()
        code, executable = cu.cuGraphInstantiate(graph, 0)
        self.check("cuGraphInstantiate", code)
        return executable

    def launch_graph(self, executable: Any, stream: Any) -> None:
        """Launch all nodes on a stream, in the stream's context, not in that of the thread."""
        if not stream.has_context:
            self.bind()  # else it would run, unrefused, on another context's default stream
        (code,) = cu.cuGraphLaunch(executable, stream.handle)
        if code is not _SUCCESS:
            self.check("cuGraphLaunch", code)

    @beside_captures
    def destroy_executable_graph(self, executable: Any) -> None:
        """Destroy an executable graph."""
        self.bind()
        (code,) = cu.cuGraphExecDestroy(executable)
        self.check("cuGraphExecDestroy", code)

    @beside_captures
    def destroy_graph(self, graph: Any) -> None:
        """Destroy a graph."""
        self.bind()
        (code,) = cu.cuGraphDestroy(graph)
        self.check("cuGraphDestroy", code)


def _early() -> Any:
    """Return an edge between kernels that does not wait for the end of the first."""
    edge = cu.CUgraphEdgeData()
    edge.from_port = _PROGRAMMATIC_PORT
    edge.type = int(cu.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
    return edge


def _fill(fill: MatrixFill) -> Any:
    memset = cu.CUDA_MEMSET_NODE_PARAMS()
    memset.dst = cu.CUdeviceptr(fill.address)
    memset.value = int.from_bytes(fill.pattern, "little")
    memset.elementSize = len(fill.pattern)
    memset.pitch, memset.width, memset.height = fill.pitch, fill.width, fill.height
    return memset


def _copy(copy: Copy) -> Any:
    memcpy = cu.CUDA_MEMCPY3D()
    if copy.from_host:
        memcpy.srcMemoryType, memcpy.srcHost = _HOST, copy.source
    else:
        memcpy.srcMemoryType, memcpy.srcDevice = _DEVICE, cu.CUdeviceptr(copy.source)
    memcpy.dstMemoryType, memcpy.dstDevice = _DEVICE, cu.CUdeviceptr(copy.target)
    memcpy.srcPitch = memcpy.dstPitch = memcpy.WidthInBytes = copy.nbytes
    memcpy.Height = memcpy.Depth = 1
    return memcpy

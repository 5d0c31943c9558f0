"""The narrow interface to the CUDA driver.

It is a Protocol, so that tests on a machine without a GPU can record the order of waits, launches
and frees. Handles are opaque. `bindings` has the implementation, which is loaded on first use
because importing the CUDA packages is slow.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any, NamedTuple, Protocol, cast

from tilewright.errors import DriverError
from tilewright.runtime.devices.function import KernelLimits, LaunchShape, ReadyCall

__all__ = [
    "Copy",
    "Driver",
    "GraphDriver",
    "MatrixFill",
    "Parameters",
    "missing_driver",
    "open_driver",
]


class MatrixFill(NamedTuple):
    """A fill of a matrix with one element of 1, 2 or 4 bytes; a single row has no pitch."""

    address: int
    pattern: bytes
    pitch: int
    width: int
    height: int


class Copy(NamedTuple):
    """A copy of bytes to the device, from the device or from the host."""

    target: int
    source: int
    nbytes: int
    from_host: bool


class Parameters(Protocol):
    """Packed parameters of a launch."""

    address: int  # of an array of their addresses
    may_change: bool  # between launches


class GraphDriver(Protocol):
    """Graphs of one GPU. A node is named by its handle in the graph to which it was added."""

    def create_graph(self) -> Any:
        """Return an empty graph."""

    def add_empty_node(self, graph: Any, after: list[Any]) -> Any:
        """Add a node that does nothing after others."""

    def add_idle_node(self, graph: Any) -> Any:
        """Add a root kernel that does nothing, as a common predecessor of others."""

    def add_launch_node(
        self, graph: Any, after: list[Any], kernel: Any, shape: LaunchShape, parameters: int
    ) -> Any:
        """Add a node that launches a kernel; the parameters are copied now."""

    def add_early_node(
        self, graph: Any, after: Any, kernel: Any, shape: LaunchShape, parameters: int
    ) -> Any:
        """Add a launch that may start before its one predecessor ends: the kernel itself waits."""

    def set_launch_node(
        self, executable: Any, node: Any, kernel: Any, shape: LaunchShape, parameters: int
    ) -> None:
        """Replace the launch of a node, from the next launch of the graph on."""

    def add_fill_node(self, graph: Any, after: list[Any], fill: MatrixFill) -> Any:
        """Add a node that fills memory."""

    def set_fill_node(self, executable: Any, node: Any, fill: MatrixFill) -> None:
        """Replace the fill of a node."""

    def add_copy_node(self, graph: Any, after: list[Any], copy: Copy) -> Any:
        """Add a node that copies bytes."""

    def set_copy_node(self, executable: Any, node: Any, copy: Copy) -> None:
        """Replace the copy of a node."""

    def instantiate_graph(self, graph: Any) -> Any:
        """Return an executable graph."""

    def launch_graph(self, executable: Any, stream: Any) -> None:
        """Launch all nodes on a stream."""

    def destroy_executable_graph(self, executable: Any) -> None:
        """Destroy an executable graph; launches in flight still complete."""

    def destroy_graph(self, graph: Any) -> None:
        """Destroy a graph; executable graphs made from it remain."""


class Driver(GraphDriver, Protocol):
    """One GPU. Any thread may call; each call binds the context it needs."""

    @property
    def target(self) -> str:
        """The architecture, such as `sm_90`."""

    @property
    def multiprocessors(self) -> int:
        """Number of multiprocessors."""

    def create_stream(self) -> Any:
        """Return a new stream that does not synchronise with the legacy default stream."""

    def make_room(self, places: int) -> None:
        """Reserve places for streams or branches of graphs; this may wait for the GPU."""

    def adopt_stream(self, number: int) -> Any:
        """Return a stream that another library made, by its handle as an integer."""

    def stream_number(self, stream: Any) -> int:
        """Return the handle of a stream as an integer, the same for all libraries."""

    def disregard_captures(self) -> None:
        """Allow this thread to make any driver call during stream captures of other threads."""

    def is_capturing(self, stream: Any) -> bool:
        """Whether a stream is being captured into a graph."""

    def owner(self, address: int) -> int:
        """Return the ordinal of the GPU that owns an address."""

    def query_stream(self, stream: Any) -> bool:
        """Whether all work on a stream has completed."""

    def synchronize_stream(self, stream: Any) -> None:
        """Block until all work on a stream has completed."""

    def create_event(self) -> Any:
        """Return a new event; it can be recorded again once a wait for it has been enqueued."""

    def create_timing_event(self) -> Any:
        """Return an event that also records the time at which it is reached."""

    def seconds_between(self, first: Any, second: Any) -> float:
        """Return the time between two events, both of which have been reached."""

    def record_event(self, event: Any, stream: Any) -> None:
        """Record an event after the work on a stream so far."""

    def query_event(self, event: Any) -> bool:
        """Whether the work before an event has completed."""

    def wait_event(self, stream: Any, event: Any) -> None:
        """Make a stream wait for the work before an event."""

    def create_pool(self, limit: int) -> Any:
        """Return a new memory pool of this GPU; 0 means no limit."""

    def set_release_threshold(self, pool: Any, nbytes: int) -> None:
        """Set the bytes that a pool retains when they are free."""

    def pool_statistics(self, pool: Any) -> tuple[int, int, int, int]:
        """Return bytes used, their high-water mark, bytes reserved, their high-water mark."""

    def reset_pool_statistics(self, pool: Any) -> None:
        """Reset the high-water marks."""

    def trim_pool(self, pool: Any, keep: int) -> None:
        """Release free memory to the system, except for `keep` bytes."""

    def allocate(self, nbytes: int, pool: Any, stream: Any) -> int:
        """Allocate memory of a pool for later work on the stream."""

    def free(self, address: int, stream: Any) -> None:
        """Free memory after the work on the stream so far."""

    def fill(self, address: int, pattern: bytes, repeats: int, stream: Any) -> None:
        """Fill memory with a repeated pattern of 1, 2, 4 or 8 bytes."""

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy from one device address to another."""

    def copy_in(self, address: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy from a host address."""

    def copy_out(self, target: int, address: int, nbytes: int, stream: Any) -> None:
        """Copy to a host address."""

    def allocate_pinned(self, nbytes: int) -> tuple[int, int]:
        """Allocate host memory that kernels can write; return its host and its device address."""

    def wait_value(self, stream: Any, address: int, value: int) -> None:
        """Make a stream wait until a 32-bit word in pinned memory is at least a value."""

    def load_kernel(self, cubin: bytes, name: str, waits: bool = False) -> Any:
        """Load a kernel of a cubin; one that `waits` for earlier grids itself may start early."""

    def parameter_sizes(self, kernel: Any) -> tuple[int, ...]:
        """Return the size in bytes of each parameter of a kernel."""

    def launch(self, kernel: Any, blocks: int, parameters: int, stream: Any) -> None:
        """Launch a one-dimensional grid; `parameters` is the address of an array of addresses."""

    def prepare_launch(self, kernel: Any, blocks: int, parameters: Parameters) -> ReadyCall:
        """Return a launch as a function of one of our streams; it keeps the parameters alive."""

    def waits(self, kernel: Any) -> bool:
        """Whether a kernel itself waits for the grids before it."""

    def load_external(self, code: bytes, name: str) -> Any:
        """Load a kernel of externally compiled PTX, a cubin or a fat binary."""

    def kernel_limits(self, kernel: Any) -> KernelLimits:
        """Return the limits of a kernel's launches."""

    def allow_shared_memory(self, kernel: Any, nbytes: int) -> None:
        """Raise the shared memory that launches of a kernel may request, within its limits."""

    def launch_shape(self, kernel: Any, shape: LaunchShape, parameters: int, stream: Any) -> None:
        """Launch blocks of threads, for an external kernel."""


def missing_driver() -> str | None:
    """Return the reason why no GPU can be used, without importing the CUDA packages in vain."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(library)
    except OSError:
        return f"there is no CUDA driver here ({library} was not found)"
    try:
        count = _bindings().device_count()
    except DriverError as error:
        return f"the CUDA driver cannot be used: {error}"
    return None if count else "the CUDA driver sees no GPU"


def open_driver(ordinal: int) -> Driver:
    """Open the driver of one GPU, or raise a `DriverError` that names the missing part."""
    reason = missing_driver()
    if reason is not None:
        raise DriverError(f"{reason}: install an NVIDIA driver, or use tw.Device('cpu')")
    return cast("Driver", _bindings().CudaDriver(ordinal))


def _bindings() -> Any:
    try:
        return importlib.import_module("tilewright.backends.cuda.bindings")
    except ImportError as error:
        raise DriverError(
            f"the CUDA packages are not installed ({error}): pip install 'tilewright[cuda]'"
        ) from error

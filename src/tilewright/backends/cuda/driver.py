"""The narrow interface through which everything here reaches the CUDA driver.

One Protocol, so that tests on a machine without a GPU record the order of waits, launches and
frees. Handles are opaque. The real one is in `bindings`, which is loaded on first use because
importing the CUDA packages takes a while.
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
    "Fill",
    "GraphDriver",
    "Parameters",
    "missing_driver",
    "open_driver",
]


class Fill(NamedTuple):
    """A fill of a matrix with one element of 1, 2 or 4 bytes; a single row has no pitch."""

    address: int
    pattern: bytes
    pitch: int
    width: int
    height: int


class Copy(NamedTuple):
    """A copy of bytes to the device, from there or from the host."""

    target: int
    source: int
    nbytes: int
    from_host: bool


class Parameters(Protocol):
    """Parameters that lie somewhere."""

    address: int  # of an array of their addresses
    may_change: bool  # or they stay as they are


class GraphDriver(Protocol):
    """Graphs of one GPU. A node is named by its handle in the graph it was added to."""

    def create_graph(self) -> Any:
        """A graph without nodes."""

    def add_empty_node(self, graph: Any, after: list[Any]) -> Any:
        """A node that does nothing behind others."""

    def add_idle_node(self, graph: Any) -> Any:
        """A kernel that does nothing, behind no other, for as many as like to wait for it."""

    def add_launch_node(
        self, graph: Any, after: list[Any], kernel: Any, shape: LaunchShape, parameters: int
    ) -> Any:
        """A node that launches a kernel; the parameters are copied now."""

    def add_early_node(
        self, graph: Any, after: Any, kernel: Any, shape: LaunchShape, parameters: int
    ) -> Any:
        """The same behind one launch, before whose end it may start: the kernel itself waits."""

    def set_launch_node(
        self, executable: Any, node: Any, kernel: Any, shape: LaunchShape, parameters: int
    ) -> None:
        """Another launch in place of a node's, from the next launch of the graph on."""

    def add_fill_node(self, graph: Any, after: list[Any], fill: Fill) -> Any:
        """A node that fills memory."""

    def set_fill_node(self, executable: Any, node: Any, fill: Fill) -> None:
        """Another fill in place of a node's."""

    def add_copy_node(self, graph: Any, after: list[Any], copy: Copy) -> Any:
        """A node that copies bytes."""

    def set_copy_node(self, executable: Any, node: Any, copy: Copy) -> None:
        """Another copy in place of a node's."""

    def instantiate_graph(self, graph: Any) -> Any:
        """A graph that can be launched."""

    def launch_graph(self, executable: Any, stream: Any) -> None:
        """Put all nodes on a stream."""

    def destroy_executable_graph(self, executable: Any) -> None:
        """Give a graph that can be launched back; launches that are under way end as ever."""

    def destroy_graph(self, graph: Any) -> None:
        """Give a graph back; what was instantiated of it stays."""


class Driver(GraphDriver, Protocol):
    """One GPU. Any thread may call; each call binds the context it needs."""

    @property
    def target(self) -> str:
        """The architecture, `sm_90` say."""

    @property
    def multiprocessors(self) -> int:
        """How many blocks run at once when each takes a whole multiprocessor."""

    def create_stream(self) -> Any:
        """A stream that does not wait for the legacy default stream."""

    def make_room(self, places: int) -> None:
        """Have room for so many more streams, or branches of graphs; it may wait for the GPU."""

    def adopt_stream(self, number: int) -> Any:
        """A stream that somebody else made, by its number."""

    def stream_number(self, stream: Any) -> int:
        """The number of a stream, the same for all libraries."""

    def disregard_captures(self) -> None:
        """Let this thread ask for anything, whatever streams others capture meanwhile."""

    def is_capturing(self, stream: Any) -> bool:
        """Whether work put on a stream is recorded into a graph."""

    def owner(self, address: int) -> int:
        """The number of the GPU that an address belongs to."""

    def query_stream(self, stream: Any) -> bool:
        """Whether everything put on a stream has completed."""

    def synchronize_stream(self, stream: Any) -> None:
        """Block until everything put on a stream has completed."""

    def create_event(self) -> Any:
        """An event; it can be recorded again as soon as a wait for it has been put."""

    def create_timing_event(self) -> Any:
        """An event that also notes the time at which it is reached."""

    def seconds_between(self, first: Any, second: Any) -> float:
        """How much later one event was reached than another; both have been."""

    def record_event(self, event: Any, stream: Any) -> None:
        """Record what has been put on a stream so far."""

    def query_event(self, event: Any) -> bool:
        """Whether what an event has recorded has completed."""

    def wait_event(self, stream: Any, event: Any) -> None:
        """Make a stream wait for what an event has recorded."""

    def create_pool(self, limit: int) -> Any:
        """A memory pool of this GPU; a limit of 0 is none."""

    def set_release_threshold(self, pool: Any, nbytes: int) -> None:
        """How much a pool keeps when nothing of it is in use."""

    def pool_statistics(self, pool: Any) -> tuple[int, int, int, int]:
        """Bytes used, the most ever used, bytes reserved, the most ever reserved."""

    def reset_pool_statistics(self, pool: Any) -> None:
        """Let the highest numbers start again."""

    def trim_pool(self, pool: Any, keep: int) -> None:
        """Give unused memory back to the system, all but so many bytes."""

    def allocate(self, nbytes: int, pool: Any, stream: Any) -> int:
        """Memory of a pool that work put on the stream from now on may use."""

    def free(self, address: int, stream: Any) -> None:
        """Give memory back after everything put on the stream so far."""

    def fill(self, address: int, pattern: bytes, repeats: int, stream: Any) -> None:
        """Repeat a pattern of 1, 2, 4 or 8 bytes."""

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy from one device address to another."""

    def copy_in(self, address: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy from a host address."""

    def copy_out(self, target: int, address: int, nbytes: int, stream: Any) -> None:
        """Copy to a host address."""

    def allocate_pinned(self, nbytes: int) -> tuple[int, int]:
        """Host memory that kernels can write: its host address and its device address."""

    def wait_value(self, stream: Any, address: int, value: int) -> None:
        """Make a stream wait until a 32-bit word in pinned memory is at least a value."""

    def load_kernel(self, cubin: bytes, name: str, waits: bool = False) -> Any:
        """A kernel of a cubin; one that `waits` itself for those before it may start early."""

    def parameter_sizes(self, kernel: Any) -> tuple[int, ...]:
        """Bytes of each parameter of a kernel."""

    def launch(self, kernel: Any, blocks: int, parameters: int, stream: Any) -> None:
        """Launch blocks in a row; `parameters` is the address of an array of addresses."""

    def prepare_launch(self, kernel: Any, blocks: int, parameters: Parameters) -> ReadyCall:
        """The same as a function of a stream of ours; it keeps the parameters."""

    def waits(self, kernel: Any) -> bool:
        """Whether a kernel waits itself for those before it."""

    def load_external(self, code: bytes, name: str) -> Any:
        """A kernel of PTX, a cubin or a fat binary that somebody else has made."""

    def kernel_limits(self, kernel: Any) -> KernelLimits:
        """What a launch of a kernel may ask for."""

    def allow_shared_memory(self, kernel: Any, nbytes: int) -> None:
        """Let launches of a kernel ask for so much shared memory, within its limits."""

    def launch_shape(self, kernel: Any, shape: LaunchShape, parameters: int, stream: Any) -> None:
        """Launch blocks of threads, as somebody else's kernel needs."""


def missing_driver() -> str | None:
    """Why no GPU can be used, found without importing the CUDA packages where there is none."""
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
    """The driver of one GPU, or a `DriverError` that says what is missing."""
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

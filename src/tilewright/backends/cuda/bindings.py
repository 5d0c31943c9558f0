"""The real driver: cuda-core for contexts, streams, events and modules, cuda-bindings for the rest.

cuda-bindings launches with packed parameters and has calls that cuda-core lacks (`cuStreamQuery`,
fills, pinned memory with a device address). Every failure becomes a `DriverError` that names the
call, the code and one next step. Only `driver` imports this module, by name.
"""

# The packages are compiled and have no stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cuda.bindings import driver as cu
from cuda.core import Device as CoreDevice
from cuda.core import (
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    ObjectCode,
)
from cuda.core import Stream as CoreStream

from tilewright.backends.cuda.capture_bindings import beside_captures, disregard_captures
from tilewright.backends.cuda.external_bindings import ExternalCalls
from tilewright.backends.cuda.pool_bindings import PoolCalls
from tilewright.backends.cuda.ready_bindings import ReadyCalls
from tilewright.errors import DriverError
from tilewright.runtime.devices.device import PER_THREAD_STREAM

__all__ = ["CudaDriver", "device_count"]

_LOST = (
    "the CUDA context is lost: start the process again, and run the kernel on the CPU with"
    " race_check=True to find the access"
)
_NEXT_STEPS = {
    cu.CUresult.CUDA_ERROR_NO_DEVICE: "check `nvidia-smi` and CUDA_VISIBLE_DEVICES",
    cu.CUresult.CUDA_ERROR_INVALID_DEVICE: "`tilewright doctor` lists the GPUs",
    cu.CUresult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: "reboot, or reload the NVIDIA kernel module",
    cu.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU: "compile for the target of this GPU",
    cu.CUresult.CUDA_ERROR_INVALID_PTX: "run `ptxas -arch=sm_90 FILE` for the reason",
    cu.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION: "update the driver, or lower its .version",
    cu.CUresult.CUDA_ERROR_INVALID_IMAGE: "clear the cache with `tilewright cache clear`",
    cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS: _LOST,
    cu.CUresult.CUDA_ERROR_MISALIGNED_ADDRESS: _LOST,
    cu.CUresult.CUDA_ERROR_LAUNCH_FAILED: _LOST,
    cu.CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION: _LOST,
}
_STEPS_BY_NAME = {code.name: step for code, step in _NEXT_STEPS.items()}
_DEFAULT_STEP = "`tilewright doctor` checks the driver"
_SUCCESS = cu.CUresult.CUDA_SUCCESS
_NOT_READY = cu.CUresult.CUDA_ERROR_NOT_READY


def device_count() -> int:
    """Return the number of GPUs that the driver sees."""
    (code,) = cu.cuInit(0)
    if code == cu.CUresult.CUDA_ERROR_NO_DEVICE:
        return 0
    _check("cuInit", code)
    code, count = cu.cuDeviceGetCount()
    _check("cuDeviceGetCount", code)
    return int(count)


class CudaDriver(ReadyCalls, PoolCalls, ExternalCalls):
    """One GPU through its primary context, which it shares with torch and CuPy."""

    def __init__(self, ordinal: int) -> None:
        count = device_count()
        if ordinal >= count:
            raise DriverError(
                f"there is no GPU number {ordinal}: the driver sees {count}, numbered from 0"
            )
        with _core_call("opening the GPU"):
            self._device = CoreDevice(ordinal)
            self._device.set_current()
        code, self._context = cu.cuCtxGetCurrent()
        _check("cuCtxGetCurrent", code)
        code, self.context_id = cu.cuCtxGetId(self._context)
        _check("cuCtxGetId", code)
        code, self._handle = cu.cuDeviceGet(ordinal)
        _check("cuDeviceGet", code)
        self.target = f"sm_{self._device.arch}"
        self.multiprocessors = int(self._device.properties.multiprocessor_count)
        self._libraries: list[ObjectCode] = []  # never unloaded: a kernel may be running

    @property
    def context(self) -> Any:
        """The primary context."""
        return self._context

    @property
    def device_handle(self) -> Any:
        """The driver's handle of the GPU."""
        return self._handle

    def check(self, call: str, code: Any) -> None:
        """Raise a `DriverError` if a call failed."""
        _check(call, code)

    def bind(self) -> None:
        """Make the context current."""
        # A thread starts without a context, and other libraries change it. It is usually the right
        # one, and the query takes less than half the time of binding.
        if cu.cuCtxGetId(None)[1] != self.context_id:
            (code,) = cu.cuCtxSetCurrent(self._context)
            _check("cuCtxSetCurrent", code)

    @beside_captures
    def create_stream(self) -> Any:
        """Return a new stream that does not synchronise with the legacy default stream."""
        self.bind()
        with _core_call("creating a stream"):
            return _CudaStream(self._device.create_stream())

    @beside_captures
    def make_room(self, places: int) -> None:
        """Reserve places for streams or branches of graphs; this may wait for the GPU."""
        made = [self.create_stream() for _ in range(places)]
        with _core_call("destroying a stream"):
            for stream in made:
                stream.core.close()  # the driver reuses its place

    def adopt_stream(self, number: int) -> Any:
        """Return a stream that another library made and still owns."""
        self.bind()
        with _core_call("adopting a stream"):
            return _CudaStream(CoreStream.from_handle(number))

    def stream_number(self, stream: Any) -> int:
        """Return the handle of a stream as an integer, the same for all libraries."""
        return int(stream.handle)

    def disregard_captures(self) -> None:
        """Allow this thread, one of ours, to make any driver call."""
        disregard_captures()

    def is_capturing(self, stream: Any) -> bool:
        """Whether a stream is being captured into a graph."""
        if not stream.has_context:
            self.bind()  # else the default stream of another context would be queried
        code, status = cu.cuStreamIsCapturing(stream.handle)
        _check("cuStreamIsCapturing", code)
        return bool(status != cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)

    @beside_captures
    def owner(self, address: int) -> int:
        """Return the ordinal of the GPU that owns an address."""
        self.bind()
        wanted = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        code, number = cu.cuPointerGetAttribute(wanted, address)
        _check("cuPointerGetAttribute", code)
        return int(number)

    @beside_captures
    def query_stream(self, stream: Any) -> bool:
        """Whether all work on a stream has completed."""
        if not stream.has_context:
            self.bind()  # else the default stream of another context would be queried
        (code,) = cu.cuStreamQuery(stream.handle)
        if code == _NOT_READY:
            return False
        _check("cuStreamQuery", code)
        return True

    @beside_captures
    def synchronize_stream(self, stream: Any) -> None:
        """Block until all work on a stream has completed."""
        if not stream.has_context:
            self.bind()  # else the wait would be for another context's default stream
        (code,) = cu.cuStreamSynchronize(stream.handle)
        _check("cuStreamSynchronize", code)

    @beside_captures
    def create_event(self) -> Any:
        """Return an event without timing, which is cheaper."""
        self.bind()
        with _core_call("creating an event"):
            return self._device.create_event()

    @beside_captures
    def create_timing_event(self) -> Any:
        """Return an event that records the time."""
        self.bind()
        with _core_call("creating an event"):
            return self._device.create_event(EventOptions(timing_enabled=True))

    def seconds_between(self, first: Any, second: Any) -> float:
        """Return the difference of two timing events, which the driver gives in milliseconds."""
        with _core_call("reading an event's time"):
            return float(second - first) / 1e3

    def record_event(self, event: Any, stream: Any) -> None:
        """Record an event after the work on a stream so far."""
        self.bind()
        with _core_call("recording an event"):
            stream.core.record(event)

    @beside_captures
    def query_event(self, event: Any) -> bool:
        """Whether the work before an event has completed."""
        self.bind()
        with _core_call("asking an event"):
            return bool(event.is_done)

    def wait_event(self, stream: Any, event: Any) -> None:
        """Make a stream wait for the work before an event."""
        self.bind()
        with _core_call("waiting for an event"):
            stream.core.wait(event)

    @beside_captures
    def create_pool(self, limit: int) -> Any:
        """Return a new memory pool of this GPU."""
        self.bind()
        options = DeviceMemoryResourceOptions(max_size=limit)
        with _core_call("creating a memory pool"):
            return _CudaPool(DeviceMemoryResource(self._device, options))

    def fill(self, address: int, pattern: bytes, repeats: int, stream: Any) -> None:
        """Fill memory with a repeated pattern of 1, 2, 4 or 8 bytes."""
        self.bind()
        handle = stream.handle
        words = len(pattern) // 4
        if len(pattern) == 1:
            (code,) = cu.cuMemsetD8Async(address, pattern[0], repeats, handle)
        elif len(pattern) == 2:
            (code,) = cu.cuMemsetD16Async(address, _word(pattern), repeats, handle)
        elif pattern[:4] * words == pattern:
            (code,) = cu.cuMemsetD32Async(address, _word(pattern[:4]), repeats * words, handle)
        else:
            # Two columns of 32-bit words: the driver has no 64-bit fill.
            low, high = _word(pattern[:4]), _word(pattern[4:])
            (code,) = cu.cuMemsetD2D32Async(address, 8, low, 1, repeats, handle)
            _check("cuMemsetD2D32Async", code)
            (code,) = cu.cuMemsetD2D32Async(address + 4, 8, high, 1, repeats, handle)
        _check("cuMemsetAsync", code)

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy from one device address to another."""
        self.bind()
        (code,) = cu.cuMemcpyDtoDAsync(target, source, nbytes, stream.handle)
        _check("cuMemcpyDtoDAsync", code)

    def copy_in(self, address: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy from a host address."""
        self.bind()
        (code,) = cu.cuMemcpyHtoDAsync(address, source, nbytes, stream.handle)
        _check("cuMemcpyHtoDAsync", code)

    def copy_out(self, target: int, address: int, nbytes: int, stream: Any) -> None:
        """Copy to a host address."""
        self.bind()
        (code,) = cu.cuMemcpyDtoHAsync(target, address, nbytes, stream.handle)
        _check("cuMemcpyDtoHAsync", code)

    @beside_captures
    def allocate_pinned(self, nbytes: int) -> tuple[int, int]:
        """Allocate host memory that kernels can write; return its host and its device address."""
        self.bind()
        flags = cu.CU_MEMHOSTALLOC_PORTABLE | cu.CU_MEMHOSTALLOC_DEVICEMAP
        code, host = cu.cuMemHostAlloc(nbytes, flags)
        _check("cuMemHostAlloc", code)
        code, device = cu.cuMemHostGetDevicePointer(host, 0)
        _check("cuMemHostGetDevicePointer", code)
        return int(host), int(device)

    def wait_value(self, stream: Any, address: int, value: int) -> None:
        """Make a stream wait until a 32-bit word in pinned memory is at least a value."""
        self.bind()
        at_least = cu.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
        (code,) = cu.cuStreamWaitValue32(stream.handle, address, value, at_least)
        _check("cuStreamWaitValue32", code)

    def load_kernel(self, cubin: bytes, name: str, waits: bool = False) -> Any:
        """Load a kernel of a cubin; it has no context and runs in that of its stream."""
        kernel = self.load(ObjectCode.from_cubin, cubin, name)
        kernel.waits = waits
        return kernel

    def waits(self, kernel: Any) -> bool:
        """Whether a kernel itself waits for the grids before it."""
        found: bool = kernel.waits
        return found

    @beside_captures
    def load(self, read: Any, code: bytes, name: str) -> Any:
        """Load a kernel from code by one of cuda-core's functions."""
        self.bind()
        with _core_call(f"loading the kernel {name}"):
            library = read(code, name=name)
            core = library.get_kernel(name)
        kernel = cu.CUkernel(int(core.handle))
        status, function = cu.cuKernelGetFunction(kernel)
        _check("cuKernelGetFunction", status)
        self._libraries.append(library)
        return _CudaKernel(core, kernel, function)

    def parameter_sizes(self, kernel: Any) -> tuple[int, ...]:
        """Return the size in bytes of each parameter of a kernel."""
        return tuple(info.size for info in kernel.core.arguments_info)


class _CudaStream:
    """A stream for both packages; a handle object saves the bindings a conversion."""

    def __init__(self, core: Any) -> None:
        number = int(core.handle)
        self.core = core
        self.handle = cu.CUstream(number)
        # The driver's default streams belong to the current context of the thread.
        self.has_context = number > PER_THREAD_STREAM


class _CudaPool:
    """A memory pool for both packages; it lives as long as this object."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.handle = cu.CUmemoryPool(int(core.handle))


class _CudaKernel:
    """A kernel for both packages."""

    def __init__(self, core: Any, kernel: Any, function: Any) -> None:
        self.core = core
        self.kernel_handle = kernel
        self.launch_handle = cu.CUfunction(int(kernel))  # a launch takes either kind of handle
        self.handle = function  # of the context: launches take three quarters of the time
        self.waits = False  # whether it waits for the grids before it itself


@contextmanager
def _core_call(what: str) -> Iterator[None]:
    """Turn cuda-core's exceptions, which have no public class, into a `DriverError`."""
    try:
        yield
    except Exception as error:
        name = str(error).partition(":")[0]
        step = _STEPS_BY_NAME.get(name, _DEFAULT_STEP)
        raise DriverError(f"{what} failed: {error}; {step}") from error


def _word(pattern: bytes) -> int:
    return int.from_bytes(pattern, "little")


def _check(call: str, code: Any) -> None:
    if code == _SUCCESS:
        return
    _, text = cu.cuGetErrorString(code)
    reason = text.decode() if isinstance(text, bytes) else "no description"
    step = _NEXT_STEPS.get(code, _DEFAULT_STEP)
    raise DriverError(f"{call} failed with {code.name} ({int(code)}): {reason}; {step}")

"""Arrays of any library, read by a protocol: DLPack (JAX, CuPy and others), and
`__cuda_array_interface__` of version 2 or 3 (CuPy, Numba and others).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import dtype_of_numpy, numpy_dtype
from tilewright.errors import LaunchError
from tilewright.given import as_int, as_ints, shown
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.array import ForeignArray, find_form, refuse
from tilewright.runtime.interop.dlpack import (
    CPU,
    CUDA,
    CUDA_HOST,
    CUDA_MANAGED,
    VERSION,
    look_into,
)
from tilewright.runtime.interop.foreign import MOVED, Producer
from tilewright.runtime.memory.dtypes import memory_dtype
from tilewright.runtime.memory.layout import packed_strides

__all__ = ["read_cuda_array", "read_exported"]

# Devices of ours for kinds of memory; pinned host memory belongs to the host.
_KINDS = {CPU: "cpu", CUDA_HOST: "cpu", CUDA: "cuda", CUDA_MANAGED: "cuda"}
_ADDRESSES = 1 << 64


def _library_of(array: Any) -> str:
    """The library that an array belongs to, by the name of its package."""
    return str(type(array).__module__).partition(".")[0].removesuffix("lib")


# --- DLPack ---------------------------------------------------------------------------------------


class _Exporter(Producer):
    """Keeps the capsule, which keeps the memory, and the array, which may own more."""

    def __init__(self, array: Any, capsule: Any, *, read_only: bool) -> None:
        super().__init__(array, read_only=read_only)
        self.library = _library_of(array)
        self._capsule = capsule


def read_exported(array: Any) -> ForeignArray:
    """Read an array by its DLPack export."""
    device = _device_of(array, *_place(array))
    ready = None if device.kind == "cpu" else device.stream
    capsule = _export(array, ready)
    contents = look_into(capsule)
    if contents is None:
        raise LaunchError(
            f"an array of {_library_of(array)} was exported as something that cannot be read here:"
            f" a capsule of DLPack, version {VERSION[0]} or before, can. Copy the array with"
            " tw.from_numpy"
        )
    if _device_of(array, contents.kind, contents.number) is not device:
        raise LaunchError(
            f"an array of {_library_of(array)} said that it lives on {device.name}, and its capsule"
            " says otherwise"
        )
    producer = _Exporter(array, capsule, read_only=contents.read_only)
    if contents.dtype is None:
        code, bits, lanes = contents.dtype_code
        raise refuse(
            producer.library, contents.shape,
            f"holds elements for which there is no dtype (DLPack's code {code}, {bits} bits,"
            f" {lanes} lanes)",
        )  # fmt: skip
    itemsize = numpy_dtype(contents.dtype).itemsize
    strides = tuple(stride * itemsize for stride in contents.strides)
    form = find_form(producer.library, contents.dtype, contents.shape, strides)
    return ForeignArray(producer, device, form, contents.address, ready=ready)


def _place(array: Any) -> tuple[int, int]:
    """The device of an array: DLPack's kind of device, and its number."""
    try:
        kind, number = as_ints(array.__dlpack_device__())
    except Exception as error:  # a tracer, or a deleted array, has no device
        raise LaunchError(
            f"{_library_of(array)} does not say where its array lies ({error}): pass an array that"
            " has contents, outside of traced or compiled code"
        ) from error
    return kind, number


def _export(array: Any, ready: Stream | None) -> Any:
    """A capsule, ready for work on one of our streams."""
    asked = {} if ready is None else {"stream": ready.queue.number}
    try:
        try:
            return array.__dlpack__(max_version=VERSION, **asked)
        except TypeError:  # an exporter without versions
            return array.__dlpack__(**asked)
    except Exception as error:  # of another library: any exception is possible
        raise LaunchError(f"{_library_of(array)} did not export its array: {error}") from error


def _device_of(array: Any, kind: int, number: int) -> Device:
    found = _KINDS.get(kind)
    if found is None:
        raise LaunchError(
            f"an array of {_library_of(array)} lives on a device of DLPack's kind {kind}, where"
            " kernels do not run: move it to the host or to a CUDA GPU"
        )
    if number < 0:
        raise LaunchError(
            f"an array of {_library_of(array)} lives on device {number} of DLPack's kind {kind},"
            " and devices count from 0"
        )
    return Device(found if found == "cpu" else f"{found}:{number}")


# --- the CUDA array interface ---------------------------------------------------------------------


class _Interface(NamedTuple):
    """The interface of an array at one moment; it may change at any time."""

    address: int
    kind: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    read_only: bool
    has_mask: bool
    stream: int | None  # the library's stream; version 2 has none, and requires no order


_PLACED = 4  # the first fields, by which an array is where it was


class _CudaProducer(Producer):
    """An array that names the stream of its library."""

    array: Any

    def __init__(self, array: Any, interface: _Interface) -> None:
        super().__init__(array, read_only=interface.read_only)
        self.library = _library_of(array)
        self._passed = interface

    def why_not_there(self, first: int, end: int) -> str | None:
        """Compare the interface now with the one passed; it has no size of the memory."""
        del first, end
        now = _ask(self.array)
        return MOVED if now is None or now[:_PLACED] != self._passed[:_PLACED] else None

    def current_stream(self, device: Device) -> Stream | None:
        """The stream that the interface names."""
        now = _ask(self.array)
        return None if now is None or now.stream is None else device.adopt_stream(now.stream)


def read_cuda_array(array: Any) -> ForeignArray:
    """Read an array by its CUDA array interface; by DLPack if this one has none."""
    interface = _ask(array)
    if interface is None:
        return read_exported(array)
    library = _library_of(array)
    if interface.has_mask:
        raise refuse(
            library, interface.shape, "has a mask, which a kernel would not see: pass them apart"
        )
    dtype = dtype_of_numpy(interface.kind)
    if dtype is None:
        raise refuse(
            library, interface.shape,
            f"holds {interface.kind.str}, for which there is no dtype: the CUDA array interface"
            " has no names for bf16 and f8, so pass tw.from_dlpack(…) of an array that has them",
        )  # fmt: skip
    form = find_form(library, memory_dtype(dtype), interface.shape, interface.strides)
    producer, address = _CudaProducer(array, interface), interface.address
    return ForeignArray(producer, _device_at(address), form, address)


def _ask(array: Any) -> _Interface | None:
    """The current interface of an array; None if this one has none."""
    given: Any = None
    try:
        given = getattr(array, "__cuda_array_interface__", None)
        return None if given is None else _read(given)
    except Exception as error:  # of another library: any exception is possible
        raise LaunchError(
            f"the CUDA array interface of an array of {_library_of(array)} cannot be read"
            f" ({type(error).__name__}: {shown(str(error))}): it is a dictionary with shape,"
            " typestr and data, as version 3 of the interface has them"
        ) from error


def _read(given: Any) -> _Interface:
    shape, kind = as_ints(given["shape"]), np.dtype(given["typestr"])
    address, read_only = given["data"]
    strides, stream = given.get("strides"), given.get("stream")
    if strides is None:
        strides = tuple(stride * kind.itemsize for stride in packed_strides(shape))
    made = _Interface(
        as_int(0 if address is None else address),
        kind,
        shape,
        as_ints(strides),
        bool(read_only),
        given.get("mask") is not None,
        None if stream is None else as_int(stream),
    )
    if len(made.strides) != len(shape):
        raise ValueError(f"{len(made.strides)} strides for {len(shape)} axes")
    if not 0 <= made.address < _ADDRESSES or not 0 <= (made.stream or 0) < _ADDRESSES:
        raise ValueError("an address outside of 64 bits")
    return made


def _device_at(address: int) -> Device:
    first = Device("cuda")
    owner = first.backend.owner_of(address) if address else 0
    return first if owner == first.ordinal else Device(f"cuda:{owner}")

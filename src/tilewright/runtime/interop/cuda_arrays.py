"""Arrays with `__cuda_array_interface__`, version 2 or 3: CuPy, Numba and others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.dtypes import dtype_of_numpy
from tilewright.errors import LaunchError
from tilewright.given import as_int, as_ints, shown
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.array import ForeignArray, find_form, refuse
from tilewright.runtime.interop.dlpack_arrays import library_of, read_exported
from tilewright.runtime.interop.foreign import MOVED, Producer
from tilewright.runtime.memory.dtypes import memory_dtype
from tilewright.runtime.memory.layout import packed_strides

__all__ = ["read_cuda_array"]

_ADDRESSES = 1 << 64


class _Said(NamedTuple):
    """The interface of an array at one moment; it may change at any time."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    kind: np.dtype[Any]
    address: int
    read_only: bool
    has_mask: bool
    stream: int | None  # the library's stream; version 2 has none, and requires no order


class _CudaProducer(Producer):
    """An array that names the stream of its library."""

    array: Any

    def __init__(self, array: Any, said: _Said) -> None:
        super().__init__(array, read_only=said.read_only)
        self.library = library_of(array)
        self._lay = _how_it_lies(said)

    def why_not_there(self, first: int, end: int) -> str | None:
        """Compare the interface now with the one passed; it has no size of the memory."""
        del first, end
        now = _ask(self.array)
        return None if now is not None and _how_it_lies(now) == self._lay else MOVED

    def current_stream(self, device: Device) -> Stream | None:
        """The stream that the interface names."""
        said = _ask(self.array)
        return None if said is None or said.stream is None else device.adopt_stream(said.stream)


def read_cuda_array(array: Any) -> ForeignArray:
    """Read an array by its CUDA array interface; by DLPack if this one has none."""
    said = _ask(array)
    if said is None:
        return read_exported(array)
    library = library_of(array)
    if said.has_mask:
        raise refuse(
            library, said.shape, "has a mask, which a kernel would not see: pass them apart"
        )
    dtype = dtype_of_numpy(said.kind)
    if dtype is None:
        raise refuse(
            library, said.shape,
            f"holds {said.kind.str}, for which there is no dtype: the CUDA array interface"
            " has no names for bf16 and f8, so pass tw.from_dlpack(…) of an array that has them",
        )  # fmt: skip
    form = find_form(library, memory_dtype(dtype), said.shape, said.strides)
    return ForeignArray(_CudaProducer(array, said), _device(said.address), form, said.address)


def _ask(array: Any) -> _Said | None:
    """The current interface of an array; None if this one has none."""
    interface: Any = None
    try:
        interface = getattr(array, "__cuda_array_interface__", None)
        return None if interface is None else _read(interface)
    except Exception as error:  # of another library: any exception is possible
        raise LaunchError(
            f"the CUDA array interface of an array of {library_of(array)} cannot be read"
            f" ({type(error).__name__}: {shown(str(error))}): it is a dictionary with shape,"
            " typestr and data, as version 3 of the interface has them"
        ) from error


def _read(interface: Any) -> _Said:
    shape, kind = as_ints(interface["shape"]), np.dtype(interface["typestr"])
    address, read_only = interface["data"]
    strides, stream = interface.get("strides"), interface.get("stream")
    if strides is None:
        strides = tuple(stride * kind.itemsize for stride in packed_strides(shape))
    said = _Said(
        shape,
        as_ints(strides),
        kind,
        as_int(0 if address is None else address),
        bool(read_only),
        interface.get("mask") is not None,
        None if stream is None else as_int(stream),
    )
    if len(said.strides) != len(shape):
        raise ValueError(f"{len(said.strides)} strides for {len(shape)} axes")
    if not 0 <= said.address < _ADDRESSES or not 0 <= (said.stream or 0) < _ADDRESSES:
        raise ValueError("an address outside of 64 bits")
    return said


def _how_it_lies(said: _Said) -> tuple[object, ...]:
    return said.shape, said.strides, said.kind, said.address


def _device(address: int) -> Device:
    first = Device("cuda")
    owner = first.backend.owner_of(address) if address else 0
    return first if owner == first.ordinal else Device(f"cuda:{owner}")

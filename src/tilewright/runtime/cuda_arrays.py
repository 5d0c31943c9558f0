"""Arrays with `__cuda_array_interface__`, version 2 or 3: CuPy, Numba and their like."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import dtype_of_numpy
from tilewright.runtime.device import Device
from tilewright.runtime.dlpack_arrays import library_of, read_exported
from tilewright.runtime.foreign import Producer
from tilewright.runtime.foreign_arrays import ForeignArray, find_form, refuse
from tilewright.runtime.indexing import packed_strides
from tilewright.runtime.memory_dtypes import memory_dtype
from tilewright.runtime.stream import Stream

__all__ = ["read_cuda_array"]


class _CudaProducer(Producer):
    """An array that says on which stream its library works."""

    array: Any

    def __init__(self, array: Any, *, read_only: bool) -> None:
        super().__init__(array, read_only=read_only)
        self.library = library_of(array)

    def is_at(self, address: int) -> bool:
        """Whether the interface still says so."""
        now: int = self.array.__cuda_array_interface__["data"][0]
        return now == address

    def current_stream(self, device: Device) -> Stream | None:
        """The stream that the interface names; version 2 has none, and asks for no order."""
        number = self.array.__cuda_array_interface__.get("stream")
        return None if number is None else device.adopt_stream(int(number))


def read_cuda_array(array: Any) -> ForeignArray:
    """Where an array lies, by its CUDA array interface; by DLPack if this one has none."""
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        return read_exported(array)
    shape = tuple(interface["shape"])
    library, kind = library_of(array), np.dtype(interface["typestr"])
    if interface.get("mask") is not None:
        raise refuse(library, shape, "has a mask, which a kernel would not see: pass them apart")
    dtype = dtype_of_numpy(kind)
    if dtype is None:
        raise refuse(
            library, shape,
            f"holds {interface['typestr']}, for which there is no dtype: the CUDA array interface"
            " has no names for bf16 and f8, so pass tw.from_dlpack(…) of what exports them",
        )  # fmt: skip
    address, read_only = interface["data"]
    strides = interface.get("strides")
    if strides is None:
        strides = tuple(stride * kind.itemsize for stride in packed_strides(shape))
    producer = _CudaProducer(array, read_only=read_only)
    form = find_form(library, memory_dtype(dtype), shape, tuple(strides))
    return ForeignArray(producer, _device(address), form, address)


def _device(address: int) -> Device:
    first = Device("cuda")
    owner = first.backend.owner_of(address) if address else 0
    return first if owner == first.ordinal else Device(f"cuda:{owner}")

"""NumPy arrays as tensors of the CPU device."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import DType, dtype_of_numpy
from tilewright.runtime.device import Device
from tilewright.runtime.foreign import Producer
from tilewright.runtime.foreign_arrays import ForeignArray, find_form, refuse
from tilewright.runtime.memory_dtypes import memory_dtype

__all__ = ["read_masked", "read_numpy"]

Array = npt.NDArray[Any]


class _NumpyProducer(Producer):
    library = "NumPy"
    array: Array

    def is_at(self, address: int) -> bool:
        """`resize` can move it."""
        return _address(self.array) == address


def read_numpy(array: Array) -> ForeignArray:
    """Where an array lies."""
    producer = _NumpyProducer(array, read_only=not array.flags.writeable)
    form = find_form("NumPy", _dtype(array), array.shape, array.strides)
    return ForeignArray(producer, Device("cpu"), form, _address(array))


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _dtype(array: Array) -> type[DType]:
    found = dtype_of_numpy(array.dtype)
    if found is not None:
        return memory_dtype(found)
    if dtype_of_numpy(array.dtype.newbyteorder("=")) is not None:
        raise refuse(
            "NumPy", array.shape,
            f"holds {array.dtype.str}, whose bytes are in the order of another machine: convert it"
            " with a.astype(a.dtype.newbyteorder('='))",
        )  # fmt: skip
    raise refuse("NumPy", array.shape, f"holds {array.dtype}, for which there is no dtype")


def read_masked(array: np.ma.MaskedArray[Any, Any]) -> NoReturn:
    """Refused: a kernel would not see the mask."""
    raise refuse(
        "NumPy", array.shape,
        "has a mask, which a kernel would not see: pass a.filled(…), or data and mask",
    )  # fmt: skip

"""NumPy arrays as tensors of the CPU device."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import DType, dtype_of_numpy
from tilewright.runtime.devices.device import Device
from tilewright.runtime.interop.array import ForeignArray, find_form, refuse
from tilewright.runtime.interop.foreign import MOVED, Producer
from tilewright.runtime.memory.dtypes import memory_dtype

__all__ = ["check_memory", "read_masked", "read_numpy"]

Array = npt.NDArray[Any]


# The type of the object between an `as_strided` array and its original.
_STRIDED: type = type(np.lib.stride_tricks.as_strided(np.zeros(1), (1,)).base)


class _NumpyProducer(Producer):
    library = "NumPy"
    array: Array

    def __init__(self, array: Array) -> None:
        super().__init__(array, read_only=not array.flags.writeable)
        self._owner = _find_owner(array)

    def why_not_there(self, first: int, end: int) -> str | None:
        """`resize` can move and shrink the array, and the array that it is a view of."""
        if _address(self.array) != first:
            return MOVED
        if self.is_within(first, end):
            return None
        if self._owner is self.array:
            return MOVED
        return (
            "is a view of an array that has been resized since: make the view again after that, and"
            " pass it"
        )

    def is_within(self, first: int, end: int) -> bool:
        """Whether a range of addresses lies in the array that has allocated the memory."""
        owner = self._owner
        if owner is None or first == end:
            return True
        begin = _address(owner)
        return begin <= first and end <= begin + owner.nbytes


def read_numpy(array: Array) -> ForeignArray:
    """Read an array of NumPy."""
    producer = _NumpyProducer(array)
    form = find_form("NumPy", _dtype(array), array.shape, array.strides)
    address = _address(array)
    check_memory(array, address, address + form.reach)
    return ForeignArray(producer, Device("cpu"), form, address)


def check_memory(array: Array, first: int, end: int) -> None:
    """Refuse an array whose range of addresses exceeds the memory behind it."""
    if not _NumpyProducer(array).is_within(first, end):
        raise refuse(
            "NumPy", array.shape,
            "reaches beyond the memory of the array that it is a view of: that array was resized,"
            " or the view made by `as_strided` with a shape or strides that do not fit it",
        )  # fmt: skip


def _find_owner(array: Array) -> Array | None:
    """The array that has allocated the memory; None if no NumPy array has."""
    owner, base = array, array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            owner = base
        if isinstance(base, memoryview):
            base = base.obj
        elif isinstance(base, (np.ndarray, _STRIDED)):
            base = base.base
        else:
            break
    return owner if owner.flags.owndata else None


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
    """Refuse the array: a kernel would not see the mask."""
    raise refuse(
        "NumPy", array.shape,
        "has a mask, which a kernel would not see: pass a.filled(…), or data and mask",
    )  # fmt: skip

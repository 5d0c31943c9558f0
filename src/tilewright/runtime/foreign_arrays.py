"""Arrays of other libraries as tensors: which can be taken, and what is wrong with the others.

A reader for each kind of array says where it lies and how (`ForeignArray`); what follows is the
same for all. Nothing is copied. Readers are found by the type of an array, and by what the type
offers when it is seen for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.dtypes import DType, numpy_dtype
from tilewright.errors import LaunchError
from tilewright.runtime.device import Device
from tilewright.runtime.foreign import ForeignStorage, Producer
from tilewright.runtime.indexing import Layout, check_shape
from tilewright.runtime.stream import Stream
from tilewright.runtime.tensor import Tensor

__all__ = ["ForeignArray", "Reader", "adopt", "refuse"]


@dataclass(frozen=True, slots=True)
class ForeignArray:
    """Where an array lies and how."""

    producer: Producer
    device: Device
    dtype: type[DType]
    address: int  # of the first element
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    ready: Stream | None = None  # the stream that has been made to wait for the library


# Says where an array of one kind lies.
Reader = Callable[[Any], ForeignArray]


def refuse(library: str, shape: tuple[int, ...], text: str) -> LaunchError:
    """The refusal of an array."""
    return LaunchError(f"the array of {library} with shape {tuple(shape)} {text}")


def adopt(array: ForeignArray) -> Tensor:
    """A tensor on the memory of an array."""
    shape, itemsize = check_shape(array.shape), numpy_dtype(array.dtype).itemsize
    layout = Layout(shape, _strides(array, itemsize), _offset(array, itemsize))
    region = layout.region(itemsize)
    label = f"{array.dtype.label}[{', '.join(map(str, shape))}]"
    device = array.device
    with device.lock:
        device.check_usable()
        device.settle_notes()
        span = range(region.low, region.high)
        storage = ForeignStorage(device, array.producer, span, array.address, label)
        if array.ready is not None:
            storage.come_after(region, array.ready)
        elif array.producer.has_one_stream:
            storage.begin_at(array.producer.current_stream(device) or device.stream)
    return Tensor(storage, array.dtype, layout)


def _offset(array: ForeignArray, itemsize: int) -> int:
    """Elements from address 0 to the first."""
    if not prod(array.shape):
        return 0  # there is nothing at the address
    offset, rest = divmod(array.address, itemsize)
    if rest:
        raise refuse(
            array.producer.library, array.shape,
            f"begins at address {array.address:#x}, and elements of {itemsize} bytes begin at"
            f" multiples of {itemsize}: copy it",
        )  # fmt: skip
    if not offset:
        raise refuse(array.producer.library, array.shape, "has elements and no memory")
    return offset


def _strides(array: ForeignArray, itemsize: int) -> tuple[int, ...]:
    """Strides in elements; along an axis with fewer than two they are ours to say."""
    strides = []
    packed = 1
    for extent, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if extent <= 1:
            strides.append(packed)
        elif stride < 0:
            raise refuse(
                array.producer.library, array.shape,
                f"runs backwards, with strides of {array.strides} bytes: copy it, or turn it round",
            )  # fmt: skip
        elif stride % itemsize:
            raise refuse(
                array.producer.library, array.shape,
                f"has strides of {array.strides} bytes, which are no whole elements of {itemsize}"
                " bytes: copy it",
            )  # fmt: skip
        else:
            strides.append(stride // itemsize)
        packed *= max(extent, 1)
    return tuple(reversed(strides))

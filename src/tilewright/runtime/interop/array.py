"""Arrays of other libraries as tensors, and the refusals of arrays that cannot be tensors.

A reader for each kind of array gives its address and layout (`ForeignArray`); the rest is the same
for all. Nothing is copied. Readers are found by the type of an array; a new type is matched by the
protocols it has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, cast

from tilewright.dtypes import DType, numpy_dtype
from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.interop.foreign import ArrayPlace, ForeignStorage, Producer
from tilewright.runtime.memory.layout import Layout, check_shape, packed_strides
from tilewright.runtime.memory.layout_templates import find_handle_template
from tilewright.runtime.memory.tensor import Tensor
from tilewright.runtime.order.critical import critical

__all__ = ["ForeignArray", "Form", "Reader", "adopt", "find_form", "find_place", "refuse"]

_LAST_ADDRESS = (1 << 63) - 1  # of any memory
_PLACES = 16384  # cached places of each form; a full table is cleared


class Form:
    """The layout of arrays, for any address."""

    __slots__ = (
        "dtype", "is_empty", "itemsize", "label", "places", "reach", "shape", "strides",
    )  # fmt: skip

    def __init__(
        self, dtype: type[DType], shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.strides = strides  # in elements
        self.itemsize = numpy_dtype(dtype).itemsize
        self.is_empty = not prod(shape)
        # Bytes from the first element to the end of the last one.
        self.reach = 0 if self.is_empty else self._span() * self.itemsize
        self.label = f"{dtype.label}[{', '.join(map(str, shape))}]"
        # Keyed by device, address, and whether writes are refused: allocators reuse memory, so
        # addresses recur.
        self.places: dict[tuple[Device, int, bool], ArrayPlace] = {}

    def _span(self) -> int:
        steps = zip(self.shape, self.strides, strict=True)
        return 1 + sum((extent - 1) * stride for extent, stride in steps)

    def find_place(self, producer: Producer, device: Device, address: int) -> ArrayPlace:
        """The place of such an array at a new address."""
        offset = 0 if self.is_empty else self._offset(producer.library, address)
        if offset * self.itemsize + self.reach > _LAST_ADDRESS:
            raise refuse(
                producer.library, self.shape,
                f"reaches over {self.reach} bytes from address {address:#x}, with strides of"
                f" {self.strides} elements: no memory has so many",
            )  # fmt: skip
        layout = Layout(self.shape, self.strides, offset)
        template = find_handle_template(self.dtype, self.shape, self.strides, offset, device, False)
        low, nbytes = template.region.low, template.region.high - template.region.low
        allocation = device.backend.adopt(low, nbytes, read_only=producer.read_only)
        if len(self.places) >= _PLACES:
            self.places = {}
        found = ArrayPlace(self, layout, template, allocation)
        self.places[device, address, producer.read_only] = found
        return found

    def _offset(self, library: str, address: int) -> int:
        """Elements from address 0 to the first one."""
        offset, rest = divmod(address, self.itemsize)
        if rest:
            raise refuse(
                library, self.shape,
                f"begins at address {address:#x}, and elements of {self.itemsize} bytes begin at"
                f" multiples of {self.itemsize}: copy it",
            )  # fmt: skip
        if not offset:
            raise refuse(library, self.shape, "has elements and no memory")
        return offset


class ForeignArray(NamedTuple):
    """An array as its reader describes it."""

    producer: Producer
    device: Device
    form: Form
    address: int  # of the first element
    ready: Stream | None = None  # the stream that waits for the library's work


# Reads an array of one kind.
Reader = Callable[[Any], ForeignArray]


def refuse(library: str, shape: tuple[int, ...], text: str) -> LaunchError:
    """The refusal of an array."""
    return LaunchError(f"the array of {library} with shape {tuple(shape)} {text}")


def _make_form(
    library: str, dtype: type[DType], shape: tuple[int, ...], strides: tuple[int, ...]
) -> Form:
    checked, itemsize = check_shape(shape), numpy_dtype(dtype).itemsize
    return Form(dtype, checked, _in_elements(library, checked, strides, itemsize))


# The form of arrays with a dtype, a shape and strides in bytes; refuses invalid strides.
find_form = cast("Callable[..., Form]", lru_cache(maxsize=1024)(_make_form))


def adopt(array: ForeignArray) -> Tensor:
    """A tensor on the memory of an array, which it keeps."""
    producer, device, form, address, _ = array
    place = find_place(producer, device, form, address)
    with device.lock:
        device.check_open()
        device.settle_deferred()
        storage = critical(device, "passing an array", _storage, producer, device, place, array)
    return Tensor(storage, form.dtype, place.layout, place.template)


def _storage(
    producer: Producer, device: Device, place: ArrayPlace, array: ForeignArray
) -> ForeignStorage:
    made = ForeignStorage(device, producer, place, array.address)
    if array.ready is not None:
        made.timeline.come_after(place.template.region, array.ready)
    return made


def find_place(producer: Producer, device: Device, form: Form, address: int) -> ArrayPlace:
    """The cached place of an array, or a new one."""
    found = form.places.get((device, address, producer.read_only))
    return form.find_place(producer, device, address) if found is None else found


def _in_elements(
    library: str, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[int, ...]:
    """Strides in elements; axes with fewer than two elements get packed strides.

    All axes of an array without elements do.
    """
    found = []
    is_empty = 0 in shape
    for extent, stride, packed in zip(shape, strides, packed_strides(shape), strict=True):
        if extent <= 1 or is_empty:
            found.append(packed)
        elif stride < 0:
            raise refuse(
                library, shape,
                f"runs backwards, with strides of {strides} bytes: copy it, or turn it round",
            )  # fmt: skip
        elif stride % itemsize:
            raise refuse(
                library, shape,
                f"has strides of {strides} bytes, which are no whole elements of {itemsize}"
                " bytes: copy it",
            )  # fmt: skip
        else:
            found.append(stride // itemsize)
    return tuple(found)

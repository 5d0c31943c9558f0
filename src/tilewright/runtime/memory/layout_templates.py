"""Layout templates: the parts of handles and tensors that are computed once per layout.

Most handles are like earlier ones, and outputs are made for every launch. Values that depend on
dtype, shape and strides alone are looked up instead of computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import NamedTuple, cast

from tilewright.dtypes import DType, numpy_dtype
from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.layout import Layout
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.memory.tensor_spec import TensorSpec, find_spec

__all__ = ["HandleTemplate", "TensorTemplate", "find_handle_template", "find_tensor_template"]

_ALIGNMENT = 16  # bytes; no kernel is compiled for more
_MOST_BYTES = (1 << 63) - 1  # countable in 64 bits with a sign


class HandleTemplate(NamedTuple):
    """A handle without its storage."""

    itemsize: int
    begin: int  # byte of the storage at which the handle begins
    region: Region
    spec: TensorSpec


class TensorTemplate(NamedTuple):
    """A tensor with a storage of its own, before the storage exists."""

    device: Device
    dtype: type[DType]
    nbytes: int
    label: str
    layout: Layout
    handle: HandleTemplate


def _make_handle_template(
    dtype: type[DType],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    device: Device,
    is_owned: bool,
) -> HandleTemplate:
    itemsize = numpy_dtype(dtype).itemsize
    begin = offset * itemsize
    place = begin % _ALIGNMENT  # our storages begin at multiples of it
    spec = find_spec(dtype, shape, strides, place, device, is_owned)
    return HandleTemplate(itemsize, begin, Region.of(shape, strides, begin, itemsize), spec)


def _make_tensor_template(
    device: Device, shape: tuple[int, ...], dtype: type[DType]
) -> TensorTemplate:
    label = f"{dtype.label}[{', '.join(map(str, shape))}]"
    layout, nbytes = Layout.packed(shape), prod(shape) * numpy_dtype(dtype).itemsize
    if nbytes > _MOST_BYTES:
        raise LaunchError(f"a tensor of {label} would have {nbytes} bytes: no memory has so many")
    handle = find_handle_template(dtype, shape, layout.strides, 0, device, True)
    return TensorTemplate(device, dtype, nbytes, label, layout, handle)


# Keyed by dtype, shape, strides, offset in elements, device, and whether the memory is ours.
find_handle_template = cast(
    "Callable[..., HandleTemplate]", lru_cache(maxsize=4096)(_make_handle_template)
)
# Keyed by device, checked shape and dtype.
find_tensor_template = cast(
    "Callable[..., TensorTemplate]", lru_cache(maxsize=1024)(_make_tensor_template)
)

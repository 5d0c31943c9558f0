"""Layout templates: the parts of handles and tensors that are computed once per layout.

Most handles are like earlier ones, and outputs are made for every launch. Values that depend on
dtype, shape and strides alone are looked up instead of computed. The *spec* of a tensor has the
properties that kernels are compiled for and launches are checked by: equal handles share one spec
object, so plans are found by its identity, without comparing its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakValueDictionary

from tilewright.dtypes import DType, numpy_dtype
from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.memory.layout import Layout
from tilewright.runtime.memory.regions import Region, strides_are_disjoint

if TYPE_CHECKING:
    from tilewright.runtime.memory.partition import Tiling

__all__ = [
    "HandleTemplate",
    "TensorSpec",
    "TensorTemplate",
    "find_handle_template",
    "find_spec",
    "find_tensor_template",
]

_ALIGNMENT = 16  # bytes; no kernel is compiled for more
_MOST_BYTES = (1 << 63) - 1  # countable in 64 bits with a sign
_KEPT = 4096  # specs and handle templates


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class TensorSpec:
    """Properties of handles, without the address except for the alignment that kernels rely on.

    Compared by identity: no two equal specs exist at the same time.
    """

    dtype: type[DType]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    place: int  # address of the first byte, modulo the alignment that kernels are compiled for
    device: Device
    is_owned: bool  # its bytes come from our pools
    is_disjoint: bool  # no two of its elements share bytes
    # The last tiling of a handle with this spec.
    tiling: Tiling | None = field(default=None, init=False)


def _make_spec(
    dtype: type[DType],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    place: int,
    device: Device,
    is_owned: bool,
) -> TensorSpec:
    fields = (dtype, shape, strides, place, device, is_owned)
    found = _SPECS.get(fields)
    if found is None:
        spec = TensorSpec(*fields, is_disjoint=strides_are_disjoint(shape, strides))
        found = _SPECS.setdefault(fields, spec)
    return found


# Every spec that a handle, a template or a plan holds, by the fields that are not computed.
_SPECS: WeakValueDictionary[tuple[Any, ...], TensorSpec] = WeakValueDictionary()
# The same; the last ones live on without a handle.
find_spec = cast("Callable[..., TensorSpec]", lru_cache(maxsize=_KEPT)(_make_spec))


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
    "Callable[..., HandleTemplate]", lru_cache(maxsize=_KEPT)(_make_handle_template)
)
# Keyed by device, checked shape and dtype.
find_tensor_template = cast(
    "Callable[..., TensorTemplate]", lru_cache(maxsize=1024)(_make_tensor_template)
)

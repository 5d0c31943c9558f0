"""Making tensors: shape and dtype at the call, bytes on the stream of the first use.

`empty` takes bytes that the current stream has no more use for, if there are any.

`from_numpy` copies at the call, so the array may change afterwards. `runtime` can only repeat an
element or copy bytes; a library kernel that makes contents (`arange`, `rand`) goes through
`fill_by`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import dtype_of_numpy, f32
from tilewright.errors import LaunchError
from tilewright.given import shown
from tilewright.runtime.devices.device import Device, current_device, find_device
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.memory.dtypes import element_bytes, memory_dtype
from tilewright.runtime.memory.layout import Layout, check_shape
from tilewright.runtime.memory.storage import Initialiser, Maker, Storage
from tilewright.runtime.memory.tensor import Tensor, new_tensor
from tilewright.runtime.ops.copies import Fill, Upload, host_bytes

__all__ = ["empty", "fill_by", "from_numpy", "full", "meta", "ones", "zeros"]

Shape = int | tuple[int, ...]

_TARGET = re.compile("cpu|sm_([1-9][0-9]{1,2})")


def empty(shape: Shape, dtype: Any = f32, *, device: Device | str | None = None) -> Tensor:
    """A tensor with uninitialised contents."""
    return _make(shape, dtype, device, None)


def zeros(shape: Shape, dtype: Any = f32, *, device: Device | str | None = None) -> Tensor:
    """A tensor of zeros."""
    return full(shape, 0, dtype, device=device)


def ones(shape: Shape, dtype: Any = f32, *, device: Device | str | None = None) -> Tensor:
    """A tensor of ones."""
    return full(shape, 1, dtype, device=device)


def full(
    shape: Shape, value: Any, dtype: Any = f32, *, device: Device | str | None = None
) -> Tensor:
    """A tensor that holds one value everywhere."""
    return _make(shape, dtype, device, Fill(element_bytes(value, memory_dtype(dtype))))


def fill_by(
    shape: Shape,
    dtype: Any,
    initialiser: Callable[[Tensor, Stream], None],
    *,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor whose contents an initialiser writes, on the stream of the first use.

    The initialiser gets another tensor and submits work to that stream; it must write all elements,
    and read none of them before. The bytes become those of this tensor.
    """
    kind, extents = memory_dtype(dtype), check_shape(shape)

    def initialise(storage: Storage, stream: Stream) -> None:
        initialiser(Tensor(storage, kind, Layout.packed(extents)), stream)

    return _make(extents, kind, device, Maker(initialise))


def meta(shape: Shape, dtype: Any = f32, *, target: str | None = None) -> Tensor:
    """A tensor without memory, to compile kernels with: `add(…).compile()`.

    `target` is the architecture to compile for, `sm_90` say; by default that of the current device.
    """
    wanted = current_device().target if target is None else target
    named = _TARGET.fullmatch(wanted) if isinstance(wanted, str) else None
    if named is None:
        raise LaunchError(f"{shown(target)} is no target: say 'cpu' or an architecture, 'sm_90'")
    return _make(shape, dtype, f"meta:{named[1] or 0}", None)


def from_numpy(array: npt.ArrayLike, *, device: Device | str | None = None) -> Tensor:
    """A tensor with a copy of an array, taken now."""
    try:
        values = np.asarray(array)
    except Exception as error:  # of an object that NumPy asks for its elements
        raise LaunchError(f"NumPy makes no array of {shown(array)}: {shown(str(error))}") from error
    dtype = dtype_of_numpy(values.dtype)
    if dtype is None:
        raise LaunchError(f"there is no dtype for NumPy's {values.dtype}: convert the array first")
    shape = check_shape(values.shape)
    memory_dtype(dtype)
    place = _place(device)
    packed = host_bytes(place, values.nbytes)
    np.copyto(packed.view(values.dtype).reshape(shape), values)
    return _make(shape, dtype, place, Upload(packed))


def _make(
    shape: Shape, dtype: Any, device: Device | str | None, initialiser: Initialiser | None
) -> Tensor:
    kind, extents = memory_dtype(dtype), check_shape(shape)
    return new_tensor(_place(device), extents, kind, initialiser)


def _place(device: Device | str | None) -> Device:
    return current_device() if device is None else find_device(device)

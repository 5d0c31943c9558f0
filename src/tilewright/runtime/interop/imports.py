"""Arrays of other libraries as tensors: `tw.from_dlpack`, `tw.partition` and launches."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.runtime.interop.array import Reader, adopt
from tilewright.runtime.interop.numpy_arrays import read_masked, read_numpy
from tilewright.runtime.interop.passed import wrapped
from tilewright.runtime.interop.protocol_arrays import read_cuda_array, read_exported
from tilewright.runtime.interop.torch_tensors import find_torch_reader
from tilewright.runtime.memory.partition import HostPartition, tensor_maker
from tilewright.runtime.memory.tensor import Tensor

__all__ = ["as_tensor", "from_dlpack", "is_array", "partition"]

# Readers by type of array; new types are added when they are first seen.
_READERS: dict[type, Reader] = {np.ndarray: read_numpy}

# Protocols of other libraries' types; the most informative comes first.
_PROTOCOLS: dict[str, Reader] = {
    "__cuda_array_interface__": read_cuda_array,
    "__dlpack__": read_exported,
}


def as_tensor(value: Any) -> Tensor | None:
    """A tensor, or a tensor on the memory of an array; None for any other object."""
    kind = type(value)
    if issubclass(kind, Tensor):
        return value  # type: ignore[no-any-return]
    reader = _READERS.get(kind) or _find_reader(kind)
    return None if reader is None else adopt(reader(value))


def is_array(value: Any) -> bool:
    """Whether it is an array of a library that has a reader."""
    return type(value) in _READERS or _find_reader(type(value)) is not None


def from_dlpack(array: Any) -> Tensor:
    """A tensor on the memory of an array: NumPy, torch, CuPy, JAX or another DLPack exporter.

    Nothing is copied, and the tensor keeps the array alive. Accesses by its library meanwhile, from
    the host or on streams that it does not name, are not ordered with ours.
    """
    tensor = as_tensor(array)
    if tensor is None:
        raise LaunchError(
            f"tw.from_dlpack takes an array that another library exports, with `__dlpack__`, not an"
            f" object of type {type(array).__name__}; tw.from_numpy copies objects that NumPy reads"
        )
    return tensor


def partition(
    array: Any,
    *tile: int | None,
    order: tuple[int, ...] = (),
    prefix: bool = False,
    segments: Any = None,
) -> HostPartition:
    """Cut a tensor or an array of another library into tiles, as `Tensor.partition` does."""
    wrapper = None if isinstance(array, Tensor) else wrapped(array)
    handle = from_dlpack(array) if wrapper is None else wrapper
    if order or prefix or segments is not None:
        offsets = None if segments is None else from_dlpack(segments)
        cut = handle.partition(*tile, order=order, prefix=prefix, segments=offsets)
    else:
        cut = handle.partition(*tile)
    if wrapper is not None:
        cut._array = array  # noqa: SLF001
    return cut


def _find_reader(kind: type) -> Reader | None:
    """A reader for a new type: torch's first, then a base class's, then a protocol's."""
    reader = read_masked if _is_masked(kind) else find_torch_reader(kind)
    if reader is None:
        reader = next((_READERS[base] for base in kind.__mro__ if base in _READERS), None)
    if reader is None:
        reader = next((read for name, read in _PROTOCOLS.items() if hasattr(kind, name)), None)
    return None if reader is None else _READERS.setdefault(kind, reader)


def _is_masked(kind: type) -> bool:
    """Whether it is NumPy's masked array, whose module is slow to load: here it is loaded."""
    module = sys.modules.get("numpy.ma.core")
    return issubclass(kind, getattr(module, "MaskedArray", ()))


tensor_maker.make = as_tensor

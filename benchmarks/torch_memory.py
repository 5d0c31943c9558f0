"""Our tensors as torch tensors on the same memory, for the peers of a benchmark."""

from __future__ import annotations

from typing import Any

import torch

import tilewright as tw
from tilewright.runtime.interop.torch_tensors import TORCH_DTYPES

__all__ = ["as_torch"]

# Elements travel as integers of the same width, which every version of the protocol supports.
_BITS = {1: "|u1", 2: "<i2", 4: "<i4", 8: "<i8"}
_NAMES: dict[type[tw.DType], str] = {}
for _name, _dtype in TORCH_DTYPES.items():
    _NAMES.setdefault(_dtype, _name)  # the first of several is its own name


class _Exported:
    """Device memory through an interface that torch understands."""

    def __init__(self, tensor: tw.Tensor) -> None:
        self.tensor = tensor  # kept alive with the alias
        self.__cuda_array_interface__ = {
            "shape": tensor.shape,
            "typestr": _BITS[tensor.itemsize],
            "data": (tensor.address, False),
            "strides": None,
            "version": 3,
        }


def as_torch(tensor: tw.Tensor) -> Any:
    """A torch tensor on the memory of a contiguous tensor of ours, allocated now.

    Accesses of torch are not tracked: the caller keeps the order.
    """
    stream = tensor.device.stream
    with tensor.device.lock:
        tensor.storage.materialise(stream)
    stream.sync()
    bits = torch.as_tensor(_Exported(tensor), device="cuda")
    return bits.view(getattr(torch, _NAMES[tensor.dtype]))

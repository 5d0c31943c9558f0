"""Our tensors as torch sees them: the peers of a benchmark work on the same bytes."""

from __future__ import annotations

from typing import Any

import torch

import tilewright as tw

__all__ = ["as_torch"]

_TYPES = {tw.f16: "<f2", tw.f32: "<f4", tw.i32: "<i4", tw.i64: "<i8"}


class _Exported:
    """Device memory as torch understands it."""

    def __init__(self, tensor: tw.Tensor) -> None:
        self.tensor = tensor  # kept alive with the alias
        self.__cuda_array_interface__ = {
            "shape": tensor.shape,
            "typestr": _TYPES[tensor.dtype][0],
            "data": (tensor.address, False),
            "strides": None,
            "version": 3,
        }


def as_torch(tensor: tw.Tensor) -> Any:
    """A torch tensor on the memory of a contiguous tensor of ours, which gets its bytes now.

    Nobody watches what torch does with it: the caller keeps the order.
    """
    stream = tensor.device.stream
    with tensor.device.lock:
        tensor.storage.materialise(stream)
    stream.sync()
    return torch.as_tensor(_Exported(tensor), device="cuda").view(_TYPES[tensor.dtype][1])

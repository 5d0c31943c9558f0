"""The specialisation of a call: the properties of its tensors that the compiler relies on."""

from __future__ import annotations

from dataclasses import replace

from tilewright.frontend.signature.signature import TensorParam
from tilewright.frontend.signature.specialization import (
    MAX_EXTENT,
    PointerSpec,
    Specialization,
    TensorSpecialization,
    divisor,
    extent_divisors,
    offsets_name,
)
from tilewright.jit.bind.binding import Binding
from tilewright.runtime.devices.backend import ALIGNMENT
from tilewright.runtime.memory.partition import PersistentPartition
from tilewright.runtime.memory.tensor import Tensor

__all__ = ["specialize"]


def specialize(binding: Binding) -> Specialization:
    """The specialisation of a call; it has no extent in it."""
    signature, target = binding.signature, binding.device.target
    return Specialization(
        tensors=tuple(_tensor_spec(binding, param) for param in signature.tensors),
        constants=tuple(sorted(binding.constants.items())),
        scalars=tuple(binding.dtype(param.dtype) for param in signature.scalars),
        target=target,
        grid_rank=len(binding.grid) if binding.is_grid_given else None,
        hints=binding.hints.of(target),
        pointers=tuple(
            PointerSpec(pointed.dtype, _address_divisor(pointed))
            for pointed in (binding.tensors[param.name] for param in signature.pointers)
        ),
    )


def _address_divisor(tensor: Tensor) -> int:
    return divisor(tensor.offset * tensor.itemsize or ALIGNMENT)


def _tensor_spec(binding: Binding, param: TensorParam) -> TensorSpecialization:
    spec = _plain_spec(binding.tensors[param.name])
    partition = binding.partitions.get(param.name)
    if partition is None:
        return spec
    offsets = binding.tensors.get(offsets_name(param.name))
    walked = binding.walked.get(param.name)
    return replace(
        spec,
        tile=partition.tile,
        order=partition.order,
        is_prefix=partition.is_prefix,
        segments=None if offsets is None else _plain_spec(offsets),
        group=(1, 1) if walked is None else _group(walked),
    )


def _group(walked: PersistentPartition) -> tuple[int, int] | None:
    """The group of a walk along the last two axes; None if the call gives none."""
    if walked.group is None:
        return None
    *_, rows, columns = (1, *walked.group)
    return rows, columns


def _plain_spec(tensor: Tensor) -> TensorSpecialization:
    """The properties that every tensor has, cut or not."""
    shape, strides = tensor.shape, tensor.strides
    wide = any(stride > MAX_EXTENT for stride in strides)
    last_element = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    # The contiguous axis is the last one with stride one.
    along = max((axis for axis, stride in enumerate(strides) if stride == 1), default=None)
    runs_along = tuple(axis == along for axis in range(tensor.ndim))
    return TensorSpecialization(
        dtype=tensor.dtype,
        unit_strides=runs_along,
        address_divisor=_address_divisor(tensor),
        extent_divisors=extent_divisors(shape, runs_along),
        stride_divisors=tuple(divisor(stride) for stride in strides),
        wide=wide,
        far=wide or last_element > MAX_EXTENT,
    )

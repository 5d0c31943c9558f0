"""From the tensors of a call to what the compiler may rely on: strides, divisibility, widths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilewright.frontend.signature.signature import PointerParam, TensorParam
from tilewright.frontend.signature.specialization import (
    MAX_EXTENT,
    PointerSpec,
    Specialization,
    TensorSpecialization,
    offsets_name,
)
from tilewright.jit.bind.binding import Binding
from tilewright.runtime.devices.backend import ALIGNMENT
from tilewright.runtime.memory.tensor import Tensor

__all__ = ["LARGEST_DIVISOR", "divisor", "extent_divisors", "specialize"]

LARGEST_DIVISOR = 16  # what TMA and vector loads need; more would only split the cache


def specialize(binding: Binding) -> Specialization:
    """The specialisation that a call needs. It never depends on sizes."""
    signature, target = binding.signature, binding.device.target
    return Specialization(
        tensors=tuple(_tensor_spec(binding, param) for param in signature.tensors),
        constants=tuple(sorted(binding.constants.items())),
        scalars=tuple(binding.dtype(param.dtype) for param in signature.scalars),
        target=target,
        grid_rank=len(binding.grid) if binding.is_grid_given else None,
        hints=binding.hints.of(target),
        pointers=tuple(_pointer_spec(binding, param) for param in signature.pointers),
    )


def _pointer_spec(binding: Binding, param: PointerParam) -> PointerSpec:
    tensor = binding.tensors[param.name]
    return PointerSpec(tensor.dtype, _address_divisor(tensor))


def _address_divisor(tensor: Tensor) -> int:
    return divisor(tensor.offset * tensor.itemsize or ALIGNMENT)


def _tensor_spec(binding: Binding, param: TensorParam) -> TensorSpecialization:
    spec = _plain_spec(binding.tensors[param.name])
    partition = binding.partitions.get(param.name)
    if partition is None:
        return spec
    offsets = binding.tensors.get(offsets_name(param.name))
    return replace(
        spec,
        tile=partition.tile,
        order=partition.order,
        is_prefix=partition.is_prefix,
        segments=None if offsets is None else _plain_spec(offsets),
        group=binding.groups.get(param.name, (1, 1)),
    )


def _plain_spec(tensor: Tensor) -> TensorSpecialization:
    """What is known of any tensor."""
    wide = any(stride > MAX_EXTENT for stride in tensor.strides)
    runs_along = _unit_strides(tensor)
    return TensorSpecialization(
        dtype=tensor.dtype,
        unit_strides=runs_along,
        address_divisor=_address_divisor(tensor),
        extent_divisors=extent_divisors(tensor.shape, runs_along),
        stride_divisors=tuple(divisor(stride) for stride in tensor.strides),
        wide=wide,
        far=wide or _last_element(tensor) > MAX_EXTENT,
    )


def _unit_strides(tensor: Tensor) -> tuple[bool, ...]:
    """The last axis with stride one, if there is one: the axis along which memory runs."""
    axes = [axis for axis, stride in enumerate(tensor.strides) if stride == 1]
    return tuple(bool(axes) and axis == axes[-1] for axis in range(tensor.ndim))


def _last_element(tensor: Tensor) -> int:
    """How far the last element is from the first."""
    ends = zip(tensor.shape, tensor.strides, strict=True)
    return sum((extent - 1) * stride for extent, stride in ends)


def extent_divisors(shape: Iterable[int], runs_along: Iterable[bool]) -> tuple[int, ...]:
    """What is known of extents: whether vectors fill the axis along which memory runs.

    Machine code is the same whatever divides the others, and a program for each number of rows that
    has another divisor would only be compiled more often.
    """
    axes = zip(shape, runs_along, strict=True)
    return tuple(divisor(extent) if is_along else 1 for extent, is_along in axes)


def divisor(number: int) -> int:
    """The largest power of two up to 16 that divides a number; zero counts as divisible."""
    return min(number & -number, LARGEST_DIVISOR) if number else LARGEST_DIVISOR

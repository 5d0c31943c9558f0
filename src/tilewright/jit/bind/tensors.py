"""Tensor arguments: checks of kind, rank and dtype, and of the tilings of outputs."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import AnyDType, DType
from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import (
    AccumParam,
    MappedParam,
    MutParam,
    PointerParam,
    RefParam,
    TensorParam,
)
from tilewright.frontend.signature.specialization import offsets_name
from tilewright.jit.bind.binding import Binding, described, refused
from tilewright.runtime.interop.imports import as_tensor, is_array
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition
from tilewright.runtime.memory.tensor import Tensor

__all__ = ["bind_accum", "bind_mapped", "bind_mut", "bind_pointer", "bind_ref"]


def bind_ref(binding: Binding, param: RefParam, value: Any) -> None:
    """Bind a read-only tensor."""
    if isinstance(value, (HostPartition, PersistentPartition)):
        raise refused(
            binding, param.name,
            "is read-only (Ref) and is cut into tiles inside the kernel: pass the tensor itself",
        )  # fmt: skip
    _bind_tensor(binding, param, value)


def bind_accum(binding: Binding, param: AccumParam, value: Any) -> None:
    """Bind a tensor that every block accumulates into."""
    if isinstance(value, (HostPartition, PersistentPartition)):
        raise refused(
            binding, param.name,
            "is an Accum, into which every block accumulates: pass the tensor itself, not cut",
        )  # fmt: skip
    _bind_tensor(binding, param, value)


def bind_mut(binding: Binding, param: MutParam, value: Any) -> None:
    """Bind an output with one piece for each block, which is a plain partition."""
    if isinstance(value, PersistentPartition):
        raise refused(
            binding, param.name,
            "is a Mut, of which each block owns one piece: pass it without .persistent()",
        )  # fmt: skip
    if not isinstance(value, HostPartition):
        raise _unpartitioned(binding, param, value, "")
    _bind_tensor(binding, param, value.tensor)
    _bind_tile(binding, param, value)


def bind_mapped(binding: Binding, param: MappedParam, value: Any) -> None:
    """Bind a walked output, which is a persistent partition."""
    if not isinstance(value, PersistentPartition):
        raise _unpartitioned(binding, param, value, ".persistent()")
    _bind_tensor(binding, param, value.tensor)
    _bind_tile(binding, param, value.partition)
    *others, rows, columns = (1, *value.group)
    if any(extent != 1 for extent in others) or (param.rank == 1 and columns != 1):
        raise refused(
            binding, param.name,
            f"is walked in groups of {value.group}: only the last two axes can be grouped, "
            "for example group=(8, 1)",
        )  # fmt: skip
    binding.groups[param.name] = rows, columns
    binding.walked[param.name] = value


def _unpartitioned(binding: Binding, param: TensorParam, value: Any, ending: str) -> LaunchError:
    tile = ", ".join(map(str, param.dims))  # None for a whole axis, as `partition` takes it
    kind = "Mapped" if ending else "Mut"
    cut = f"{param.name}.partition({tile})"
    if not isinstance(value, (HostPartition, Tensor)) and is_array(value):
        cut = f"tw.partition({', '.join((param.name, tile))})"
    return refused(
        binding, param.name,
        f"is an output ({kind}) and has to be cut before the launch: pass "
        f"{cut}{ending}, not {described(value)}",
    )  # fmt: skip


def _bind_tensor(binding: Binding, param: TensorParam, value: Any) -> None:
    tensor = value if type(value) is Tensor else _foreign(binding, param.name, value)
    if tensor is None:
        raise refused(binding, param.name, f"must be a tensor, not {described(value)}")
    if tensor.ndim != param.rank:
        raise refused(
            binding, param.name,
            f"has rank {param.rank}; the tensor has rank {tensor.ndim}, shape {tensor.shape}",
        )  # fmt: skip
    _bind_dtype(binding, param.name, param.dtype, tensor.dtype)
    binding.tensors[param.name] = tensor


def _foreign(binding: Binding, name: str, value: Any) -> Tensor | None:
    """Wrap an array of another library; None for any other object."""
    try:
        return as_tensor(value)
    except LaunchError as error:
        raise refused(binding, name, f"cannot be passed: {error}") from None


def bind_pointer(binding: Binding, param: PointerParam, value: Any) -> None:
    """Bind a pointer to a tensor's first element; the launch borrows the tensor for writing."""
    if isinstance(value, (HostPartition, PersistentPartition)):
        raise refused(binding, param.name, "is a pointer (Ptr): pass the tensor, not a partition")
    tensor = value if type(value) is Tensor else _foreign(binding, param.name, value)
    if tensor is None:
        text = "is a pointer (Ptr) to a tensor's first element: pass the tensor, not {}"
        raise refused(binding, param.name, text.format(described(value)))
    _bind_dtype(binding, param.name, param.dtype, tensor.dtype)
    binding.tensors[param.name] = tensor


def _bind_dtype(binding: Binding, name: str, declared: type[DType], got: type[DType]) -> None:
    if issubclass(declared, AnyDType):
        bound = binding.dtypes.setdefault(declared, got)
        if bound is not got:
            raise refused(
                binding, name,
                f"is {got.label}, but {declared.__name__} is {bound.label} in this call: one "
                "placeholder is one dtype",
            )  # fmt: skip
    elif declared is not got:
        raise refused(binding, name, f"holds {declared.label}; the tensor holds {got.label}")


def _bind_tile(binding: Binding, param: TensorParam, partition: HostPartition) -> None:
    binding.tiles[param.name] = partition.tile
    binding.partitions[param.name] = partition
    if partition.segments is not None:
        if not isinstance(partition.segments, Tensor):
            raise refused(
                binding, param.name,
                f"is cut by segments= of {described(partition.segments)}: they are a tensor",
            )  # fmt: skip
        binding.tensors[offsets_name(param.name)] = partition.segments

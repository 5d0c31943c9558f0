"""The arguments of one call, matched to the kernel's signature and checked against it.

Everything that needs no compiler is refused here, cheapest first: kinds, ranks, dtypes, devices,
dims, partitions, the grid. Nothing is allocated or borrowed. Assumes a signature that was read
without an error; what the compiler derives is checked later, by `launch`.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import AnyDType, DType, bool_, limits
from tilewright.errors import LaunchError
from tilewright.frontend.signature import (
    ConstParam,
    MappedParam,
    MutParam,
    RefParam,
    ScalarParam,
    Signature,
    TensorParam,
)
from tilewright.frontend.specialization import ExactFloat
from tilewright.runtime.device import Device
from tilewright.runtime.partition import Partition, PersistentPartition
from tilewright.runtime.tensor import Tensor

__all__ = ["Binding", "bind_launch"]

MAX_BLOCKS = 2**31 - 1


@dataclass
class Binding:
    """What a call says: tensors, tiles, constants, scalars, and how many blocks run."""

    signature: Signature
    tensors: dict[str, Tensor] = field(default_factory=dict)
    tiles: dict[str, tuple[int, ...]] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    scalars: dict[str, int | float] = field(default_factory=dict)
    dtypes: dict[type[DType], type[DType]] = field(default_factory=dict)
    walked: dict[str, PersistentPartition] = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    blocks: int = 0

    @property
    def device(self) -> Device:
        """Where the launch runs: where its tensors are."""
        return next(iter(self.tensors.values())).device

    def dtype(self, declared: type[DType]) -> type[DType]:
        """A declared dtype with placeholders filled in."""
        return self.dtypes.get(declared, declared)


def bind_launch(signature: Signature, call: inspect.BoundArguments) -> Binding:
    """Check a call's arguments; raises `LaunchError` with the argument's name and the way out."""
    binding = Binding(signature)
    params: tuple[Any, ...] = (*signature.tensors, *signature.scalars, *signature.constants)
    for param in params:  # tensors first: they say what a placeholder is
        _BINDERS[type(param)](binding, param, call.arguments[param.name])
    _check_devices(binding)
    _bind_static_dims(binding)
    _check_extents(binding)
    _choose_grid(binding)
    return binding


def _refused(binding: Binding, name: str, text: str) -> LaunchError:
    return LaunchError(f"`{name}` of kernel `{binding.signature.kernel}` {text}")


# --- kinds, ranks, dtypes -------------------------------------------------------------------------


def _bind_ref(binding: Binding, param: RefParam, value: Any) -> None:
    if isinstance(value, (Partition, PersistentPartition)):
        raise _refused(
            binding, param.name,
            "is read-only (Ref) and is cut into tiles inside the kernel: pass the tensor itself",
        )  # fmt: skip
    _bind_tensor(binding, param, value)


def _bind_mut(binding: Binding, param: MutParam, value: Any) -> None:
    if isinstance(value, PersistentPartition):
        raise _refused(
            binding, param.name,
            "is a Mut, of which each block owns one piece: pass it without .persistent()",
        )  # fmt: skip
    if not isinstance(value, Partition):
        raise _unpartitioned(binding, param, value, "")
    _bind_tensor(binding, param, value.tensor)
    _bind_tile(binding, param, value)


def _bind_mapped(binding: Binding, param: MappedParam, value: Any) -> None:
    if not isinstance(value, PersistentPartition):
        raise _unpartitioned(binding, param, value, ".persistent()")
    _bind_tensor(binding, param, value.tensor)
    _bind_tile(binding, param, value.partition)
    *others, last = value.group
    rows = others.pop() if others else 1
    if last != 1 or any(extent != 1 for extent in others):
        raise _refused(
            binding, param.name,
            f"is walked in groups of {value.group}: only the last axis but one can be grouped, "
            "for example group=(8, 1)",
        )  # fmt: skip
    binding.groups[param.name] = rows
    binding.walked[param.name] = value


def _unpartitioned(binding: Binding, param: TensorParam, value: Any, ending: str) -> LaunchError:
    tile = ", ".join(map(str, param.dims))
    kind = "Mapped" if ending else "Mut"
    return _refused(
        binding, param.name,
        f"is an output ({kind}) and has to be cut before the launch: pass "
        f"{param.name}.partition({tile}){ending}, not {_described(value)}",
    )  # fmt: skip


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype.label} with shape {value.shape}"
    if isinstance(value, Partition):
        return "a plain partition"
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    return f"an object of type {type(value).__name__}"


def _bind_tensor(binding: Binding, param: TensorParam, value: Any) -> None:
    if not isinstance(value, Tensor):
        hint = ": copy it to a device with tw.from_numpy" if isinstance(value, np.ndarray) else ""
        raise _refused(binding, param.name, f"must be a tensor, not {_described(value)}{hint}")
    if value.ndim != param.rank:
        raise _refused(
            binding, param.name,
            f"has rank {param.rank}; the tensor has rank {value.ndim}, shape {value.shape}",
        )  # fmt: skip
    _bind_dtype(binding, param.name, param.dtype, value.dtype)
    binding.tensors[param.name] = value


def _bind_dtype(binding: Binding, name: str, declared: type[DType], got: type[DType]) -> None:
    if issubclass(declared, AnyDType):
        bound = binding.dtypes.setdefault(declared, got)
        if bound is not got:
            raise _refused(
                binding, name,
                f"is {got.label}, but {declared.__name__} is {bound.label} in this call: one "
                "placeholder is one dtype",
            )  # fmt: skip
    elif declared is not got:
        raise _refused(binding, name, f"holds {declared.label}; the tensor holds {got.label}")


def _bind_tile(binding: Binding, param: TensorParam, partition: Partition) -> None:
    tile = partition.tile
    if None in tile:
        raise _refused(
            binding, param.name,
            f"is cut as {tile}: a kernel takes whole axes only when its annotation says so; "
            "give a number for each axis",
        )  # fmt: skip
    binding.tiles[param.name] = tuple(int(extent) for extent in tile if extent is not None)


# --- scalars and constants ------------------------------------------------------------------------


def _bind_scalar(binding: Binding, param: ScalarParam, value: Any) -> None:
    dtype = binding.dtype(param.dtype)
    if isinstance(value, np.generic):
        value = value.item()
    wanted = bool if dtype is bool_ else int if dtype.element.is_integer else (int, float)
    if not isinstance(value, wanted) or (dtype is not bool_ and isinstance(value, bool)):
        raise _refused(
            binding, param.name, f"is a scalar of {dtype.label}, not {_described(value)}"
        )
    low, high = limits(dtype)
    if not low <= value <= high and abs(value) != math.inf and value == value:
        raise _refused(
            binding, param.name, f"is {dtype.label}: {value} is outside {low:g} to {high:g}"
        )
    binding.scalars[param.name] = value


def _bind_const(binding: Binding, param: ConstParam, value: Any) -> None:
    try:
        binding.constants[param.name] = _CONSTANTS[param.type](value)
    except TypeError:
        raise _refused(
            binding, param.name, f"is a constant of type {param.type.__name__}, not {value!r}"
        ) from None


def _constant_int(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    return operator.index(value)


def _constant_bool(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError
    return bool(value)


def _constant_float(value: Any) -> ExactFloat:
    is_float = isinstance(value, (float, np.floating))
    return ExactFloat(value if is_float else _constant_int(value))


def _constant_dtype(value: Any) -> type[DType]:
    if not (isinstance(value, type) and issubclass(value, DType) and hasattr(value, "element")):
        raise TypeError
    return value


_CONSTANTS: dict[type, Callable[[Any], Any]] = {
    int: _constant_int,
    bool: _constant_bool,
    float: _constant_float,
    DType: _constant_dtype,
}


_BINDERS: dict[type, Callable[[Binding, Any, Any], None]] = {
    RefParam: _bind_ref,
    MutParam: _bind_mut,
    MappedParam: _bind_mapped,
    ScalarParam: _bind_scalar,
    ConstParam: _bind_const,
}


# --- devices and dims -----------------------------------------------------------------------------


def _check_devices(binding: Binding) -> None:
    device = binding.device
    for name, tensor in binding.tensors.items():
        if tensor.device is not device:
            first = next(iter(binding.tensors))
            raise _refused(
                binding, name,
                f"lives on {tensor.device.name}, but `{first}` on {device.name}: all tensors of a "
                "launch must be on one device",
            )  # fmt: skip


def _bind_static_dims(binding: Binding) -> None:
    """A dim of an output is the extent of its tile, the same wherever it stands."""
    for param in binding.signature.outputs:
        tile = binding.tiles[param.name]
        for axis, (dim, extent) in enumerate(zip(param.dims, tile, strict=True)):
            if isinstance(dim, int):
                wanted, why = dim, f"the signature fixes it at {dim}"
            else:
                wanted = binding.constants.setdefault(dim, extent)
                why = f"{dim} is {wanted} in this call"
            if wanted != extent:
                raise _refused(
                    binding,
                    param.name,
                    f"is cut into tiles of {extent} along axis {axis}, but {why}",
                )


def _check_extents(binding: Binding) -> None:
    """A dim of an input is its extent: fixed, static, or one value for every axis that names it."""
    homes = binding.signature.homes
    for param, axis, dim in binding.signature.ref_axes():
        extent = binding.tensors[param.name].shape[axis]
        if isinstance(dim, int):
            wanted, why = dim, f"the signature fixes it at {dim}"
        elif dim in binding.constants:
            wanted = binding.constants[dim]
            why = f"{dim} is {wanted} in this call"
        else:
            home, home_axis = homes[dim]
            wanted = binding.tensors[home].shape[home_axis]
            why = f"{dim} is {wanted}, the extent of `{home}` along axis {home_axis}"
        if extent != wanted:
            raise _refused(binding, param.name, f"has extent {extent} along axis {axis}, but {why}")


# --- the grid -------------------------------------------------------------------------------------


def _choose_grid(binding: Binding) -> None:
    exact = [param.name for param in binding.signature.exact_outputs]
    if exact:
        _check_same_grid(binding, exact)
        binding.grid = _grid(binding, exact[0])
        binding.blocks = prod(binding.grid)
    else:
        _choose_blocks(binding)
    for name, walked in binding.walked.items():
        if prod(walked.grid) + binding.blocks > MAX_BLOCKS:
            raise _refused(
                binding,
                name,
                f"has {prod(walked.grid)} tiles, more than can be counted: use larger ones",
            )
    if binding.blocks > MAX_BLOCKS:
        raise _refused(
            binding,
            exact[0],
            f"has {binding.blocks} pieces, more than a launch can have: use larger ones",
        )


def _grid(binding: Binding, name: str) -> tuple[int, ...]:
    shape, tile = binding.tensors[name].shape, binding.tiles[name]
    return tuple(-(-extent // size) for extent, size in zip(shape, tile, strict=True))


def _check_same_grid(binding: Binding, exact: list[str]) -> None:
    first = _grid(binding, exact[0])
    for name in exact[1:]:
        grid = _grid(binding, name)
        rank = max(len(first), len(grid))
        padded = [(*g, *(1,) * (rank - len(g))) for g in (first, grid)]
        if padded[0] != padded[1]:
            raise _refused(
                binding, name,
                f"has a grid of {grid} pieces, but `{exact[0]}` has {first}: one block writes one "
                "piece of each, so the grids must be equal",
            )  # fmt: skip


def _choose_blocks(binding: Binding) -> None:
    fitting = binding.device.backend.resident_blocks
    counts = {name: walked.blocks(fitting) for name, walked in binding.walked.items()}
    first = next(iter(counts))
    for name, count in counts.items():
        if count != counts[first]:
            raise _refused(
                binding, name,
                f"is walked by {count} blocks, but `{first}` by {counts[first]}: say blocks=… to "
                "make them equal",
            )  # fmt: skip
    binding.blocks = counts[first]
    binding.grid = (binding.blocks,)

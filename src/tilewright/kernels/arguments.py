"""Argument checks of the library functions, made before any launch.

Every function takes Tilewright tensors and an optional `out`, and returns an operation whose result
is the output. A refusal names the argument as the caller wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from numbers import Real
from operator import index as as_index
from typing import Any, TypeVar

import tilewright as tw
from tilewright import (
    bf16,
    bool_,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)

__all__ = [
    "FLOATS",
    "INDICES",
    "INTEGERS",
    "LONGEST",
    "MOVED",
    "as_lines",
    "axis_of",
    "check_extents",
    "check_one_device",
    "check_tensor",
    "elements_together",
    "given_outputs",
    "giving",
    "has_few_axes",
    "lines_of",
    "output",
    "real_number",
    "reshaped",
    "rows_of",
    "rows_together",
    "shown",
    "three_axes",
    "whole_number",
    "zeroed_output",
]

FLOATS = (f16, bf16, f32, f64)  # dtypes of arithmetic
INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)  # signed dtypes first
MOVED = (*FLOATS, *INTEGERS, bool_, f8e4m3fn, f8e5m2)  # dtypes that can be moved without arithmetic
INDICES = (i32, i64, u32)  # dtypes of row and class indices
# Suggested conversions; the first one that the function accepts is offered.
INSTEAD_OF_FLOATS = (f32, f64, bf16)
INSTEAD_OF_INTEGERS = (i64, i32, *INSTEAD_OF_FLOATS)
ROW_AXES = 3  # axes of rows that kernels of strided rows walk
LONGEST = 1 << 30  # elements along one axis; an index plus a tile extent still fits in i32

R = TypeVar("R")


def check_tensor(
    caller: str, name: str, tensor: tw.Tensor, dtypes: tuple[type[tw.DType], ...]
) -> None:
    """Refuse an argument that is no tensor of these dtypes; foreign arrays are wrapped before."""
    if isinstance(tensor, tw.DeviceOp):
        raise tw.LaunchError(
            f"`{name}` of {caller} is a tensor, and an operation gives it only when it runs: chain"
            f" them, `op.then(lambda {name}: {caller}(…))`"
        )
    if not isinstance(tensor, tw.Tensor):
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}".removeprefix("builtins.")
        raise tw.LaunchError(
            f"`{name}` of {caller} is a tensor or an array, and {kind} is neither:"
            " `tw.from_numpy(x)` copies objects that NumPy reads"
        )
    if tensor.dtype not in dtypes:
        known = ", ".join(dtype.label for dtype in dtypes)
        raise tw.LaunchError(
            f"`{name}` of {caller} is one of {known}, not {tensor.dtype.label}:"
            f" convert, `{name}.astype({_instead(tensor.dtype, dtypes).label})`"
        )


def _instead(dtype: type[tw.DType], dtypes: tuple[type[tw.DType], ...]) -> type[tw.DType]:
    """The accepted dtype that loses the least precision."""
    is_whole = dtype in INTEGERS or dtype is bool_
    wanted = INSTEAD_OF_INTEGERS if is_whole else INSTEAD_OF_FLOATS
    return next((one for one in wanted if one in dtypes), dtypes[-1])


def shown(value: Any) -> str:
    """An argument as an error message shows it."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 (a faulty `__repr__`, or an int of thousands of digits)
        return f"an object of type {type(value).__name__}"


def whole_number(caller: str, name: str, value: Any) -> int:
    """A Python or NumPy integer; a bool is refused."""
    try:
        if not isinstance(value, bool):
            return int.__index__(as_index(value))  # a plain `int`, never a subclass
    except Exception:  # noqa: BLE001 (a faulty `__index__` is refused below)
        pass
    raise tw.LaunchError(f"`{name}` of {caller} is a whole number, not {shown(value)}")


def real_number(caller: str, name: str, value: Any) -> float:
    """A Python or NumPy number; a bool is refused."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise tw.LaunchError(f"`{name}` of {caller} is a number, not {shown(value)}")
    try:
        return float(value)
    except Exception:  # noqa: BLE001 (a faulty `__float__`, or an int beyond f64)
        raise tw.LaunchError(f"`{name}` of {caller} is a number, not {shown(value)}") from None


def check_extents(caller: str, name: str, tensor: tw.Tensor, wanted: tuple[int, ...]) -> None:
    """Refuse a tensor of any other shape."""
    if tensor.shape != wanted:
        raise tw.LaunchError(
            f"`{name}` of {caller} has shape {tensor.shape}, and the other arguments ask for"
            f" {wanted}"
        )


def check_one_device(caller: str, **tensors: tw.Tensor) -> None:
    """Refuse tensors on another device than the first."""
    (first_name, first), *others = tensors.items()
    for name, tensor in others:
        if tensor.device is not first.device:
            raise tw.LaunchError(
                f"`{name}` of {caller} lives on {tensor.device.name} and `{first_name}` on"
                f" {first.device.name}: copy it there first"
            )


def axis_of(caller: str, tensor: tw.Tensor, axis: int) -> int:
    """An axis as a non-negative number."""
    axis = whole_number(caller, "axis", axis)
    if not -tensor.ndim <= axis < tensor.ndim:
        raise tw.LaunchError(
            f"{caller} along axis {shown(axis)}, and a tensor of shape {tensor.shape} has"
            f" {tensor.ndim} axes"
        )
    return axis % tensor.ndim


def output(
    caller: str,
    out: tw.Tensor | None,
    shape: tuple[int, ...],
    dtype: type[tw.DType],
    like: tw.Tensor,
) -> tw.Tensor:
    """The tensor of the result: `out` if it fits, else new memory on the device of `like`."""
    if out is None:
        return tw.empty(shape, dtype, device=like.device)
    check_tensor(caller, "out", out, (dtype,))
    check_extents(caller, "out", out, shape)
    if out.device is not like.device:
        raise tw.LaunchError(
            f"`out` of {caller} lives on {out.device.name}, and the inputs on {like.device.name}"
        )
    return out


def zeroed_output(
    caller: str,
    out: tw.Tensor | None,
    shape: tuple[int, ...],
    dtype: type[tw.DType],
    like: tw.Tensor,
) -> tw.Tensor:
    """The tensor of a result that is written in part only; new memory holds zeros."""
    if out is not None:
        return output(caller, out, shape, dtype, like)
    with tw.device(like.device):
        made: tw.Tensor = tw.zeros(shape, dtype)
    return made


def given_outputs(
    caller: str, out: tuple[tw.Tensor, ...] | None, count: int
) -> tuple[tw.Tensor | None, ...]:
    """The tensors of several results, if `out` is given."""
    if out is None:
        return (None,) * count
    if not isinstance(out, tuple) or len(out) != count:
        shown = f"{len(out)} of them" if isinstance(out, tuple) else type(out).__name__
        raise tw.LaunchError(
            f"`out` of {caller} is a tuple of {count} tensors, one for each result, not {shown}"
        )
    return out


def rows_of(caller: str, name: str, tensor: tw.Tensor) -> tw.Tensor:
    """The tensor as a matrix: the last axis, and all other axes merged into one."""
    if not tensor.ndim:
        raise tw.LaunchError(f"{caller} works along the last axis, and `{name}` has none")
    return reshaped(caller, name, tensor, (prod(tensor.shape[:-1]), tensor.shape[-1]))


def rows_together(caller: str, **tensors: tw.Tensor) -> tuple[tw.Tensor, ...]:
    """Tensors of equal rows as matrices, or with three axes of rows that have a stride each.

    The last axis holds the elements of a row. The other axes merge where every tensor allows it;
    the longest one that remains comes last.
    """
    shape = next(iter(tensors.values())).shape[:-1]
    axes = _merged([tensor.strides[:-1] for tensor in tensors.values()], shape)
    if len(axes) <= 1:
        return tuple(rows_of(caller, name, tensor) for name, tensor in tensors.items())
    _check_axes(caller, len(axes), ROW_AXES, tensors)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return tuple(
        _unsqueezed(tensor.reshape(*axes, tensor.shape[-1]).permute(*order, len(axes)))
        for tensor in tensors.values()
    )


def elements_together(caller: str, **tensors: tw.Tensor) -> tuple[tw.Tensor, ...]:
    """Tensors of one shape with two axes, or with four, in the order in which the first lies.

    Axes merge where every tensor allows it, so that rows are as long as possible.
    """
    first = next(iter(tensors.values()))
    order = sorted(range(first.ndim), key=lambda axis: (-first.strides[axis], axis))
    lying = (
        [tensor.permute(*order) for tensor in tensors.values()] if order else [*tensors.values()]
    )
    axes = _merged([tensor.strides for tensor in lying], lying[0].shape)
    if len(axes) <= 2:
        axes = (*(1,) * (2 - len(axes)), *axes)
        return tuple(tensor.reshape(axes) for tensor in lying)
    _check_axes(caller, len(axes) - 1, ROW_AXES, tensors)
    return tuple(_unsqueezed(tensor.reshape(axes)) for tensor in lying)


def has_few_axes(x: tw.Tensor, *others: tw.Tensor) -> bool:
    """Whether the rows of tensors have no more axes than kernels walk, or a copy would not help."""
    strides = [tensor.strides[:-1] for tensor in (x, *others)]
    return x.is_contiguous or len(_merged(strides, x.shape[:-1])) <= ROW_AXES


def _check_axes(caller: str, found: int, most: int, tensors: dict[str, tw.Tensor]) -> None:
    """Refuse tensors whose rows have more axes than kernels walk."""
    if found > most:
        name, tensor = next(iter(tensors.items()))
        raise tw.LaunchError(
            f"the axes of `{name}`, shape {tensor.shape} with strides {tensor.strides}, form"
            f" {found} axes of rows, and {caller} walks {most}: give it `{name}.clone()`"
        )


def _unsqueezed(tensor: tw.Tensor) -> tw.Tensor:
    """The tensor with unit axes in front, as many as kernels of strided rows walk."""
    while tensor.ndim <= ROW_AXES:
        tensor = tensor.unsqueeze(0)
    return tensor


def _merged(strides: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of axes after neighbours that lie like one axis in every tensor are merged."""
    merged: list[int] = []
    inner: tuple[int, ...] = ()
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            continue
        here = tuple(one[axis] for one in strides)
        if merged and all(s == i * merged[-1] for s, i in zip(here, inner, strict=True)):
            merged[-1] *= shape[axis]
        else:
            merged.append(shape[axis])
            inner = here
    return tuple(reversed(merged))


def three_axes(caller: str, name: str, tensor: tw.Tensor, axis: int) -> tw.Tensor:
    """The tensor as three axes: those before `axis` merged, `axis`, and those behind it merged."""
    before, behind = prod(tensor.shape[:axis]), prod(tensor.shape[axis + 1 :])
    return reshaped(caller, name, tensor, (before, tensor.shape[axis], behind))


def lines_of(caller: str, **tensors: tw.Tensor) -> tuple[tw.Tensor, ...]:
    """Tensors of one shape as matrices of one shape, with the longest rows their strides allow."""
    shape = next(iter(tensors.values())).shape
    is_one_line = all(tensor.is_contiguous for tensor in tensors.values())
    if is_one_line and prod(shape) <= LONGEST:
        return tuple(tensor.reshape(1, prod(shape)) for tensor in tensors.values())
    if not shape:
        return tuple(tensor.reshape(1, 1) for tensor in tensors.values())
    return tuple(rows_of(caller, name, tensor) for name, tensor in tensors.items())


def as_lines(*tensors: tw.Tensor) -> tuple[tw.Tensor, ...] | None:
    """Contiguous tensors of one shape as tensors of one axis."""
    size = tensors[0].size
    if size > LONGEST or not all(tensor.is_contiguous for tensor in tensors):
        return None
    return tuple(tensor.reshape(size) for tensor in tensors)


def reshaped(caller: str, name: str, tensor: tw.Tensor, shape: tuple[int, ...]) -> tw.Tensor:
    """A view of the tensor with this shape, or a refusal with the way out.

    An unchanged shape returns the same handle, because launches with known handles are faster.
    """
    if tensor.shape == shape:
        return tensor
    try:
        return tensor.reshape(shape)
    except tw.LaunchError:
        raise tw.LaunchError(
            f"the axes of `{name}`, shape {tensor.shape} with strides {tensor.strides}, do not"
            f" lie so that {caller} can walk them as {shape}: give it `{name}.clone()`"
        ) from None


def giving(operation: tw.DeviceOp[Any], result: R) -> tw.DeviceOp[R]:
    """The operation with `result` as its result, in place of the arguments of the launch."""
    return operation.giving(result)

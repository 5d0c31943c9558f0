"""What the functions of the library ask of their arguments, before anything is launched.

Every function takes tensors of ours and an optional `out`, and gives an operation whose result is
the output. What cannot be computed is refused here, with the name that the caller used.
"""

from __future__ import annotations

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
    "given_outputs",
    "giving",
    "lines_of",
    "output",
    "real_number",
    "reshaped",
    "rows_of",
    "shown",
    "three_axes",
    "whole_number",
    "zeroed_output",
]

FLOATS = (f16, bf16, f32, f64)  # that kernels compute with
INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)  # the signed ones first
MOVED = (*FLOATS, *INTEGERS, bool_, f8e4m3fn, f8e5m2)  # that need no arithmetic
INDICES = (i32, i64, u32)  # what rows and classes are numbered with
# What to convert to, if it is among those that are taken; the first that is.
INSTEAD_OF_FLOATS = (f32, f64, bf16)
INSTEAD_OF_INTEGERS = (i64, i32, *INSTEAD_OF_FLOATS)
LONGEST = 1 << 30  # elements of one axis: with a tile on top they can still be counted

R = TypeVar("R")


def check_tensor(
    caller: str, name: str, tensor: tw.Tensor, dtypes: tuple[type[tw.DType], ...]
) -> None:
    """A tensor of one of these dtypes; arrays of other libraries have become tensors before."""
    if isinstance(tensor, tw.DeviceOp):
        raise tw.LaunchError(
            f"`{name}` of {caller} is a tensor, and an operation gives it only when it runs: chain"
            f" them, `op.then(lambda {name}: {caller}(…))`"
        )
    if not isinstance(tensor, tw.Tensor):
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}".removeprefix("builtins.")
        raise tw.LaunchError(
            f"`{name}` of {caller} is a tensor or an array, and {kind} is neither:"
            " `tw.from_numpy(x)` copies what NumPy can read"
        )
    if tensor.dtype not in dtypes:
        known = ", ".join(dtype.label for dtype in dtypes)
        raise tw.LaunchError(
            f"`{name}` of {caller} is one of {known}, not {tensor.dtype.label}:"
            f" convert, `{name}.astype({_instead(tensor.dtype, dtypes).label})`"
        )


def _instead(dtype: type[tw.DType], dtypes: tuple[type[tw.DType], ...]) -> type[tw.DType]:
    """Which of the dtypes that are taken loses least."""
    is_whole = dtype in INTEGERS or dtype is bool_
    wanted = INSTEAD_OF_INTEGERS if is_whole else INSTEAD_OF_FLOATS
    return next((one for one in wanted if one in dtypes), dtypes[-1])


def shown(value: Any) -> str:
    """An argument, as a message shows it."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 (its own, or of an integer with thousands of digits)
        return f"an object of type {type(value).__name__}"


def whole_number(caller: str, name: str, value: Any) -> int:
    """An integer of Python or NumPy; a truth value is none."""
    try:
        if not isinstance(value, bool):
            return int.__index__(as_index(value))  # not the subclass of `int` that it may be
    except Exception:  # noqa: BLE001 (of an object's own `__index__`: it is refused below)
        pass
    raise tw.LaunchError(f"`{name}` of {caller} is a whole number, not {shown(value)}")


def real_number(caller: str, name: str, value: Any) -> float:
    """A number of Python or NumPy; a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise tw.LaunchError(f"`{name}` of {caller} is a number, not {shown(value)}")
    try:
        return float(value)
    except Exception:  # noqa: BLE001 (of an object's own, or of an integer that no float holds)
        raise tw.LaunchError(f"`{name}` of {caller} is a number, not {shown(value)}") from None


def check_extents(caller: str, name: str, tensor: tw.Tensor, wanted: tuple[int, ...]) -> None:
    """A tensor of exactly this shape."""
    if tensor.shape != wanted:
        raise tw.LaunchError(
            f"`{name}` of {caller} has shape {tensor.shape}, and the other arguments ask for"
            f" {wanted}"
        )


def check_one_device(caller: str, **tensors: tw.Tensor) -> None:
    """All of them where the first is."""
    (first_name, first), *others = tensors.items()
    for name, tensor in others:
        if tensor.device is not first.device:
            raise tw.LaunchError(
                f"`{name}` of {caller} lives on {tensor.device.name} and `{first_name}` on"
                f" {first.device.name}: copy it there first"
            )


def axis_of(caller: str, tensor: tw.Tensor, axis: int) -> int:
    """The number of an axis, counted from the front."""
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
    """Where the result goes: `out`, if it fits, or new memory beside `like`."""
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
    """The same where not all of it is written: new memory holds zeros."""
    if out is not None:
        return output(caller, out, shape, dtype, like)
    with tw.device(like.device):
        made: tw.Tensor = tw.zeros(shape, dtype)
    return made


def given_outputs(
    caller: str, out: tuple[tw.Tensor, ...] | None, count: int
) -> tuple[tw.Tensor | None, ...]:
    """Where each of several results goes, if somebody says."""
    if out is None:
        return (None,) * count
    if not isinstance(out, tuple) or len(out) != count:
        shown = f"{len(out)} of them" if isinstance(out, tuple) else type(out).__name__
        raise tw.LaunchError(
            f"`out` of {caller} is a tuple of {count} tensors, one for each result, not {shown}"
        )
    return out


def rows_of(caller: str, name: str, tensor: tw.Tensor) -> tw.Tensor:
    """The tensor as a matrix: its last axis, and all others as one."""
    if not tensor.ndim:
        raise tw.LaunchError(f"{caller} works along the last axis, and `{name}` has none")
    return reshaped(caller, name, tensor, (prod(tensor.shape[:-1]), tensor.shape[-1]))


def three_axes(caller: str, name: str, tensor: tw.Tensor, axis: int) -> tw.Tensor:
    """The tensor with everything before an axis as one axis, and everything behind it."""
    before, behind = prod(tensor.shape[:axis]), prod(tensor.shape[axis + 1 :])
    return reshaped(caller, name, tensor, (before, tensor.shape[axis], behind))


def lines_of(caller: str, **tensors: tw.Tensor) -> tuple[tw.Tensor, ...]:
    """Tensors of one shape as matrices of one shape, with rows as long as their strides allow."""
    shape = next(iter(tensors.values())).shape
    is_one_line = all(tensor.is_contiguous for tensor in tensors.values())
    if is_one_line and prod(shape) <= LONGEST:
        return tuple(tensor.reshape(1, prod(shape)) for tensor in tensors.values())
    if not shape:
        return tuple(tensor.reshape(1, 1) for tensor in tensors.values())
    return tuple(rows_of(caller, name, tensor) for name, tensor in tensors.items())


def as_lines(*tensors: tw.Tensor) -> tuple[tw.Tensor, ...] | None:
    """Tensors of one shape along one axis, if each lies in one piece."""
    size = tensors[0].size
    if size > LONGEST or not all(tensor.is_contiguous for tensor in tensors):
        return None
    return tuple(tensor.reshape(size) for tensor in tensors)


def reshaped(caller: str, name: str, tensor: tw.Tensor, shape: tuple[int, ...]) -> tw.Tensor:
    """Another handle on the same elements, or a refusal that says what to do.

    The same handle where nothing changes: a launch with handles that it has seen is faster.
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
    """The operation with the result that callers want, in place of a launch's arguments."""
    return operation.giving(result)

"""Default specialisations, for `tilewright explain` and `compile`, which have no tensors.

The default is the usual case: contiguous tensors whose addresses, extents and strides are divisible
by 16, with tiles of a customary size. The specialisation of a call comes from `specialize` instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilewright.dtypes import AnyDType, DType, f16, i32
from tilewright.errors import LaunchError
from tilewright.frontend.signature.constants import constant_of
from tilewright.frontend.signature.signature import (
    MappedParam,
    MutParam,
    Signature,
    TensorParam,
    WholeParam,
)
from tilewright.frontend.signature.specialization import (
    LARGEST_DIVISOR,
    PointerSpec,
    Specialization,
    TensorSpecialization,
    divisor,
    extent_divisors,
)
from tilewright.lang.hints import Hints

__all__ = ["cut_by_segments", "sample_specialization", "sampled_constants", "settable_names"]

VECTOR_TILE = 1024  # extent of a tile with one axis
MATRIX_TILE = 128  # extent of a tile along each of the last two axes
GIVEN_AXES = 3  # of a grid given by the call


def settable_names(signature: Signature) -> dict[str, type]:
    """The names that can be set, with their types: dtype placeholders, static dims, constants."""
    found: dict[str, type] = {}
    params: tuple[Any, ...] = (*signature.tensors, *signature.pointers, *signature.scalars)
    for param in params:
        if issubclass(param.dtype, AnyDType):
            found[param.dtype.__name__] = DType
    for output in signature.cut_outputs:
        found.update((dim, int) for dim in output.dims if isinstance(dim, str))
    found.update((constant.name, constant.type) for constant in signature.constants)
    return found


def sample_specialization(
    signature: Signature,
    target: str,
    chosen: Mapping[str, Any] | None = None,
    hints: Hints | None = None,
) -> Specialization:
    """The default specialisation, with values for some of its `settable_names`.

    Raises `LaunchError` for a constant with neither a default nor a value.
    """
    given = dict(chosen or {})
    constants = _constants(signature, given)
    return Specialization(
        tensors=tuple(_tensor(param, given, constants) for param in signature.tensors),
        constants=tuple(sorted(constants.items())),
        scalars=tuple(_dtype(param.dtype, given) for param in signature.scalars),
        target=target,
        grid_rank=None if signature.cut_outputs else GIVEN_AXES,
        hints=hints or Hints(),
        pointers=tuple(
            PointerSpec(_dtype(param.dtype, given), LARGEST_DIVISOR) for param in signature.pointers
        ),
    )


def cut_by_segments(signature: Signature, usual: Specialization) -> Iterator[Specialization]:
    """Variants of a specialisation, each with one output cut by segments."""
    offsets = TensorSpecialization(i32, (True,), LARGEST_DIVISOR, (LARGEST_DIVISOR,), (1,))
    for place, param in enumerate(signature.tensors):
        if isinstance(param, MutParam) and param.dims[:1] not in ((), (None,)):  # its rows are cut
            tensors = list(usual.tensors)
            tensors[place] = replace(tensors[place], segments=offsets)
            yield replace(usual, tensors=tuple(tensors))


def sampled_constants(signature: Signature, given: Mapping[str, Any]) -> dict[str, int]:
    """The inferable constants, each with a sample value."""
    tiles = {dim for output in signature.cut_outputs for dim in output.dims}
    left_out = {
        constant.name
        for constant in signature.constants
        if constant.type is int and constant.default is inspect.Parameter.empty
    } - (given.keys() | tiles)
    found: dict[str, int] = {}
    for param, axis, dim in signature.named_axes():
        if isinstance(dim, str) and dim in left_out:
            found.setdefault(dim, _customary(axis, param.rank))
    return found


def _constants(signature: Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {**sampled_constants(signature, given)}
    for constant in signature.constants:
        value = given.get(constant.name, constant.default)
        if value is not inspect.Parameter.empty:
            found[constant.name] = constant_of(constant.type, value)
    for output in signature.cut_outputs:
        for axis, dim in enumerate(output.dims):
            if isinstance(dim, str):
                found.setdefault(dim, given.get(dim, _customary(axis, output.rank)))
    for constant in signature.constants:
        if constant.name not in found:
            raise LaunchError(
                f"constant `{constant.name}` of kernel `{signature.kernel}` has no default: "
                "choose a value for it"
            )
    return found


def _customary(axis: int, rank: int) -> int:
    if rank == 1:
        return VECTOR_TILE
    return MATRIX_TILE if axis >= rank - 2 else 1


def _tensor(
    param: TensorParam, given: Mapping[str, Any], constants: Mapping[str, Any]
) -> TensorSpecialization:
    fixed = _numbers(param.extents, constants)
    extents = [divisor(extent) if extent else LARGEST_DIVISOR for extent in fixed]
    strides = [1]  # of the last axis; that of another axis is the product of the extents behind it
    for extent in reversed(extents[1:]):
        strides.insert(0, min(strides[0] * extent, LARGEST_DIVISOR))
    runs_along = tuple(axis == param.rank - 1 for axis in range(param.rank))
    return TensorSpecialization(
        dtype=_dtype(param.dtype, given),
        unit_strides=runs_along,
        address_divisor=LARGEST_DIVISOR,
        extent_divisors=extent_divisors(extents, runs_along),
        stride_divisors=tuple(strides[: param.rank]),
        tile=() if isinstance(param, WholeParam) else _numbers(param.dims, constants),
        group=None if isinstance(param, MappedParam) else (1, 1),
    )


def _numbers(
    dims: tuple[int | str | None, ...], constants: Mapping[str, Any]
) -> tuple[int | None, ...]:
    """The values of dims; None for a dim without one."""
    return tuple(constants.get(dim) if isinstance(dim, str) else dim for dim in dims)


def _dtype(declared: type[DType], given: Mapping[str, Any]) -> type[DType]:
    if issubclass(declared, AnyDType):
        chosen: type[DType] = given.get(declared.__name__, f16)
        return chosen
    return declared

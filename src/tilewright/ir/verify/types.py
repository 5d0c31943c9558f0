"""Rules of types, in general and for a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.types import (
    MAX_TILE_ELEMENTS,
    GatherScatterViewType,
    Padding,
    PartitionViewType,
    PtrType,
    StridedViewType,
    TensorViewType,
    TileType,
    TokenType,
    Type,
    ViewType,
    elements_of,
)

__all__ = ["target_problems", "type_problems"]

_TF32_VIEWS = 90  # on older targets tileiras aborts on a matrix product of such views


def type_problems(type_: Type) -> Iterator[str]:
    """Problems of a type."""
    yield from _CHECKS[type(type_)](type_)


def target_problems(type_: Type, target: int) -> Iterator[str]:
    """Problems of a type on a target."""
    for element in elements_of(type_):
        first, last = element.value.first_target, element.value.last_target
        if first > target:
            yield f"sm_{target} has no {element}; the first that has it is sm_{first}"
        if target > last:
            yield f"sm_{target} has no {element}; the last that has it is sm_{last}"
    if isinstance(type_, TensorViewType) and type_.element is Element.TF32 and target < _TF32_VIEWS:
        yield f"sm_{target} cannot load tf32: load f32 and convert"


def _check_tile(type_: TileType) -> Iterator[str]:
    if any(extent <= 0 or extent & (extent - 1) for extent in type_.shape):
        yield f"every extent of a tile is a power of two, but not those of {type_}"
    elif type_.size > MAX_TILE_ELEMENTS:
        yield f"{type_} has {type_.size} elements; the most a tile can have is {MAX_TILE_ELEMENTS}"
    elif type_.element is Element.F4E2M1FN and type_.size % 2:
        yield f"numbers of 4 bits come in pairs, but {type_} has one"
    if isinstance(type_.element, PtrType) and type_.element.pointee is Element.I4:
        yield "i4 lives in tiles only and has no address"


def _check_tensor_view(type_: TensorViewType) -> Iterator[str]:
    if type_.element is Element.I4:
        yield "i4 lives in tiles only and has no address"
    if len(type_.shape) != len(type_.strides):
        yield f"{type_} has {len(type_.shape)} extents and {len(type_.strides)} strides"
    if any(number is not None and number <= 0 for number in (*type_.shape, *type_.strides)):
        yield f"static extents and strides are above zero, but not those of {type_}"


def _check_view(type_: ViewType) -> Iterator[str]:
    """Rules that all views cut into tiles share."""
    yield from _check_tensor_view(type_.view)
    if not type_.tile or len(type_.tile) != type_.view.rank:
        yield f"the tile of {type_} must have the rank of its tensor, at least 1"
        return
    yield from _check_tile(type_.tile_type)
    if type_.padding not in (None, Padding.ZERO) and type_.view.element.is_integer:
        yield f"only zero can pad integers, in {type_}"


def _check_partition_view(type_: PartitionViewType | StridedViewType) -> Iterator[str]:
    yield from _check_view(type_)
    if sorted(type_.dim_map) != list(range(len(type_.tile))):
        yield f"`dim_map` of {type_} must name every axis once"


def _check_strided_view(type_: StridedViewType) -> Iterator[str]:
    yield from _check_partition_view(type_)
    if len(type_.traversal_strides) != len(type_.tile):
        yield f"{type_} must have a step for each of its axes"
    if any(step <= 0 for step in type_.traversal_strides):
        yield f"steps are above zero, but not those of {type_}"


def _check_gather_scatter_view(type_: GatherScatterViewType) -> Iterator[str]:
    yield from _check_view(type_)
    if not 0 <= type_.sparse_dim < type_.view.rank:
        yield f"{type_} has no axis {type_.sparse_dim} to gather along"


def _check_token(_type: TokenType) -> Iterator[str]:
    yield from ()


_CHECKS: dict[type, Callable[[Any], Iterator[str]]] = {
    TileType: _check_tile,
    TensorViewType: _check_tensor_view,
    PartitionViewType: _check_partition_view,
    StridedViewType: _check_strided_view,
    GatherScatterViewType: _check_gather_scatter_view,
    TokenType: _check_token,
}

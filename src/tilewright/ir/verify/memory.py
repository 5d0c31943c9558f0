"""Rules of tensor views, pointers and atomics on pointers: one row for each op class."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.op import Op, Value
from tilewright.ir.ops import dependencies, memory
from tilewright.ir.types import PtrType, TensorViewType, TileType
from tilewright.ir.verify.access import (
    ATOMIC,
    LOAD,
    STORE,
    atomic_element,
    is_swappable,
    tokens,
)
from tilewright.ir.verify.rules import (
    INTEGER,
    POINTER,
    POINTERS,
    SCALAR_INTEGER,
    TRUTH,
    Rule,
    alike,
    same_shape,
    tiles,
    values_of,
    when,
)

__all__ = ["MEMORY_RULES"]


def _pointer(pointers: Value) -> PtrType | None:
    held = pointers.type
    element = held.element if isinstance(held, TileType) else None
    return element if isinstance(element, PtrType) else None


def _points_to(pointers: str, values: str) -> Rule:
    """The pointee of the pointers is the element of the values."""

    def check(op: Op) -> Iterator[str]:
        (where,) = values_of(op, pointers)
        pointer = _pointer(where)
        pointee = pointer.pointee if pointer is not None else None
        for value in values_of(op, values):
            if isinstance(value.type, TileType) and pointee != value.type.element:
                yield f"`{pointers}` points to {pointee}, but `{values}` is {value.type}"

    return check


def _tensor_view(op: memory.MakeTensorView) -> Iterator[str]:
    groups = (
        ("extents", op.to.shape, op.dynamic_shape),
        ("strides", op.to.strides, op.dynamic_strides),
    )
    for what, static, dynamic in groups:
        wanted = sum(extent is None for extent in static)
        if wanted != len(dynamic):
            yield f"{wanted} dynamic {what} are needed, but there are {len(dynamic)}"
    pointer = _pointer(op.base)
    if pointer is not None and pointer.pointee != op.to.element:
        yield f"`base` points to {pointer.pointee}, but the view holds {op.to.element}"
    elif pointer is not None and pointer.attribute != op.to.attribute:
        yield f"`base` is {op.base.type}, but the view is {op.to}"


def _swappable(op: memory.AtomicCas) -> Iterator[str]:
    kind = op.val.type
    element = kind.element if isinstance(kind, TileType) else None
    if not is_swappable(element):
        yield f"only numbers of 32 or 64 bits can be compared and swapped, not {element}"


# By op class.
MEMORY_RULES: dict[type[Op], tuple[Rule, ...]] = {
    memory.MakeToken: (),
    memory.JoinTokens: (
        tokens("tokens"),
        when(lambda op: len(op.tokens) < 2, "two or more tokens are needed"),
    ),
    dependencies.GdcLaunchDependents: (tokens("token"),),
    dependencies.GdcWait: (tokens("token"),),
    dependencies.MemoryFenceAlias: (tokens("token"),),
    memory.MakeTensorView: (
        tiles(POINTER, "base"),
        tiles(SCALAR_INTEGER, "dynamic_shape", "dynamic_strides"),
        alike("dynamic_shape", "dynamic_strides"),
        _tensor_view,
    ),
    memory.GetTensorShape: (
        tiles(SCALAR_INTEGER, "extents"),
        when(lambda op: not isinstance(op.src.type, TensorViewType), "`src` must be a tensor view"),
        when(lambda op: not op.extents, "a tensor view of rank 0 has no extents to ask for"),
    ),
    memory.Offset: (tiles(POINTERS, "ptr"), tiles(INTEGER, "offset"), same_shape("ptr", "offset")),
    memory.LoadPtr: (
        tiles(POINTERS, "source"), tiles(TRUTH, "mask"), same_shape("source", "mask"),
        alike("padding_value", "result"), tokens("token"), *LOAD,
    ),
    memory.StorePtr: (
        tiles(POINTERS, "destination"), tiles(TRUTH, "mask"),
        same_shape("destination", "value", "mask"), _points_to("destination", "value"),
        tokens("token"), *STORE,
    ),
    memory.AtomicRmw: (
        tiles(POINTERS, "pointers"), tiles(TRUTH, "mask"),
        same_shape("pointers", "arg", "mask"), _points_to("pointers", "arg"), tokens("token"),
        atomic_element("arg"), ATOMIC,
    ),
    memory.AtomicCas: (
        tiles(POINTERS, "pointers"), tiles(TRUTH, "mask"), alike("cmp", "val"),
        same_shape("pointers", "val", "mask"), _points_to("pointers", "val"), tokens("token"),
        _swappable, ATOMIC,
    ),
}  # fmt: skip

"""Emission of tensors and views, and of the accesses through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.backends.cpu import pointers, scalars
from tilewright.backends.cpu.emitter import (
    LOCK,
    Emitter,
    Rules,
    is_plain,
    tile_element,
    tile_shape,
)
from tilewright.backends.cpu.rules.integer import bits_of, folded, reading
from tilewright.backends.cpu.views import IndexedView, TiledView, ViewForm, is_sliced
from tilewright.dtypes import Element
from tilewright.ir.op import Value
from tilewright.ir.ops.memory import (
    GetIndexSpaceShape,
    GetTensorShape,
    LoadView,
    MakePartitionView,
    MakeTensorView,
    StoreView,
)
from tilewright.ir.ops.views import AtomicRedView, MakeGatherScatterView, MakeStridedView
from tilewright.ir.types import PartitionViewType, StridedViewType, ViewType

__all__ = ["RULES", "unpack_view"]


def _tensor_view(em: Emitter, op: MakeTensorView) -> None:
    extents, strides = iter(op.dynamic_shape), iter(op.dynamic_strides)
    shape = [_known(em, extent, extents) for extent in op.to.shape]
    steps = [_known(em, stride, strides) for stride in op.to.strides]
    element, name = em.constant(op.to.element), em.name_of(op.base)
    where = f"{em.site(op)}, {em.plain(op.base)}, {element}"
    text = f"{em.space}.tensor({where}, {_tuple(shape)}, {_tuple(steps)}, {name!r})"
    em.define(op.result, text, None)


def _known(em: Emitter, number: int | None, dynamic: Iterator[Value]) -> str:
    """Return an extent or a stride, which is read unsigned."""
    if number is not None:
        return str(number)
    value = next(dynamic)
    return reading(em.plain(value), bits_of(value), False)


def _tuple(texts: Sequence[str]) -> str:
    return "(" + "".join(f"{text}, " for text in texts) + ")"


def _view(em: Emitter, op: Any) -> None:
    kind = TiledView if is_sliced(op.to) else IndexedView
    form = em.constant(ViewForm.of(op.to, as_gpus=em.plan.as_gpus))
    text = em.call(kind, em.held[op.tensor_view].text, form)
    em.define(op.result, text, None)
    unpack_view(em, op.result)


def unpack_view(em: Emitter, view: Value) -> None:
    """Bind local names for the parts of a view that every access needs."""
    if not is_sliced(view.type):
        return
    assert isinstance(view.type, PartitionViewType | StridedViewType)
    name = em.held[view].text
    em.emit(f"{name}_a = {name}.array")
    for axis in range(len(view.type.tile)):
        em.emit(f"{name}_r{axis} = {name}.whole[{axis}]")
        em.emit(f"{name}_w{axis} = {name}.writable[{axis}]")


def _index_space(em: Emitter, op: GetIndexSpaceShape) -> None:
    _extents(em, op, f"{em.held[op.src].text}.counts")


def _tensor_shape(em: Emitter, op: GetTensorShape) -> None:
    _extents(em, op, f"{em.held[op.src].text}.shape")


def _extents(em: Emitter, op: GetIndexSpaceShape | GetTensorShape, text: str) -> None:
    """Bind extents, which are read unsigned and must fit."""
    for axis, extent in enumerate(op.extents):
        bits = bits_of(extent)
        fits = em.call(scalars.fitting_extent, em.site(op), bits, f"{text}[{axis}]")
        em.define(extent, folded(fits, bits))


# --- accesses --------------------------------------------------------------------------------


def _load_view(em: Emitter, op: LoadView) -> None:
    view, tile = em.held[op.view].text, op.tile
    index = _index(em, op)
    if not is_sliced(op.view.type):
        text = f"{view}.load({_slow_arguments(em, op, index)}{_promised(em, op)})"
        em.define(tile, text, tile_shape(tile))
    else:
        name = em.fresh()
        em.emit(f"if {_inside(f'{view}_r', index)}:")
        with em.indented():
            text = f"{view}_a[{_slices(op.view, index)}]"
            if tile_element(tile) is Element.I1:
                text += " != 0"
            elif op not in em.plan.borrowed:
                text += ".copy()"
            em.emit(f"{name} = {text}")
        em.emit("else:")
        with em.indented():
            arguments = f"{_slow_arguments(em, op, index)}{_promised(em, op)}"
            if op in em.plan.cut:
                kept = "" if op in em.plan.borrowed else ".copy()"
                em.emit(f"{name} = {view}.load_along({em.plan.cut[op]}, {arguments}){kept}")
            else:
                em.emit(f"{name} = {view}.load_edge({arguments})")
        em.bind(tile, name, tile_shape(tile))
    em.watch(op, view, _noted(em, op))


def _store_view(em: Emitter, op: StoreView) -> None:
    view = em.held[op.view].text
    index = _index(em, op)
    arguments = f"{_slow_arguments(em, op, index)}, {em.full(op.tile)}{_promised(em, op)}"
    em.take_turn(op)
    if not is_sliced(op.view.type):
        em.emit(f"{view}.store({arguments})")
    else:
        em.emit(f"if {_inside(f'{view}_w', index)}:")
        with em.indented():
            target = f"{view}_a[{_slices(op.view, index)}]"
            if op.tile in em.direct:
                em.emit(f"{em.direct[op.tile]}, out={target})")
            else:
                em.emit(f"{target} = {em.array(op.tile)}")
        em.emit("else:")
        with em.indented():
            em.emit(f"{view}.store_edge({arguments})")
    em.watch(op, view, _noted(em, op))


def _reduce_view(em: Emitter, op: AtomicRedView) -> None:
    view = em.held[op.view].text
    function = em.function(pointers.COMBINE[op.mode])
    arguments = _slow_arguments(em, op, _index(em, op))
    em.emit(f"with {LOCK}:")
    with em.indented():
        em.emit(f"{view}.combine({arguments}, {function}, {em.full(op.value)})")
    em.watch(op, view, _noted(em, op))


def _index(em: Emitter, op: LoadView | StoreView | AtomicRedView) -> list[str]:
    """Return an int for each axis, or an array for gathered rows."""
    return [em.plain(value) if is_plain(value) else em.full(value) for value in op.index]


def _slow_arguments(em: Emitter, op: Any, index: list[str]) -> str:
    widths = tuple(bits_of(value) for value in op.index)  # each index is read in its own width
    return f"{em.site(op)}, {em.constant(widths)}, {_tuple(index)}"


def _promised(em: Emitter, op: LoadView | StoreView) -> str:
    return f", {em.constant(op.inbounds)}" if any(op.inbounds) else ""


def _noted(em: Emitter, op: Any) -> str:
    """Return the index as a watched program records it: read unsigned."""
    return _tuple(
        [
            reading(em.plain(value), bits_of(value), False) if is_plain(value) else em.full(value)
            for value in op.index
        ]
    )


def _inside(limit: str, index: list[str]) -> str:
    return " and ".join(f"0 <= {at} < {limit}{axis}" for axis, at in enumerate(index))


def _slices(view: Value, index: list[str]) -> str:
    assert isinstance(view.type, ViewType)
    steps = (
        view.type.traversal_strides if isinstance(view.type, StridedViewType) else view.type.tile
    )
    slices = (
        f"{at} * {step}:{at} * {step} + {size}"
        for at, step, size in zip(index, steps, view.type.tile, strict=True)
    )
    return ", ".join(slices)


# Rules of this module.
RULES: Rules = {
    MakeTensorView: _tensor_view,
    MakePartitionView: _view,
    MakeStridedView: _view,
    MakeGatherScatterView: _view,
    GetIndexSpaceShape: _index_space,
    GetTensorShape: _tensor_shape,
    LoadView: _load_view,
    StoreView: _store_view,
    AtomicRedView: _reduce_view,
}

"""Emission of tensors and views, and of the accesses through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.backends.cpu import pointers, scalars, shorts
from tilewright.backends.cpu.emitter import (
    LOCK,
    Emitter,
    Rules,
    Short,
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


# Elements that NumPy computes with as memory holds them.
_COMPUTED = (
    Element.F16, Element.BF16, Element.F32, Element.F64, Element.I8, Element.I16, Element.I32,
    Element.I64,
)  # fmt: skip


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
    short = _short_axis(view.type)
    if short is not None:
        em.emit(f"{name}_n{short} = {name}.counts[{short}]")
        em.emit(f"{name}_m{short} = {name}.open[{short}]")


def _short_axis(type_: ViewType) -> int | None:
    """Return the axis along which tiles of a view may be short: the last of several elements.

    A known extent that is a multiple of the tile has no short tiles.
    """
    axes = [axis for axis, extent in enumerate(type_.tile) if extent > 1]
    if not axes or not isinstance(type_, PartitionViewType):
        return None
    extent = type_.view.shape[type_.dim_map[axes[-1]]]
    return axes[-1] if extent is None or extent % type_.tile[axes[-1]] else None


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
    elif _may_be_short(em, op):
        _load_short(em, op, index)
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


def _may_be_short(em: Emitter, op: LoadView) -> bool:
    """Whether a tile may be loaded without its padding."""
    element = tile_element(op.tile)
    return (
        isinstance(op.view.type, PartitionViewType)
        and em.plan.shortens
        and element in _COMPUTED
        and op.tile not in em.plan.nested
        and _short_axis(op.view.type) is not None
    )


def _load_short(em: Emitter, op: LoadView, index: list[str]) -> None:
    """Emit a load of a tile without its padding along one axis."""
    assert isinstance(op.view.type, PartitionViewType)
    view, name, axis = em.held[op.view].text, em.fresh(), _short_axis(op.view.type)
    assert axis is not None
    kept, cut = "" if op in em.plan.borrowed else ".copy()", em.plan.cut.get(op)
    limits = [f"{view}_{'n' if at == axis else 'r'}{at}" for at in range(len(index))]
    if cut not in (None, axis):
        limits[cut] = f"{view}.counts[{cut}]"
    if any(op.inbounds):  # promises that a tile at the edge breaks
        limits = [f"{view}_r{at}" for at in range(len(index))]
    inside = " and ".join(f"0 <= {at} < {limit}" for at, limit in zip(index, limits, strict=True))
    em.emit(f"if {inside}:")
    with em.indented():
        em.emit(f"{name} = {view}_a[{_slices(op.view, index)}]{kept}")
    em.emit("else:")
    with em.indented():
        arguments = f"{_slow_arguments(em, op, index)}{_promised(em, op)}"
        along = axis if cut is None else cut
        em.emit(f"{name} = {view}.load_along({along}, {arguments}){kept}")
    em.bind(op.tile, name, tile_shape(op.tile))
    if cut == axis:  # the reduction needs no padding
        return
    fill = ViewForm.of(op.view.type, as_gpus=False).fill
    em.shorten(op.tile, Short(axis, em.constant(fill)))


def _store_view(em: Emitter, op: StoreView) -> None:
    view = em.held[op.view].text
    index = _index(em, op)
    if em.held[op.tile].short is None:
        _store_whole(em, op, index)
    else:
        _store_short(em, op, index)
    em.watch(op, view, _noted(em, op))


def _store_whole(em: Emitter, op: StoreView, index: list[str]) -> None:
    view = em.held[op.view].text
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


def _store_short(em: Emitter, op: StoreView, index: list[str]) -> None:
    """Emit a store of the part of a short tile that lies inside the tensor."""
    view, held = em.held[op.view].text, em.held[op.tile]
    short = held.short
    assert short is not None
    assert isinstance(op.view.type, ViewType)
    axis = _short_axis(op.view.type)
    fits = is_sliced(op.view.type) and axis == short.axis and held.shape == tile_shape(op.tile)
    if not fits or any(op.inbounds):
        em.direct.pop(op.tile, None)
        em.define(op.tile, em.padded(op.tile), held.shape)
        _store_whole(em, op, index)
        return
    limits = [f"{view}_{'m' if at == axis else 'w'}{at}" for at in range(len(index))]
    inside = " and ".join(f"0 <= {at} < {limit}" for at, limit in zip(index, limits, strict=True))
    em.emit(f"if {inside}:")
    with em.indented():
        target = em.fresh()
        em.emit(f"{target} = {view}_a[{_slices(op.view, index)}]")
        lead = em.leads.get(op.tile, held.text)
        em.emit(f"if {target}.shape[{axis}] == {lead}.shape[{axis}]:")
        with em.indented():
            if op.tile in em.direct:
                em.emit(f"{em.direct[op.tile]}, out={target})")
            else:
                em.emit(f"{target}[...] = {held.text}")
        em.emit("else:")
        with em.indented():
            extent = tile_shape(op.tile)[short.axis]
            em.emit(em.call(shorts.put, target, held.text, short.axis, extent, short.text()))
    em.emit("else:")
    with em.indented():
        em.emit(f"{view}.store_edge({_slow_arguments(em, op, index)}, {em.padded(op.tile)})")


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

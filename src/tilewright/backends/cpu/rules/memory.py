"""How views, pointers, loads, stores and atomics are written."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backends.cpu import memory, pointers
from tilewright.backends.cpu.emitter import LOCK, SPACE, Emitter, Rules, is_plain, tile_shape
from tilewright.backends.cpu.memory import PartitionView
from tilewright.backends.cpu.races import Places, TileOf
from tilewright.dtypes import Element
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.memory import (
    AtomicCas,
    AtomicRmw,
    GetIndexSpaceShape,
    GetTensorShape,
    JoinTokens,
    LoadPtr,
    LoadView,
    MakePartitionView,
    MakeTensorView,
    MakeToken,
    Offset,
    StorePtr,
    StoreView,
)
from tilewright.ir.types import PartitionViewType, PtrType, TileType

__all__ = ["RULES", "unpack_view"]


def _nothing(em: Emitter, op: Op) -> None:
    """Tokens: a block runs in program order."""


# --- views -----------------------------------------------------------------------------------


def _tensor_view(em: Emitter, op: MakeTensorView) -> None:
    extents, strides = iter(op.dynamic_shape), iter(op.dynamic_strides)
    shape = [_known(em, extent, extents) for extent in op.to.shape]
    steps = [_known(em, stride, strides) for stride in op.to.strides]
    element = em.constant(op.to.element)
    where = f"{em.site(op)}, {em.plain(op.base)}, {element}"
    text = f"{SPACE}.tensor({where}, {_tuple(shape)}, {_tuple(steps)})"
    em.define(op.result, text, None)


def _known(em: Emitter, number: int | None, dynamic: Any) -> str:
    return em.plain(next(dynamic)) if number is None else str(number)


def _tuple(texts: list[str]) -> str:
    return "(" + "".join(f"{text}, " for text in texts) + ")"


def _partition_view(em: Emitter, op: MakePartitionView) -> None:
    type_ = em.constant(op.to)
    text = em.call(PartitionView, em.held[op.tensor_view].text, type_)
    em.define(op.result, text, None)
    unpack_view(em, op.result)


def unpack_view(em: Emitter, view: Value) -> None:
    """Local names for what every access of a view needs."""
    assert isinstance(view.type, PartitionViewType)
    name = em.held[view].text
    em.emit(f"{name}_a = {name}.array")
    for axis in range(len(view.type.tile)):
        em.emit(f"{name}_r{axis} = {name}.whole[{axis}]")
        em.emit(f"{name}_w{axis} = {name}.writable[{axis}]")


def _index_space(em: Emitter, op: GetIndexSpaceShape) -> None:
    for axis, extent in enumerate(op.extents):
        em.define(extent, f"{em.held[op.src].text}.counts[{axis}]")


def _tensor_shape(em: Emitter, op: GetTensorShape) -> None:
    for axis, extent in enumerate(op.extents):
        em.define(extent, f"{em.held[op.src].text}.shape[{axis}]")


def _load_view(em: Emitter, op: LoadView) -> None:
    view, tile = em.held[op.view].text, op.tile
    index = [em.plain(value) for value in op.index]
    name = em.fresh()
    em.emit(f"if {_inside(f'{view}_r', index)}:")
    with em.indented():
        text = f"{view}_a[{_slices(op.view, index)}]"
        if tile_element_is_bool(tile):
            text += " != 0"
        elif op not in em.plan.borrowed:
            text += ".copy()"
        em.emit(f"{name} = {text}")
    em.emit("else:")
    with em.indented():
        em.emit(f"{name} = {view}.load_edge({em.site(op)}, {_tuple(index)})")
    em.bind(tile, name, tile_shape(tile))
    em.watch(op, em.call(TileOf, view, _tuple(index)))


def _store_view(em: Emitter, op: StoreView) -> None:
    view = em.held[op.view].text
    index = [em.plain(value) for value in op.index]
    em.emit(f"if {_inside(f'{view}_w', index)}:")
    with em.indented():
        em.emit(f"{view}_a[{_slices(op.view, index)}] = {em.array(op.tile)}")
    em.emit("else:")
    with em.indented():
        em.emit(f"{view}.store_edge({em.site(op)}, {_tuple(index)}, {em.full(op.tile)})")
    em.watch(op, em.call(TileOf, view, _tuple(index)))


def _inside(limit: str, index: list[str]) -> str:
    return " and ".join(f"0 <= {at} < {limit}{axis}" for axis, at in enumerate(index))


def _slices(view: Value, index: list[str]) -> str:
    assert isinstance(view.type, PartitionViewType)
    slices = (
        f"{at} * {size}:{at} * {size} + {size}"
        for at, size in zip(index, view.type.tile, strict=True)
    )
    return ", ".join(slices)


def tile_element_is_bool(value: Value) -> bool:
    """Whether a tile holds truth values, which are bytes in memory."""
    return isinstance(value.type, TileType) and value.type.element is Element.I1


# --- pointers --------------------------------------------------------------------------------


def _offset(em: Emitter, op: Offset) -> None:
    assert isinstance(op.ptr.type, TileType)
    assert isinstance(op.ptr.type.element, PtrType)
    size = memory.storage_dtype(op.ptr.type.element.pointee).itemsize
    if em.held[op.ptr].plain and em.held[op.offset].plain:
        em.define(op.result, f"{em.plain(op.ptr)} + {em.plain(op.offset)} * {size}")
        return
    text = em.call(pointers.moved, em.array(op.ptr), em.array(op.offset), size)
    em.define(op.result, text, em.shapes((op.ptr, op.offset)))


def _load_ptr(em: Emitter, op: LoadPtr) -> None:
    mask = "None" if op.mask is None else em.full(op.mask)
    padding = "None" if op.padding_value is None else em.array(op.padding_value)
    site, element, places = em.site(op), _element(em, op.source), em.full(op.source)
    text = em.call(pointers.load, SPACE, site, element, places, mask, padding)
    _define_loaded(em, op.result, text)
    em.watch(op, em.call(Places, element, places, mask))


def _store_ptr(em: Emitter, op: StorePtr) -> None:
    mask = "None" if op.mask is None else em.full(op.mask)
    element, places = _element(em, op.destination), em.full(op.destination)
    site, tile = em.site(op), em.full(op.value)
    em.emit(em.call(pointers.store, SPACE, site, element, places, tile, mask))
    em.watch(op, em.call(Places, element, places, mask))


def _atomic_rmw(em: Emitter, op: AtomicRmw) -> None:
    combine = pointers.COMBINE[op.mode]
    if op.result not in em.plan.read and isinstance(combine, np.ufunc):
        _atomic(em, op, pointers.accumulate, em.function(combine), op.arg)
    else:
        name = _atomic(em, op, pointers.combine, em.function(combine), op.arg)
        _define_loaded(em, op.result, name)


def _atomic_cas(em: Emitter, op: AtomicCas) -> None:
    exchange = em.function(pointers.exchange_equal)
    name = _atomic(em, op, pointers.combine, exchange, op.cmp, op.val)
    _define_loaded(em, op.result, name)


def _atomic(
    em: Emitter, op: AtomicRmw | AtomicCas, through: Any, function: str, *arguments: Value
) -> str:
    """Write a call under the lock; gives the name of its result."""
    mask = "None" if op.mask is None else em.full(op.mask)
    element, places = _element(em, op.pointers), em.full(op.pointers)
    tiles = [em.full(argument) for argument in arguments]
    name = em.fresh()
    em.emit(f"with {LOCK}:")
    with em.indented():
        call = em.call(through, SPACE, em.site(op), element, places, mask, function, *tiles)
        em.emit(f"{name} = {call}")
    em.watch(op, em.call(Places, element, places, mask))
    return name


def _element(em: Emitter, places: Value) -> str:
    assert isinstance(places.type, TileType)
    assert isinstance(places.type.element, PtrType)
    return em.constant(places.type.element.pointee)


def _define_loaded(em: Emitter, value: Value, text: str) -> None:
    shape = tile_shape(value)
    if is_plain(value):
        text += ".item()"
    elif not shape:
        text += "[()]"
    em.define(value, text, shape)


# The ops of this page.
RULES: Rules = {
    MakeToken: _nothing,
    JoinTokens: _nothing,
    MakeTensorView: _tensor_view,
    MakePartitionView: _partition_view,
    GetIndexSpaceShape: _index_space,
    GetTensorShape: _tensor_shape,
    LoadView: _load_view,
    StoreView: _store_view,
    Offset: _offset,
    LoadPtr: _load_ptr,
    StorePtr: _store_ptr,
    AtomicRmw: _atomic_rmw,
    AtomicCas: _atomic_cas,
}

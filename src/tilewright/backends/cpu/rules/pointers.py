"""Emission of addresses and of the accesses through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.backends.cpu import crossed, pointers, scalars
from tilewright.backends.cpu.accesses import spans
from tilewright.backends.cpu.emitter import (
    LOCK,
    Emitter,
    Rules,
    Short,
    is_plain,
    tile_dtype,
    tile_shape,
)
from tilewright.backends.cpu.memory import is_nibble, storage_dtype
from tilewright.backends.cpu.rules.integer import folded
from tilewright.dtypes import Element
from tilewright.ir.op import Value
from tilewright.ir.ops.addresses import Alloca, GetGlobal, IntToPtr, PtrToInt, PtrToPtr
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, LoadPtr, Offset, StorePtr
from tilewright.ir.types import PtrType, TileType

__all__ = ["RULES"]


def _pointee(places: Value) -> Element:
    assert isinstance(places.type, TileType)
    assert isinstance(places.type.element, PtrType)
    return places.type.element.pointee


# --- addresses -------------------------------------------------------------------------------


def _offset(em: Emitter, op: Offset) -> None:
    element = _pointee(op.ptr)
    size = storage_dtype(element).itemsize
    if is_nibble(element):
        text = em.call(pointers.moved_nibbles, em.array(op.ptr), em.array(op.offset))
        plain = em.held[op.ptr].plain and em.held[op.offset].plain
        em.define(op.result, f"{text}.item()" if plain else text, em.shapes((op.ptr, op.offset)))
    elif em.held[op.ptr].plain and em.held[op.offset].plain:
        numbers = em.plain(op.ptr), em.plain(op.offset)
        moved = em.call(scalars.moved, em.site(op), *numbers, size)
        em.define(op.result, folded(moved, 64))
    else:
        arrays = (em.array(op.ptr), em.array(op.offset))
        site = em.site(op)
        text = em.call(pointers.moved, site, *arrays, size)
        steps = em.crossed.get(op.offset)
        if steps is not None and em.held[op.ptr].shape == () and em.cross(op.result, text, steps):
            em.moves[op.result] = (site, em.array(op.ptr))
        else:
            em.define(op.result, text, em.shapes((op.ptr, op.offset)))


def _same_address(em: Emitter, op: IntToPtr | PtrToPtr) -> None:
    em.alias(op.result, op.source)


def _address(em: Emitter, op: PtrToInt) -> None:
    if em.held[op.source].plain:
        em.define(op.result, folded(em.plain(op.source), 64))
    else:
        em.alias(op.result, op.source)


def _global(em: Emitter, op: GetGlobal) -> None:
    address = em.plan.globals[op.name]
    em.bind(op.result, repr(address), constant=address)


def _allocate(em: Emitter, op: Alloca) -> None:
    element = _pointee(op.result)
    nbytes = -(-op.num_elem // 2) if is_nibble(element) else op.num_elem * _size(element)
    alignment = max(op.alignment, _size(element))
    em.need(nbytes + alignment)
    arguments = f"{em.site(op)}, {nbytes}, {alignment}, {op.global_memory}"
    em.define(op.result, f"{em.space}.allocate({arguments})")


def _size(element: Element) -> int:
    return int(storage_dtype(element).itemsize)


# --- accesses --------------------------------------------------------------------------------


def _load(em: Emitter, op: LoadPtr) -> None:
    padding = "None" if op.padding_value is None else em.array(op.padding_value)
    rows = _crossed(em, op, op.source)
    if rows is not None:
        em.define(op.result, em.call(crossed.load, *rows, padding), tile_shape(op.result))
        em.shorten(op.result, Short(1, _fill(em, op)))
        return
    element = em.constant(_pointee(op.source))
    is_one = em.held[op.source].plain and (op.mask is None or em.held[op.mask].plain)
    if is_one and not em.plan.watched:
        flag = "True" if op.mask is None else em.plain(op.mask)
        where = (em.space, em.site(op), element, em.plain(op.source))
        _define_loaded(em, op.result, em.call(pointers.load_one, *where, flag, padding))
        return
    mask = "None" if op.mask is None else em.full(op.mask)
    places = em.full(op.source)
    text = em.call(pointers.load, em.space, em.site(op), element, places, mask, padding)
    _define_loaded(em, op.result, text)
    em.watch(op, em.call(spans, element, places, mask))


def _fill(em: Emitter, op: LoadPtr) -> str | Callable[[], str]:
    """Return the number of elements that are not loaded."""
    padding = op.padding_value
    if padding is None:
        return em.constant(tile_dtype(op.result).type(0))
    return em.constant_text(padding) or (lambda: em.array(padding))


def _crossed(em: Emitter, op: LoadPtr | StorePtr, places: Value) -> list[str] | None:
    """Return the arguments of an access of rows, if the addresses and the mask are crossed."""
    masks = _crossed_masks(em, op)
    if places not in em.moves or masks is None:
        return None
    move, base = em.moves[places]
    height, width = tile_shape(places)
    site = crossed.Site(move, em.site(op), _pointee(places), (height, width))
    column, row = (em.array(side) for side in em.crossed[places])
    return [em.space, em.constant(site), base, f"({column}, {row})", masks]


def _crossed_masks(em: Emitter, op: LoadPtr | StorePtr) -> str | None:
    """Return the column and the row that make up a mask, if it has no others."""
    if op.mask is None:
        return "(None, None)"
    if op.mask in em.crossed:
        rows, columns = (em.array(side) for side in em.crossed[op.mask])
        return f"({rows}, {columns})"
    held = em.held[op.mask]
    if (
        held.plain
        or held.short
        or held.shape is None
        or len(held.shape) != 2
        or 1 not in held.shape
    ):
        return None
    return f"(None, {held.text})" if held.shape[0] == 1 else f"({held.text}, None)"


def _store(em: Emitter, op: StorePtr) -> None:
    rows = _crossed(em, op, op.destination)
    if rows is not None:
        em.emit(em.call(crossed.store, *rows, em.full(op.value)))
        return
    mask = "None" if op.mask is None else em.full(op.mask)
    element, places = em.constant(_pointee(op.destination)), em.full(op.destination)
    site, tile = em.site(op), em.full(op.value)
    em.take_turn(op)
    em.emit(em.call(pointers.store, em.space, site, element, places, tile, mask))
    em.watch(op, em.call(spans, element, places, mask))


def _atomic_rmw(em: Emitter, op: AtomicRmw) -> None:
    combine = pointers.COMBINE[op.mode]
    if op.result not in em.plan.read and isinstance(combine, np.ufunc):
        _atomic(em, op, pointers.accumulate, em.function(combine), em.array(op.arg))
    else:
        name = _atomic(em, op, pointers.combine, em.function(combine), em.full(op.arg))
        _define_loaded(em, op.result, name)


def _atomic_cas(em: Emitter, op: AtomicCas) -> None:
    exchange = em.function(pointers.exchange_equal)
    name = _atomic(em, op, pointers.combine, exchange, em.full(op.cmp), em.full(op.val))
    if op.mask is not None:  # a masked element yields its comparand
        masked = em.call(np.where, em.full(op.mask), name, em.array(op.cmp))
        em.emit(f"{name} = {masked}")
    _define_loaded(em, op.result, name)


def _atomic(
    em: Emitter, op: AtomicRmw | AtomicCas, through: Any, function: str, *tiles: str
) -> str:
    """Emit a call under the lock; return the name of its result."""
    mask = "None" if op.mask is None else em.full(op.mask)
    element, places = em.constant(_pointee(op.pointers)), em.full(op.pointers)
    name = em.fresh()
    em.emit(f"with {LOCK}:")
    with em.indented():
        call = em.call(through, em.space, em.site(op), element, places, mask, function, *tiles)
        em.emit(f"{name} = {call}")
        em.take_turn(op)
    em.watch(op, em.call(spans, element, places, mask))
    return name


def _define_loaded(em: Emitter, value: Value, text: str) -> None:
    shape = tile_shape(value)
    if is_plain(value):
        text += ".item()"
    elif not shape:
        text += "[()]"
    em.define(value, text, shape)


# Rules of this module.
RULES: Rules = {
    Offset: _offset,
    IntToPtr: _same_address,
    PtrToPtr: _same_address,
    PtrToInt: _address,
    GetGlobal: _global,
    Alloca: _allocate,
    LoadPtr: _load,
    StorePtr: _store,
    AtomicRmw: _atomic_rmw,
    AtomicCas: _atomic_cas,
}

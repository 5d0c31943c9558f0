"""Emission of ops that make tiles or change their shape.

A broadcast is free: the array keeps its shape, and NumPy repeats it in an operation with another.
Ops that need every element in place use `Emitter.full`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backends.cpu import packing, shorts
from tilewright.backends.cpu.contractions import kept_axes
from tilewright.backends.cpu.emitter import (
    Emitter,
    Rules,
    Shape,
    Short,
    is_plain,
    tile_dtype,
    tile_element,
    tile_shape,
)
from tilewright.backends.cpu.faults import report
from tilewright.backends.cpu.rules.short import hand_on_fill
from tilewright.dtypes import Element
from tilewright.ir.op import Value
from tilewright.ir.ops.shape import (
    Broadcast,
    Cat,
    Constant,
    Extract,
    Insert,
    Iota,
    Pack,
    Permute,
    Reshape,
    Unpack,
)
from tilewright.ir.types import PtrType

__all__ = ["RULES", "bind_constant"]


def _constant(em: Emitter, op: Constant) -> None:
    if isinstance(op.value, np.ndarray) and op.value.size > 1:
        numbers, dtype, shape = op.value, tile_dtype(op.result), tile_shape(op.result)
        where = (numbers.ctypes.data, numbers.dtype, numbers.strides)  # the op keeps them alive
        name = em.constant_tile(
            op.result, where, lambda: numbers.astype(dtype, copy=False).reshape(shape).view()
        )
        em.bind(op.result, name, shape)
    else:
        bind_constant(em, op.result, np.asarray(op.value).reshape(()).item())


def bind_constant(em: Emitter, value: Value, number: Any) -> None:
    """Bind a tile whose elements are all one known number."""
    element = tile_element(value)
    if isinstance(element, PtrType):
        element = Element.I64  # the representation of addresses
    if element is Element.I1:
        number = bool(number)
    elif element.is_integer:
        number = (int(number) + (half := 1 << element.bits - 1)) % (2 * half) - half
    if is_plain(value):
        em.bind(value, repr(number), constant=number)
        return
    with np.errstate(all="ignore"):
        scalar = element.numpy.type(number)
    em.bind(value, em.constant(scalar), constant=scalar)


def _iota(em: Emitter, op: Iota) -> None:
    dtype = tile_dtype(op.result)
    name = em.constant_tile(
        op.result, "iota", lambda: np.arange(op.to.size, dtype=np.int64).astype(dtype)
    )
    em.bind(op.result, name, op.to.shape)


def _broadcast(em: Emitter, op: Broadcast) -> None:
    em.alias(op.result, op.source)
    if em.held[op.source].plain:
        _enter_tile(em, op.result, op.source)


def _reshape(em: Emitter, op: Reshape) -> None:
    held = em.held[op.source]
    if held.plain:
        if is_plain(op.result):
            em.alias(op.result, op.source)
        else:
            _enter_tile(em, op.result, op.source)
    elif is_plain(op.result):
        em.define(op.result, f"{held.text}.item()")
    elif held.shape == ():
        em.alias(op.result, op.source)
    elif held.shape is None and kept_axes(op):
        _reshape_by_units(em, op)
    elif held.short is not None and held.shape == tile_shape(op.source) and kept_axes(op):
        _reshape_short(em, op, held.short)
    elif tile_shape(op.result) == ():
        em.define(op.result, f"{held.text}.reshape(())[()]")
    else:
        shape = tile_shape(op.result)
        em.define(op.result, f"{em.full(op.source)}.reshape({shape!r})", shape)


def _reshape_by_units(em: Emitter, op: Reshape) -> None:
    """Bind an array of any extents with other axes of extent one."""
    source, kept = tile_shape(op.source), kept_axes(op)
    dropped = ", ".join(":" if axis in kept.values() else "0" for axis in range(len(source)))
    added = ", ".join(":" if axis in kept else "None" for axis in range(len(op.to.shape)))
    em.define(op.result, f"{em.held[op.source].text}[{dropped}][{added}]", None)


def _reshape_short(em: Emitter, op: Reshape, short: Short) -> None:
    """Bind a short tile with other axes of extent one."""
    source, kept = tile_shape(op.source), kept_axes(op)
    dropped = tuple(slice(None) if at in kept.values() else 0 for at in range(len(source)))
    added = tuple(slice(None) if at in kept else None for at in range(len(op.to.shape)))
    places = em.constant(dropped), em.constant(added)
    em.define(op.result, f"{em.held[op.source].text}[{places[0]}][{places[1]}]", op.to.shape)
    axis = next(new for new, old in kept.items() if old == short.axis)
    hand_on_fill(em, op.result, short, axis, shorts.unit_axes, *places)


def _enter_tile(em: Emitter, value: Value, source: Value) -> None:
    """Bind a tile made from a scalar: its Python int gets a dtype."""
    constant = em.held[source].constant
    if constant is not None:
        bind_constant(em, value, constant)
    else:
        em.define(value, em.array(source))


def _permute(em: Emitter, op: Permute) -> None:
    held = em.held[op.source]
    if held.shape == ():
        em.alias(op.result, op.source)
        return
    shape = held.shape and tuple(held.shape[axis] for axis in op.permutation)
    em.define(op.result, f"{held.text}.transpose({op.permutation!r})", shape)
    if held.short is not None:
        axis = op.permutation.index(held.short.axis)
        hand_on_fill(em, op.result, held.short, axis, shorts.turned, repr(op.permutation))


def _concatenate(em: Emitter, op: Cat) -> None:
    tiles = f"({em.full(op.lhs)}, {em.full(op.rhs)})"
    em.define(op.result, em.call(np.concatenate, tiles, op.dim), tile_shape(op.result))


def _extract(em: Emitter, op: Extract) -> None:
    slices = _part(em, op, tile_shape(op.source), tile_shape(op.result))
    if slices:
        em.define(op.result, f"{em.full(op.source)}[{slices}]", tile_shape(op.result))
    else:
        em.alias(op.result, op.source)


def _insert(em: Emitter, op: Insert) -> None:
    slices = _part(em, op, tile_shape(op.destination), tile_shape(op.source))
    if slices:
        em.define(op.result, f"{em.full(op.destination)}.copy()", tile_shape(op.result))
        em.emit(f"{em.held[op.result].text}[{slices}] = {em.array(op.source)}")
    else:
        em.alias(op.result, op.source)


def _part(em: Emitter, op: Extract | Insert, whole: Shape, part: Shape) -> str:
    """Return the slices of one part of a tile, by its index along each axis."""
    slices = []
    for axis, index in enumerate(op.indices):
        count, size = whole[axis] // part[axis], part[axis]
        at, known = em.plain(index), em.held[index].constant
        if known is None or not 0 <= known < count:
            em.emit(f"if not 0 <= {at} < {count}:")
            with em.indented():
                em.emit(em.call(report_part, em.site(op), axis, at, count))
        slices.append(f"{at} * {size}:{at} * {size} + {size}")
    return ", ".join(slices)


def report_part(site: int, axis: int, index: int, count: int) -> None:
    """Stop a block that selects a part outside the tile."""
    report(site, f"takes part {index} on axis {axis}, and the tile has {count} parts there")


def _pack(em: Emitter, op: Pack) -> None:
    element = em.constant(tile_element(op.source))
    em.define(
        op.result, em.call(packing.packed, em.full(op.source), element), tile_shape(op.result)
    )


def _unpack(em: Emitter, op: Unpack) -> None:
    element = em.constant(tile_element(op.result))
    text = em.call(packing.unpacked, em.full(op.source), element)
    em.define(op.result, text, tile_shape(op.result))


# Rules of this module.
RULES: Rules = {
    Constant: _constant,
    Iota: _iota,
    Broadcast: _broadcast,
    Reshape: _reshape,
    Permute: _permute,
    Cat: _concatenate,
    Extract: _extract,
    Insert: _insert,
    Pack: _pack,
    Unpack: _unpack,
}

"""Emission of reductions, scans and matrix products.

A body that is one op with a NumPy counterpart becomes one NumPy call. Any other becomes a function
over arrays, applied in a tree of neighbours (a reduction) or in doubling steps (a scan): extents
are powers of two, and the body is associative, so the order is that of the tile. Sums of f16 and
bf16 use the tree as well, because NumPy's sequential sum would lose precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilewright.backends.cpu import formats, matrices, reductions, shorts
from tilewright.backends.cpu.emitter import (
    Emitter,
    Rules,
    Short,
    is_plain,
    tile_element,
    tile_shape,
)
from tilewright.backends.cpu.rules.short import hand_on_fill, require_fill
from tilewright.dtypes import Element
from tilewright.ir.attributes import Overflow, Rounding, Signedness
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.elementwise import (
    AddF,
    AddI,
    AndI,
    MaxF,
    MaxI,
    MinF,
    MinI,
    MulF,
    MulI,
    OrI,
    XOrI,
)
from tilewright.ir.ops.reduction import MmaF, MmaFScaled, MmaI, Reduce, Scan

__all__ = ["RULES"]

_FEW = 8  # longest axis whose elements are combined one by one
_MANY = 1024  # fewest elements of such a tile

_UFUNCS: dict[type[Op], np.ufunc] = {
    AddF: np.add, AddI: np.add, MulF: np.multiply, MulI: np.multiply,
    AndI: np.bitwise_and, OrI: np.bitwise_or, XOrI: np.bitwise_xor,
    MaxI: np.maximum, MinI: np.minimum, MaxF: np.maximum, MinF: np.minimum,
}  # fmt: skip


@dataclass(frozen=True)
class UfuncBody:
    """A body that is one NumPy function."""

    ufunc: np.ufunc
    op: Op


def _known(body: Block, sources: tuple[Value, ...]) -> UfuncBody | None:
    """Return the NumPy function equivalent to a body, if there is one."""
    if len(sources) != 1 or len(body.ops) != 2:
        return None
    op, end = body.ops
    if set(op.operands) != set(body.args) or end.operands != op.results:
        return None
    ufunc = _UFUNCS.get(type(op))
    if ufunc is None or tile_element(sources[0]) is Element.I1 or _has_promises(op):
        return None
    return UfuncBody(ufunc, op)


def _has_promises(op: Any) -> bool:
    """Whether an op has attributes that the NumPy function does not honour."""
    return (
        getattr(op, "overflow", Overflow.NONE) is not Overflow.NONE
        or getattr(op, "signedness", Signedness.SIGNED) is not Signedness.SIGNED
        or getattr(op, "rounding_mode", Rounding.NEAREST_EVEN) is not Rounding.NEAREST_EVEN
        or getattr(op, "flush_to_zero", False)
    )


def _reduce(em: Emitter, op: Reduce) -> None:
    known = _known(op.body, op.sources)
    if tile_shape(op.sources[0])[op.dim] == 1:
        for value, total in zip(op.sources, op.totals, strict=True):
            _drop_axis(em, op.dim, value, total)
        return
    sources = [_source(em, op, value, known) for value in op.sources]
    tree = em.fresh()
    if known is None or not _is_direct(op.sources[0], known):
        _write_body(em, op.body, tree)
        _define_totals(em, op, em.call(reductions.tree, tree, op.dim, *sources))
        return
    shape, dtype = tile_shape(op.sources[0]), em.constant(_dtype(op.sources[0]))
    if op.dim == len(shape) - 1 and shape[op.dim] <= _FEW and prod(shape) >= _MANY:
        text = em.call(reductions.neighbours, em.function(known.ufunc), sources[0])
    else:
        text = f"{em.function(known.ufunc)}.reduce({sources[0]}, {op.dim}, {dtype})"
    if isinstance(known.op, MaxF | MinF):
        # The extremum of a typical tile is neither NaN nor zero; the tree handles both.
        _write_body(em, op.body, tree)
        text = em.call(reductions.extremum, text, tree, op.dim, sources[0])
    _define_total(em, op.totals[0], text)
    _shorten_total(em, op, known)


def _drop_axis(em: Emitter, dim: int, value: Value, total: Value) -> None:
    """Emit the reduction along an axis of one element."""
    held, shape = em.held[value], tile_shape(total)
    short = held.short
    if short is None or held.shape != tile_shape(value):
        text = f"{em.full(value)}.reshape({shape!r}){'' if shape else '[()]'}"
        _define_total(em, total, text)
        return
    places = em.constant((*(slice(None),) * dim, 0)), em.constant((...,))
    _define_total(em, total, f"{held.text}[{places[0]}]")
    axis = short.axis - (dim < short.axis)
    hand_on_fill(em, total, short, axis, shorts.unit_axes, *places)


def _shorten_total(em: Emitter, op: Reduce, known: UfuncBody) -> None:
    """Declare that the total of a tile which is short along another axis is short as well."""
    short = em.held[op.sources[0]].short
    if short is not None and short.axis != op.dim and _keeps_fill(em, op, known):
        em.shorten(op.totals[0], Short(short.axis - (op.dim < short.axis), short.fill))


def _keeps_fill(em: Emitter, op: Reduce, known: UfuncBody | None) -> bool:
    """Whether the total of equal numbers is that number: the identity, or any for an extremum."""
    held = em.held[op.sources[0]]
    if known is None or held.short is None or not isinstance(held.short.fill, str):
        return False
    if not _is_direct(op.sources[0], known) or held.shape != tile_shape(op.sources[0]):
        return False
    fill, identity = em.namespace[held.short.fill], op.identities[0].value
    return bool(fill == identity) or isinstance(known.op, MaxI | MinI)


def _source(em: Emitter, op: Reduce, value: Value, known: UfuncBody | None) -> str:
    """Return the array to reduce; the end that it lacks along the axis is the identity."""
    held = em.held[value]
    if held.short is None or known is None or held.shape != tile_shape(value):
        return em.full(value)
    if held.short.axis == op.dim:
        return require_fill(em, value, _dtype(value).type(op.identities[0].value))
    return held.text if _keeps_fill(em, op, known) else em.full(value)


def _is_direct(source: Value, known: UfuncBody) -> bool:
    """Whether NumPy's own loop is as exact as the tree."""
    exact = tile_element(source) not in (Element.F16, Element.BF16)
    return exact or isinstance(known.op, MaxF | MinF)


def _dtype(value: Value) -> np.dtype[Any]:
    element = tile_element(value)
    assert isinstance(element, Element)
    return element.numpy


def _define_total(em: Emitter, total: Value, text: str) -> None:
    em.define(total, f"{text}.item()" if is_plain(total) else text, tile_shape(total))


def _define_totals(em: Emitter, op: Any, text: str) -> None:
    names = [em.fresh() for _ in op.totals]
    em.emit(f"{', '.join(names)}, = {text}")
    for name, total in zip(names, op.totals, strict=True):
        if is_plain(total):
            em.emit(f"{name} = {name}.item()")
        em.bind(total, name, tile_shape(total))


def _write_body(em: Emitter, body: Block, name: str) -> None:
    """Emit a function over arrays: elements and accumulators in pairs, as the body takes them.

    A body with branches or loops cannot take arrays: it is emitted for scalars, and applied element
    by element.
    """
    structured = any(op.regions for op in body.ops)
    arguments = [em.fresh() for _ in body.args]
    em.emit(f"def {name}({', '.join(arguments)}):")
    with em.indented():
        for argument, value in zip(arguments, body.args, strict=True):
            em.bind(value, argument, () if structured else None)
        em.write(Block(body.args, body.ops[:-1]))
        results = [em.array(value) for value in body.ops[-1].operands]
        em.emit(f"return {', '.join(results)},")
    if structured:
        plain = tuple(is_plain(value) for value in body.args)
        em.emit(f"{name} = {em.call(reductions.one_by_one, name, repr(plain))}")


def _scan(em: Emitter, op: Scan) -> None:
    known = _known(op.body, op.sources)
    sources = [em.full(value) for value in op.sources]
    if known is not None and not isinstance(known.op, MaxF | MinF):
        dtype = em.constant(_dtype(op.sources[0]))
        function = em.function(known.ufunc)
        text = em.call(reductions.accumulate, function, sources[0], op.dim, op.reverse, dtype)
        em.define(op.totals[0], text, tile_shape(op.totals[0]))
        return
    body = em.fresh()
    _write_body(em, op.body, body)
    _define_totals(em, op, em.call(reductions.running, body, op.dim, op.reverse, *sources))


# --- matrix products -------------------------------------------------------------------------


def _multiply_floats(em: Emitter, op: MmaF) -> None:
    multiply = matrices.FLOAT[tile_element(op.lhs)]
    operands = (em.full(op.lhs), em.full(op.rhs), em.array(op.acc))
    em.define(op.result, em.call(multiply, *operands), tile_shape(op.result))


def _multiply_integers(em: Emitter, op: MmaI) -> None:
    signs = (op.signedness_lhs is Signedness.SIGNED, op.signedness_rhs is Signedness.SIGNED)
    text = em.call(matrices.integers, em.full(op.lhs), em.full(op.rhs), em.array(op.acc), *signs)
    em.define(op.result, text, tile_shape(op.result))


def _multiply_scaled(em: Emitter, op: MmaFScaled) -> None:
    tiles = [em.full(value) for value in (op.lhs, op.rhs)] + [em.array(op.acc)]
    for scale in (op.lhs_scale, op.rhs_scale):
        element = tile_element(scale)
        held_as_bits = isinstance(element, Element) and element.is_held_as_bits
        text = em.full(scale)
        tiles.append(em.call(formats.decoded, text) if held_as_bits else text)
    em.define(op.result, em.call(matrices.scaled, em.site(op), *tiles), tile_shape(op.result))


# Rules of this module.
RULES: Rules = {
    Reduce: _reduce,
    Scan: _scan,
    MmaF: _multiply_floats,
    MmaI: _multiply_integers,
    MmaFScaled: _multiply_scaled,
}

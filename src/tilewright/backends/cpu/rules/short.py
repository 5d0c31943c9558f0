"""Emission of element-wise ops on short tiles, which lack the end of a tile along one axis.

The result is short as well, and its fill is the same op on the fills. A fill of constants is
computed when the source is emitted, any other one only where it is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.backends.cpu import shorts
from tilewright.backends.cpu.emitter import Emitter, Short, tile_shape
from tilewright.ir.op import Value

__all__ = ["elementwise", "hand_on_fill", "is_short", "require_fill"]

_HEAVIEST = 8  # calls in the text of a fill; a longer one is computed once
Write = Callable[[Sequence[str]], str]  # the text of an expression, from those of its operands


def is_short(em: Emitter, value: Value) -> bool:
    """Whether a value may lack the end of its tile."""
    return em.held[value].short is not None


def elementwise(
    em: Emitter,
    result: Value,
    operands: Sequence[Value],
    write: Write,
    *,
    is_direct: bool = False,
) -> bool:
    """Emit an element-wise op whose operands are short along one axis; return whether they are.

    Operands that do not allow that get their missing ends. A direct result is one call, which the
    next store completes.
    """
    lacking = [value for value in operands if is_short(em, value)]
    if not lacking:
        return False
    axis = _axis(em, max(lacking, key=lambda value: prod(em.held[value].shape or ())))
    for value in lacking:
        if _axis(em, value) != axis:
            em.array(value)
    if not all(_is_along(em, value, axis) for value in operands):
        return False
    lacking = [value for value in lacking if is_short(em, value)]
    _align(em, lacking, axis)
    text = write([em.short_text(value) for value in operands])
    if is_direct:
        em.direct[result], em.leads[result] = text[:-1], em.short_text(lacking[0])
        em.bind(result, text, em.shapes(operands))
    else:
        em.define(result, text, em.shapes(operands))
    em.shorten(result, _combined(em, axis, operands, write))
    return True


def _combined(em: Emitter, axis: int, operands: Sequence[Value], write: Write) -> Short:
    """Return the fill of a result."""
    constant = _constant_fill(em, operands, write)
    if constant is not None:
        return Short(axis, constant)
    ends = [em.held[value].short for value in operands]
    others = [em.array(value) for value in operands if not is_short(em, value)]

    def fill() -> str:
        rest = iter(others)
        return write([next(rest) if end is None else end.text() for end in ends])

    weight = 1 + sum(end.weight for end in ends if end is not None)
    if weight <= _HEAVIEST:
        return Short(axis, fill, weight)
    name = em.fresh()
    em.emit(f"{name} = {fill()}")
    return Short(axis, lambda: name)


def _axis(em: Emitter, value: Value) -> int:
    short = em.held[value].short
    assert short is not None
    return short.axis


def _is_along(em: Emitter, value: Value, axis: int) -> bool:
    """Whether a value is short along an axis, or equal along it."""
    held = em.held[value]
    if held.short is not None:
        return held.short.axis == axis
    return held.shape is not None and (not held.shape or held.shape[axis] == 1)


def _align(em: Emitter, lacking: Sequence[Value], axis: int) -> None:
    """Make sure that all short operands have one extent along the axis."""
    texts = list(dict.fromkeys(em.short_text(value) for value in lacking))
    if len(texts) < 2:
        return
    lengths = [f"{text}.shape[{axis}]" for text in texts]
    em.emit(f"if not ({' == '.join(lengths)}):")
    with em.indented():
        for value in lacking:
            em.emit(f"{em.short_text(value)} = {em.padded(value)}")


def _constant_fill(em: Emitter, operands: Sequence[Value], write: Write) -> str | None:
    """Return the name of a fill that follows from constants alone."""
    texts = []
    for value in operands:
        held = em.held[value]
        text = held.short.fill if held.short is not None else em.constant_text(value)
        if not isinstance(text, str):
            return None
        texts.append(text)
    with np.errstate(all="ignore"):
        return em.constant(eval(write(texts), dict(em.namespace)))


def hand_on_fill(
    em: Emitter, value: Value, short: Short, axis: int, function: Any, *arguments: str
) -> None:
    """Declare a tile short along another axis, with its fill in the same shape."""
    if isinstance(short.fill, str):
        em.shorten(value, Short(axis, short.fill))
    else:
        text = functools.partial(_reshaped, em, short, function, arguments)
        em.shorten(value, Short(axis, text, short.weight + 1))


def _reshaped(em: Emitter, short: Short, function: Any, arguments: Sequence[str]) -> str:
    return em.call(function, short.text(), *arguments)


def require_fill(em: Emitter, value: Value, number: Any) -> str:
    """Return a short tile whose missing end is a certain number in every element."""
    short, name = em.held[value].short, em.short_text(value)
    assert short is not None
    if isinstance(short.fill, str) and bool(em.namespace[short.fill] == number):
        return name
    extent, known = tile_shape(value)[short.axis], em.constant(number)
    em.emit(f"if {name}.shape[{short.axis}] != {extent}:")
    with em.indented():
        fill = short.text()
        check = em.call(shorts.differs, name, short.axis, extent, fill, known)
        em.emit(f"if {check}: {name} = {em.padded(value)}")
    return name

"""Emission of integer ops: on Python ints for scalars, on NumPy arrays for tiles."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.cpu import integers, scalars
from tilewright.backends.cpu.emitter import Emitter, Rules, tile_element
from tilewright.backends.cpu.rules.short import elementwise
from tilewright.backends.cpu.scalars import limits
from tilewright.dtypes import Element
from tilewright.ir.attributes import Overflow, Predicate, Rounding, Signedness
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import (
    AbsI,
    AddI,
    AndI,
    CmpI,
    DivI,
    ExtI,
    MaxI,
    MinI,
    MulHiI,
    MulI,
    NegI,
    OrI,
    RemI,
    ShLI,
    ShRI,
    SubI,
    TruncI,
    XOrI,
)

__all__ = ["RULES", "bits_of", "folded", "reading"]

Texts = list[str]
Write = Callable[[Emitter, Any, Texts], str]


@dataclass(frozen=True)
class IntegerRule:
    """The two texts of an op: exact over Python ints, and over arrays."""

    plain: Write
    array: Write

    def __call__(self, em: Emitter, op: Any) -> None:
        """Emit the op for the representation of its operands."""
        values: tuple[Value, ...] = op.operands
        if all(em.held[value].plain for value in values):
            em.define(op.result, self.plain(em, op, [em.plain(value) for value in values]))
            return
        arrays = [em.array(value) for value in values]
        if tile_element(values[0]) is Element.I1:
            names = ["x", "y"][: len(values)]
            definition = f"lambda {', '.join(names)}: {self.plain(em, op, names)}"
            text = em.call(integers.each_bit, definition, *arrays)
        else:
            text = self.array(em, op, arrays)
        em.define(op.result, text, em.shapes(values))


def bits_of(value: Value) -> int:
    """Return the width of an integer tile."""
    element = tile_element(value)
    assert isinstance(element, Element)
    return element.bits


def reading(text: str, bits: int, signed: bool) -> str:
    """Return a scalar under the op's signedness; a truth value is held as 0 or 1."""
    if bits == 1:
        return f"-{text}" if signed else f"+{text}"
    return text if signed else f"({text} & {(1 << bits) - 1})"


def folded(text: str, bits: int) -> str:
    """Wrap a number into the signed range of a width, the representation of scalars."""
    if bits == 1:
        return f"({text}) & 1"
    half = 1 << bits - 1
    return f"(({text}) + {half} & {2 * half - 1}) - {half}"


def _readings(op: Any, texts: Texts, signed: bool) -> Texts:
    return [
        reading(text, bits_of(value), signed)
        for text, value in zip(texts, op.operands, strict=True)
    ]


def _views(em: Emitter, texts: Texts, signed: bool) -> Texts:
    return texts if signed else [em.call(integers.unsigned, text) for text in texts]


def _promises(overflow: Overflow) -> tuple[bool, ...]:
    """Return the readings (signed?) under which an op promises not to wrap."""
    return {
        Overflow.NONE: (),
        Overflow.NSW: (True,),
        Overflow.NUW: (False,),
        Overflow.NW: (True, False),
    }[overflow]


# --- arithmetic modulo the width -------------------------------------------------------------


def _wrapping(symbol: str, exact: Callable[[Any, Any], Any]) -> IntegerRule:
    def plain(em: Emitter, op: Any, texts: Texts) -> str:
        bits = bits_of(op.operands[0])
        x, y = _readings(op, texts, True)
        text = folded(f"{x} {symbol} {y}", bits)
        for signed in _promises(op.overflow):
            x, y = _readings(op, texts, signed)
            exactly = f"{x} {symbol} {y}"
            fits = em.call(scalars.fitting, em.site(op), *limits(bits, signed), exactly)
            text = f"({fits}, {text})[1]"
        return text

    def array(em: Emitter, op: Any, texts: Texts) -> str:
        for signed in _promises(op.overflow):
            views = _views(em, texts, signed)
            em.emit(em.call(integers.checked, em.site(op), em.function(exact), *views))
        return f"{texts[0]} {symbol} {texts[1]}"

    return IntegerRule(plain, array)


def _add(em: Emitter, op: AddI) -> None:
    sides = (op.lhs, op.rhs)
    is_array = not any(em.held[side].plain for side in sides)
    if is_array and op.overflow is Overflow.NONE:
        text = f"{em.array(op.lhs)} + {em.array(op.rhs)}"
        if em.cross(op.result, text, sides):
            return
    _SUM(em, op)


_SUM = _wrapping("+", operator.add)


def _negate_plain(em: Emitter, op: Any, texts: Texts) -> str:
    bits = bits_of(op.source)
    (x,) = _readings(op, texts, True)
    if op.overflow is Overflow.NONE:
        return folded(f"-({x})", bits)
    return em.call(scalars.fitting, em.site(op), *limits(bits, True), f"-({x})")


def _negate_array(em: Emitter, op: Any, texts: Texts) -> str:
    if op.overflow is not Overflow.NONE:
        zero = f"{texts[0]}.dtype.type(0)"
        subtract = em.function(operator.sub)
        em.emit(em.call(integers.checked, em.site(op), subtract, zero, texts[0]))
    return f"-{texts[0]}"


def _absolute_plain(em: Emitter, op: Any, texts: Texts) -> str:
    return folded(f"abs({_readings(op, texts, True)[0]})", bits_of(op.source))


def _absolute_array(em: Emitter, op: Any, texts: Texts) -> str:
    return em.call(np.abs, texts[0])


def _high_plain(em: Emitter, op: Any, texts: Texts) -> str:
    bits = bits_of(op.x)
    x, y = _readings(op, texts, False)
    return folded(f"{x} * {y} >> {bits}", bits)


def _high_array(em: Emitter, op: Any, texts: Texts) -> str:
    product = em.call(integers.high_product, *_views(em, texts, False))
    return em.call(integers.signed, product)


# --- division and shifts ---------------------------------------------------------------------


def _divisor_is_safe(em: Emitter, op: Any) -> bool:
    """Whether the divisor is a known number that neither is zero nor can overflow."""
    divisor = em.held[op.rhs].constant
    return divisor is not None and divisor > 0


def _divide_plain(em: Emitter, op: Any, texts: Texts) -> str:
    bits, signed = bits_of(op.lhs), op.signedness is Signedness.SIGNED
    x, y = _readings(op, texts, signed)
    if not _divisor_is_safe(em, op) or bits == 1:
        divide = scalars.DIVIDE[op.rounding]
        return folded(em.call(divide, em.site(op), *limits(bits, signed), x, y), bits)
    down, up = f"{x} // {y}", f"-(-{x} // {y})"
    cut = f"({down} if {x} >= 0 else {up})"
    exact = {Rounding.ZERO: cut, Rounding.NEGATIVE_INF: down, Rounding.POSITIVE_INF: up}
    return exact[op.rounding] if signed else folded(exact[op.rounding], bits)


def _divide_array(em: Emitter, op: Any, texts: Texts) -> str:
    signed = op.signedness is Signedness.SIGNED
    x, y = _views(em, texts, signed)
    if not _divisor_is_safe(em, op):
        em.emit(em.call(integers.require_quotient, em.site(op), x, y))
    divide = integers.DIVIDE[op.rounding if signed else Rounding.NEGATIVE_INF]
    return _unviewed(em, em.call(divide, x, y), signed)


def _remainder_plain(em: Emitter, op: Any, texts: Texts) -> str:
    bits, signed = bits_of(op.lhs), op.signedness is Signedness.SIGNED
    x, y = _readings(op, texts, signed)
    if not _divisor_is_safe(em, op) or bits == 1:
        return folded(em.call(scalars.remainder, em.site(op), *limits(bits, signed), x, y), bits)
    cut = f"({x} % {y} if {x} >= 0 else -(-{x} % {y}))"
    return cut if signed else folded(cut, bits)


def _remainder_array(em: Emitter, op: Any, texts: Texts) -> str:
    signed = op.signedness is Signedness.SIGNED
    x, y = _views(em, texts, signed)
    if not _divisor_is_safe(em, op):
        em.emit(em.call(integers.require_quotient, em.site(op), x, y))
    return _unviewed(em, em.call(np.fmod, x, y), signed)


def _unviewed(em: Emitter, text: str, signed: bool) -> str:
    return text if signed else em.call(integers.signed, text)


def _count(em: Emitter, op: Any, text: str) -> str:
    """Return a scalar shift count, checked."""
    bits = bits_of(op.lhs)
    return em.call(scalars.shift_count, em.site(op), bits, reading(text, bits, False))


def _require_array_count(em: Emitter, op: Any, texts: Texts) -> None:
    known = em.held[op.rhs].constant
    if known is None or not 0 <= known < bits_of(op.lhs):
        em.emit(em.call(integers.require_count, em.site(op), *texts))


def _left_plain(em: Emitter, op: Any, texts: Texts) -> str:
    bits, count = bits_of(op.lhs), _count(em, op, texts[1])
    text = folded(f"{texts[0]} << {count}", bits)
    for signed in _promises(op.overflow):
        exact = f"{reading(texts[0], bits, signed)} << {count}"
        fits = em.call(scalars.fitting, em.site(op), *limits(bits, signed), exact)
        text = f"({fits}, {text})[1]"
    return text


def _left_array(em: Emitter, op: Any, texts: Texts) -> str:
    _require_array_count(em, op, texts)
    for signed in _promises(op.overflow):
        views = _views(em, texts, signed)
        em.emit(em.call(integers.checked, em.site(op), em.function(operator.lshift), *views))
    return f"{texts[0]} << {texts[1]}"


def _right_plain(em: Emitter, op: Any, texts: Texts) -> str:
    bits, signed = bits_of(op.lhs), op.signedness is Signedness.SIGNED
    return folded(f"{reading(texts[0], bits, signed)} >> {_count(em, op, texts[1])}", bits)


def _right_array(em: Emitter, op: Any, texts: Texts) -> str:
    signed = op.signedness is Signedness.SIGNED
    _require_array_count(em, op, texts)
    x, y = _views(em, texts, signed)
    return _unviewed(em, f"({x} >> {y})", signed)


# --- choice and comparison -------------------------------------------------------------------


def _extremum(symbol: str, function: Callable[..., Any]) -> IntegerRule:
    def plain(em: Emitter, op: Any, texts: Texts) -> str:
        x, y = _readings(op, texts, op.signedness is Signedness.SIGNED)
        return f"({texts[0]} if {x} {symbol} {y} else {texts[1]})"

    def array(em: Emitter, op: Any, texts: Texts) -> str:
        signed = op.signedness is Signedness.SIGNED
        return _unviewed(em, em.call(function, *_views(em, texts, signed)), signed)

    return IntegerRule(plain, array)


_SYMBOLS = {
    Predicate.EQUAL: "==",
    Predicate.NOT_EQUAL: "!=",
    Predicate.LESS_THAN: "<",
    Predicate.LESS_THAN_OR_EQUAL: "<=",
    Predicate.GREATER_THAN: ">",
    Predicate.GREATER_THAN_OR_EQUAL: ">=",
}


def _compare_plain(em: Emitter, op: CmpI, texts: Texts) -> str:
    x, y = _readings(op, texts, op.signedness is Signedness.SIGNED)
    return f"{x} {_SYMBOLS[op.comparison_predicate]} {y}"


def _compare_array(em: Emitter, op: CmpI, texts: Texts) -> str:
    x, y = _views(em, texts, op.signedness is Signedness.SIGNED)
    return f"{x} {_SYMBOLS[op.comparison_predicate]} {y}"


def _bitwise(symbol: str) -> Callable[[Emitter, Any], None]:
    def rule(em: Emitter, op: Any) -> None:
        plain = em.held[op.lhs].plain and em.held[op.rhs].plain
        if not plain and elementwise(em, op.result, op.operands, f" {symbol} ".join):
            return
        take = em.plain if plain else em.array
        text = f"{take(op.lhs)} {symbol} {take(op.rhs)}"
        if symbol != "&" or not em.cross(op.result, text, (op.lhs, op.rhs)):
            em.define(op.result, text, em.shapes((op.lhs, op.rhs)))

    return rule


# --- width -----------------------------------------------------------------------------------


def _extend(em: Emitter, op: ExtI) -> None:
    signed = op.signedness is Signedness.SIGNED
    if em.held[op.source].plain:
        em.define(op.result, reading(em.plain(op.source), bits_of(op.source), signed))
        return
    dtype = em.constant(_dtype(op))
    text = em.call(integers.extended, em.array(op.source), dtype, signed)
    em.define(op.result, text, em.shapes((op.source,)))


def _truncate(em: Emitter, op: TruncI) -> None:
    promises = _promises(op.overflow)
    if em.held[op.source].plain:
        bits, wide = bits_of(op.result), bits_of(op.source)
        text = em.plain(op.source)
        for signed in promises:
            number = reading(text, wide, signed)
            em.emit(em.call(scalars.fitting, em.site(op), *limits(bits, signed), number))
        em.define(op.result, folded(text, bits))
        return
    text, dtype = em.array(op.source), em.constant(_dtype(op))
    if promises:
        readings = (True in promises, False in promises)
        em.emit(em.call(integers.require_reversible, em.site(op), text, dtype, *readings))
    em.define(op.result, em.call(integers.truncated, text, dtype), em.shapes((op.source,)))


def _dtype(op: Op) -> np.dtype[Any]:
    element = tile_element(op.results[0])
    assert isinstance(element, Element)
    return element.numpy


# Rules of this module.
RULES: Rules = {
    AddI: _add,
    SubI: _wrapping("-", operator.sub),
    MulI: _wrapping("*", operator.mul),
    NegI: IntegerRule(_negate_plain, _negate_array),
    AbsI: IntegerRule(_absolute_plain, _absolute_array),
    MulHiI: IntegerRule(_high_plain, _high_array),
    DivI: IntegerRule(_divide_plain, _divide_array),
    RemI: IntegerRule(_remainder_plain, _remainder_array),
    ShLI: IntegerRule(_left_plain, _left_array),
    ShRI: IntegerRule(_right_plain, _right_array),
    MaxI: _extremum(">=", np.maximum),
    MinI: _extremum("<=", np.minimum),
    CmpI: IntegerRule(_compare_plain, _compare_array),
    AndI: _bitwise("&"),
    OrI: _bitwise("|"),
    XOrI: _bitwise("^"),
    ExtI: _extend,
    TruncI: _truncate,
}

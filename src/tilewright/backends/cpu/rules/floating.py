"""Emission of float ops, conversions and selects; one text serves scalars and tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.backends.cpu import conversions, floats, formats, integers, rounding, selection
from tilewright.backends.cpu.emitter import Emitter, Rules, is_plain, tile_dtype, tile_element
from tilewright.backends.cpu.rounding import DIRECTED, Lost
from tilewright.backends.cpu.rules.short import elementwise, is_short
from tilewright.dtypes import Element
from tilewright.ir.attributes import Rounding, Signedness
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.elementwise import (
    AbsF,
    AddF,
    Atan2,
    Bitcast,
    Ceil,
    CmpF,
    Cos,
    Cosh,
    DivF,
    Exp,
    Exp2,
    Floor,
    Fma,
    FPowI,
    FToF,
    FToI,
    IToF,
    Log,
    Log2,
    MaxF,
    MinF,
    MulF,
    NegF,
    Pow,
    RemF,
    Rsqrt,
    Select,
    Sin,
    Sinh,
    Sqrt,
    SubF,
    Tan,
    Tanh,
)

__all__ = ["RULES"]


def _function(function: Callable[..., Any]) -> Callable[[Emitter, Any], None]:
    """Return a rule that applies one function to the operands, element by element."""

    def rule(em: Emitter, op: Any) -> None:
        flush, mode = getattr(op, "flush_to_zero", False), getattr(op, "rounding_mode", None)

        def write(operands: Sequence[str]) -> str:
            if flush:
                operands = [em.call(floats.flushed, operand) for operand in operands]
            text = em.call(function, *operands)
            if mode in DIRECTED:
                text = em.call(DIRECTED[mode], em.function(_LOST[type(op)]), text, *operands)
            return em.call(floats.flushed, text) if flush else text

        is_one_call = isinstance(function, np.ufunc) and not flush and mode not in DIRECTED
        is_direct = is_one_call and op in em.plan.direct
        if elementwise(em, op.result, op.operands, write, is_direct=is_direct):
            return
        text = write([em.array(value) for value in op.operands])
        if is_direct:
            em.direct[op.result] = text[:-1]
            em.bind(op.result, text, em.shapes(op.operands))
        else:
            em.define(op.result, text, em.shapes(op.operands))

    return rule


def _power_of_two(em: Emitter, op: Exp2) -> None:
    if not op.flush_to_zero:
        _declared(Exp2)(em, op)
        return

    def write(operands: Sequence[str]) -> str:
        # The power of a denormal number is 1, as that of zero.
        return em.call(floats.flushed_exp2, *operands)

    if not elementwise(em, op.result, op.operands, write):
        em.define(op.result, write([em.array(op.source)]), em.shapes(op.operands))


def _approximate(op_class: type[Op]) -> Callable[[Emitter, Any], None]:
    """Return a rule for an op whose approximation in f32 is NumPy's own function."""
    meaning: Any = op_class.meaning
    exact, approximate = _declared(op_class), _function(meaning)

    def rule(em: Emitter, op: Any) -> None:
        fast = op.rounding_mode is Rounding.APPROX and tile_element(op.result) is Element.F32
        (approximate if fast else exact)(em, op)

    return rule


def _declared(op: type[Op]) -> Callable[[Emitter, Any], None]:
    """Return a rule for an op whose declaration names the function."""
    meaning: Any = op.meaning
    function: Callable[..., Any] = floats.IN_F64.get(meaning) or meaning
    return _function(function)


# Elements that NumPy computes with, and converts by rounding alone.
_PLAIN = (Element.F16, Element.BF16, Element.F32, Element.F64)
_LOST: dict[type[Op], Lost] = {
    AddF: rounding.lost_by_sum,
    SubF: rounding.lost_by_difference,
    MulF: rounding.lost_by_product,
    DivF: rounding.lost_by_quotient,
    Fma: rounding.lost_by_fma,
    Sqrt: rounding.lost_by_root,
}


def _maximum(em: Emitter, op: MaxF) -> None:
    _function(floats.greatest_or_nan if op.propagate_nan else floats.greatest)(em, op)


def _minimum(em: Emitter, op: MinF) -> None:
    _function(floats.least_or_nan if op.propagate_nan else floats.least)(em, op)


def _compare(em: Emitter, op: CmpF) -> None:
    compare = floats.COMPARE[op.comparison_ordering, op.comparison_predicate]
    if elementwise(em, op.result, op.operands, lambda texts: em.call(compare, *texts)):
        return
    text = em.call(compare, em.array(op.lhs), em.array(op.rhs))
    _define_from_array(em, op.result, text, op.operands)


def _select(em: Emitter, op: Select) -> None:
    choices = (op.val_if_true, op.val_if_false)
    then, other = (em.held[value] for value in choices)
    if em.held[op.cond].plain and then.shape == other.shape:
        take = em.plain if then.plain and other.plain else em.array
        text = f"{take(choices[0])} if {em.plain(op.cond)} else {take(choices[1])}"
        em.define(op.result, text, then.shape)
    elif not elementwise(
        em, op.result, op.operands, lambda texts: em.call(selection.chosen, *texts)
    ):
        arrays = (em.array(value) for value in op.operands)
        em.define(op.result, em.call(selection.chosen, *arrays), em.shapes(op.operands))


def _define_from_array(em: Emitter, value: Value, text: str, operands: tuple[Value, ...]) -> None:
    """Bind NumPy's result for scalars or arrays; a rank-0 integer becomes a Python int."""
    shape = em.shapes(operands)
    if shape == () and is_plain(value):
        text = f"({text}).item()"
    em.define(value, text, shape)


# --- conversion ------------------------------------------------------------------------------


def _float_to_float(em: Emitter, op: FToF) -> None:
    target = tile_element(op.result)
    if is_short(em, op.source) and target in _PLAIN and op.rounding_mode not in DIRECTED:
        dtype = _dtype(em, op)
        if elementwise(
            em, op.result, op.operands, lambda texts: em.call(floats.nearest, texts[0], dtype)
        ):
            return
    source = _numbers(em, op.source)
    if target is Element.F8E8M0FNU:
        above = op.rounding_mode is Rounding.POSITIVE_INF
        scale = conversions.power_of_two_above if above else conversions.power_of_two_below
        text = em.call(scale, source)
    elif target is Element.TF32:
        text = em.call(floats.tf32, source, em.constant(op.rounding_mode))
    elif target is Element.FNV8E5M3FNU:
        text = em.call(formats.encoded, source, em.constant(op.rounding_mode))
    else:
        text = em.call(floats.nearest, source, _dtype(em, op))
        text = _converted_by_mode(em, op, text, source)
    em.define(op.result, text, em.shapes((op.source,)))


def _numbers(em: Emitter, value: Value) -> str:
    """Return a tile of floats in a type that NumPy computes with."""
    text = em.array(value)
    element = tile_element(value)
    held_as_bits = isinstance(element, Element) and element.is_held_as_bits
    return em.call(formats.decoded, text) if held_as_bits else text


def _integer_to_float(em: Emitter, op: IToF) -> None:
    source = _unsigned_if(em, op, em.array(op.source))
    if tile_element(op.result) is Element.TF32:
        text = em.call(floats.tf32, em.call(conversions.sticky, source))
    elif tile_element(op.result) is Element.FNV8E5M3FNU:
        text = em.call(formats.encoded, em.call(conversions.sticky, source))
    else:
        text = em.call(conversions.float_of_integer, source, _dtype(em, op))
        text = _converted_by_mode(em, op, text, source)
    em.define(op.result, text, em.shapes((op.source,)))


def _converted_by_mode(em: Emitter, op: Any, text: str, source: str) -> str:
    if op.rounding_mode not in DIRECTED:
        return text
    lost = em.function(rounding.lost_by_conversion)
    return em.call(DIRECTED[op.rounding_mode], lost, text, source)


def _unsigned_if(em: Emitter, op: IToF, text: str) -> str:
    signed = op.signedness is Signedness.SIGNED
    if tile_element(op.source) is Element.I1:
        return _truth_as_byte(em, text, signed)
    return text if signed else em.call(integers.unsigned, text)


def _truth_as_byte(em: Emitter, text: str, signed: bool) -> str:
    return em.call(integers.extended, text, em.constant(np.dtype(np.int8)), signed)


def _float_to_integer(em: Emitter, op: FToI) -> None:
    signed = op.signedness is Signedness.SIGNED
    element = tile_element(op.result)
    assert isinstance(element, Element)
    held = np.dtype(np.int8) if element is Element.I1 else element.numpy
    target = em.constant(held if signed else np.dtype(f"u{held.name}"))
    source = _numbers(em, op.source)
    if em.plan.as_gpus and element is Element.I1:
        _define_from_array(em, op.result, f"{source} != 0", op.operands)
        return
    if op.saturating:
        text = em.call(conversions.cut_saturating, source, target, element.bits)
    else:
        text = em.call(conversions.cut, em.site(op), source, target, element.bits)
    if element is Element.I1:
        text = f"{text} != 0"
    elif not signed:
        text = em.call(integers.signed, text)
    _define_from_array(em, op.result, text, op.operands)


def _reinterpret(em: Emitter, op: Bitcast) -> None:
    text = f"{em.array(op.source)}.view({_dtype(em, op)})"
    _define_from_array(em, op.result, text, op.operands)


def _power(em: Emitter, op: FPowI) -> None:
    exponent = em.array(op.exponent)
    if tile_element(op.exponent) is Element.I1:
        exponent = _truth_as_byte(em, exponent, True)
    text = em.call(floats.integer_power, em.array(op.source), exponent)
    em.define(op.result, text, em.shapes(op.operands))


def _dtype(em: Emitter, op: Op) -> str:
    return em.constant(tile_dtype(op.results[0]))


# Rules of this module.
RULES: Rules = {
    **{
        op: _declared(op)
        for op in (
            AbsF, AddF, Atan2, Ceil, Cos, Cosh, DivF, Floor, Log, Log2, MulF, NegF, Pow, RemF, Sin,
            Sinh, Sqrt, SubF, Tan,
        )
    },
    Exp: _approximate(Exp),
    Exp2: _power_of_two,
    Tanh: _approximate(Tanh),
    Fma: _function(floats.fused),
    Rsqrt: _function(floats.reciprocal_root),
    FPowI: _power,
    MaxF: _maximum,
    MinF: _minimum,
    CmpF: _compare,
    Select: _select,
    Bitcast: _reinterpret,
    FToF: _float_to_float,
    FToI: _float_to_integer,
    IToF: _integer_to_float,
}  # fmt: skip

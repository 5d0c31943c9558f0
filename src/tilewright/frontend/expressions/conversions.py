"""`astype`: conversion between any two dtypes, by intermediate ones where there is no single op.

Floats round to nearest by default, floats to integers saturate (NaN gives 0), integers keep their
low bits, and a non-zero number is true. Every conversion is defined for all values.
"""

from __future__ import annotations

from tilewright.dtypes import DType, bool_, f8e8m0fnu, f32, i4, i8, limits
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.abilities import can_compute
from tilewright.frontend.operands.operands import TileOperand
from tilewright.ir.attributes import Ordering, Predicate, Rounding, Signedness
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import CmpF, CmpI, ExtI, FToF, FToI, IToF, MaxI, MinI, TruncI
from tilewright.ir.ops.internal import ReadAs

__all__ = ["convert", "signedness"]

_NARROW = 8  # bits


def signedness(dtype: type[DType]) -> Signedness:
    """The signedness by which integer ops read this dtype."""
    return Signedness.SIGNED if dtype.signed else Signedness.UNSIGNED


def convert(
    lo: Lowering,
    tile: TileOperand,
    dtype: type[DType],
    rounding: Rounding = Rounding.NEAREST_EVEN,
) -> TileOperand:
    """The tile in another dtype; `rounding` is for floats that become other floats."""
    if tile.dtype is dtype:
        return TileOperand(tile.value, dtype)
    between = _stop(tile.dtype, dtype)
    if between is not None:
        return convert(lo, convert(lo, tile, between), dtype, rounding)
    return TileOperand(_converted(lo, tile, dtype, rounding), dtype)


def _stop(source: type[DType], dtype: type[DType]) -> type[DType] | None:
    """The intermediate dtype of a conversion without a direct op."""
    if dtype is bool_ and not can_compute(source):
        return i8 if source is i4 else f32
    if source is i4 and dtype.element.is_float:
        return i8
    if dtype is f8e8m0fnu and source.element.is_integer:
        return f32
    return None


def _converted(lo: Lowering, tile: TileOperand, dtype: type[DType], rounding: Rounding) -> Value:
    source, to = tile.dtype.element, tile.type.with_element(dtype.element)
    add = lo.builder.add
    if dtype is bool_:
        return _is_not_zero(lo, tile)
    if source.is_float and dtype.element.is_float:
        return add(FToF(source=tile.value, to=to, rounding_mode=rounding, dtype=dtype)).result
    if source.is_float:
        return _cut(lo, tile, dtype)
    sign = signedness(tile.dtype)
    if dtype.element.is_float:
        return add(IToF(source=tile.value, to=to, signedness=sign, dtype=dtype)).result
    if dtype.element.bits > source.bits:
        return add(ExtI(source=tile.value, to=to, signedness=sign, dtype=dtype)).result
    if dtype.element.bits < source.bits:
        return add(TruncI(source=tile.value, to=to, dtype=dtype)).result
    return add(ReadAs(source=tile.value, dtype=dtype)).result


def _cut(lo: Lowering, tile: TileOperand, dtype: type[DType]) -> Value:
    """A float as an integer, saturated; i4 by way of i8, and narrow floats by way of f32.

    tileiras does not convert 8-bit floats to integers.
    """
    if tile.dtype.element.bits <= _NARROW:
        tile = convert(lo, tile, f32)
    held = i8 if dtype is i4 else dtype
    to = tile.type.with_element(held.element)
    add = lo.builder.add
    sign = signedness(held)
    op = FToI(source=tile.value, to=to, signedness=sign, saturating=True, dtype=held)
    value = add(op).result
    if dtype is not i4:
        return value
    for limit, bound in zip(limits(i4), (MaxI, MinI), strict=True):
        end = lo.builder.constant(int(limit), held.element, tile.shape, held)
        value = add(bound(lhs=value, rhs=end, signedness=sign, dtype=held)).result
    return add(TruncI(source=value, to=tile.type.with_element(i4.element), dtype=i4)).result


def _is_not_zero(lo: Lowering, tile: TileOperand) -> Value:
    zero = lo.builder.constant(0, tile.dtype.element, tile.shape)
    if tile.dtype.element.is_float:
        op = CmpF(
            lhs=tile.value, rhs=zero, comparison_predicate=Predicate.NOT_EQUAL,
            comparison_ordering=Ordering.UNORDERED, dtype=bool_,
        )  # fmt: skip
        return lo.builder.add(op).result
    equal = CmpI(
        lhs=tile.value,
        rhs=zero,
        comparison_predicate=Predicate.NOT_EQUAL,
        signedness=signedness(tile.dtype),
        dtype=bool_,
    )
    return lo.builder.add(equal).result

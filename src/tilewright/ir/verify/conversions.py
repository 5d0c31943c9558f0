"""Rules of conversions between elements and their rounding modes: one row for each op class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.dtypes import Element
from tilewright.ir.attributes import Rounding
from tilewright.ir.op import Op
from tilewright.ir.ops.elementwise import Bitcast, ExtI, FToF, FToI, IToF, TruncI
from tilewright.ir.ops.families import Conversion
from tilewright.ir.types import TileType
from tilewright.ir.verify.rules import (
    FLOAT,
    FLOATS,
    INTEGER,
    INTEGER_OR_I4,
    NUMBER,
    Rule,
    TileClass,
    allowed,
    bit_width,
    same_shape,
    tiles,
    when,
)

__all__ = ["CONVERSION_RULES", "float_roundings"]

_R = Rounding

_ANY_DIRECTION: tuple[Rounding, ...] = (_R.NEAREST_EVEN, _R.ZERO, _R.NEGATIVE_INF, _R.POSITIVE_INF)
_ANY: tuple[Rounding, ...] = (*_ANY_DIRECTION, _R.NEAREST_AWAY)
_NEAREST_OR_CUT_OR_AWAY = (_R.NEAREST_EVEN, _R.ZERO, _R.NEAREST_AWAY)
_NEAREST_OR_CUT: tuple[Rounding, ...] = (_R.NEAREST_EVEN, _R.ZERO)
_CUT_OR_UP = (_R.ZERO, _R.POSITIVE_INF)
_NEAREST = (_R.NEAREST_EVEN,)


class Format(NamedTuple):
    """Range of a float: bits of precision, least and greatest exponent of normal numbers."""

    precision: int
    least: int
    greatest: int

    def fits(self, other: Format) -> bool:
        """Whether every number of this format is exact in the other."""
        wide_enough = other.least <= self.least and self.greatest <= other.greatest
        return self.precision <= other.precision and wide_enough


_FORMATS = {
    Element.F16: Format(11, -14, 15),
    Element.BF16: Format(8, -126, 127),
    Element.F32: Format(24, -126, 127),
    Element.TF32: Format(11, -126, 127),
    Element.F64: Format(53, -1022, 1023),
    Element.F8E4M3FN: Format(4, -6, 8),
    Element.F8E5M2: Format(3, -14, 15),
    Element.F8E8M0FNU: Format(1, -127, 127),
    Element.F4E2M1FN: Format(2, 0, 2),
    Element.FNV8E5M3FNU: Format(4, -14, 16),
}

# Rounding modes by target element; for any other target an exact conversion takes every mode.
_ROUNDINGS = {
    Element.F8E8M0FNU: _CUT_OR_UP,
    Element.F8E4M3FN: _NEAREST,
    Element.F8E5M2: _NEAREST,
    Element.F4E2M1FN: _NEAREST,
    Element.FNV8E5M3FNU: _NEAREST,
}


# Narrowing conversions with more rounding modes than others.
_NARROWINGS = {
    (Element.F64, Element.F32): _ANY_DIRECTION,
    (Element.F32, Element.TF32): _NEAREST_OR_CUT_OR_AWAY,
}


def float_roundings(before: Element, after: Element) -> tuple[Rounding, ...]:
    """Return the legal rounding modes from one float format to another."""
    usual = _ANY if _FORMATS[before].fits(_FORMATS[after]) else _NEAREST_OR_CUT
    usual = _NARROWINGS.get((before, after), usual)
    return _ROUNDINGS.get(after, usual)


def _rounding(op: FToF) -> Iterator[str]:
    assert isinstance(op.source.type, TileType)
    before, after = op.source.type.element, op.to.element
    assert isinstance(before, Element)
    assert isinstance(after, Element)
    yield from allowed("rounding_mode", *float_roundings(before, after))(op)


def _widths(wanted: str, least: int, most: int) -> Rule:
    """The change of width in bits lies between two bounds."""

    def check(op: Conversion) -> Iterator[str]:
        assert isinstance(op.source.type, TileType)
        before, after = op.source.type.element, op.to.element
        assert isinstance(before, Element)
        assert isinstance(after, Element)
        if not least <= bit_width(after) - bit_width(before) <= most:
            yield f"the result must be {wanted} in bits, but {before} becomes {after}"

    return check


# By op class.
CONVERSION_RULES: dict[type[Op], tuple[Rule, ...]] = {
    Conversion: (same_shape("source", "result"),),
    Bitcast: (tiles(NUMBER, "source", "result"), _widths("equal", 0, 0)),
    ExtI: (tiles(INTEGER_OR_I4, "source", "result"), _widths("wider", 1, 64)),
    TruncI: (tiles(INTEGER_OR_I4, "source", "result"), _widths("narrower", -64, -1)),
    FToF: (
        tiles(FLOAT, "source", "result"),
        when(lambda op: op.source.type == op.to, "the result has the type of the source"),
        _rounding,
    ),
    IToF: (
        tiles(INTEGER, "source"),
        tiles(TileClass(FLOATS - {Element.F8E8M0FNU}), "result"),
        allowed("rounding_mode", *_NEAREST),
    ),
    FToI: (
        tiles(FLOAT, "source"),
        tiles(INTEGER, "result"),
        allowed("rounding_mode", _R.NEAREST_INT_TO_ZERO),
    ),
}

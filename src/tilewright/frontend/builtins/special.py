"""Float functions without an op in Tile IR, as formulas of those with one.

f32 and f64 are computed in their own precision, f16 and bf16 in f32 and rounded once. Polynomials
are series with as many terms as the precision needs, so that one formula serves both; arguments are
first reduced by powers of two, which are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.dtypes import DType, bf16, f16, f32, f64, i32, i64
from tilewright.frontend.builtins.error_function import LARGEST, SMALLEST, TAIL
from tilewright.frontend.builtins.maths import check_floats
from tilewright.frontend.calling.arguments import Arguments, Lowers
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand
from tilewright.frontend.operands.tile_formulas import TileFormula
from tilewright.frontend.operands.tiles import as_tile
from tilewright.ir.ops.elementwise import AbsF, Exp, Floor, Log

__all__ = ["composed", "erf", "expm1", "is_finite", "is_infinite", "is_nan", "log1p", "rounded",
           "sigmoid"]  # fmt: skip


@dataclass(frozen=True)
class _Precision:
    """Parameters of a formula for one float type."""

    integer: type[DType]  # of the same width
    mantissa: int  # explicit bits
    bias: int
    ln2: tuple[float, float]  # log 2 in two parts
    largest_exponential: float  # `exp` overflows above it
    log_terms: int
    exp_terms: int
    erf_terms: tuple[int, int]  # of the series near zero, of the tail


_LN2_OF_F32 = 0.693147182464599609375  # rounded to f32, like every number that the kernel subtracts
_PRECISIONS: dict[type[DType], _Precision] = {
    f32: _Precision(i32, 23, 127, (_LN2_OF_F32, math.log(2) - _LN2_OF_F32), 89.0, 7, 9, (11, 8)),
    f64: _Precision(
        i64, 52, 1023, (math.log(2), 2.3190468138462996e-17), 710.0, 14, 16, (21, len(TAIL))
    ),
}  # fmt: skip


def composed(name: str, formula: Callable[[TileFormula], TileFormula]) -> Lowers:
    """The lowering of a float function with one operand, by a formula."""

    def lower(lo: Lowering, call: Arguments) -> Operand:
        tile = as_tile(lo, call.where("x"), call.operand("x"))
        check_floats(lo, call.where("x"), name, tile)
        x = TileFormula(lo, call.node, tile)
        if tile.dtype not in (f16, bf16):
            return formula(x).tile
        result = formula(x.astype(f32))
        is_number = result.dtype.element.is_float
        return (result.astype(tile.dtype) if is_number else result).tile

    return lower


def _series(x: TileFormula, coefficients: Sequence[float]) -> TileFormula:
    """`c0 + c1 x + c2 x² + …`, by Horner's rule."""
    total = x.filled(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total.fma(x, coefficient)
    return total


# --- logarithm and exponential near one -----------------------------------------------------------


def log1p(x: TileFormula) -> TileFormula:
    """`log(1 + x)`: `1 + x` is `2**k * (1 + f)` with `f` between -1/4 and 1/2.

    With `s = f / (2 + f)`, `log(1 + f)` is `2s + 2s³/3 + 2s⁵/5 + …`, of which `f - f²/2` is split
    off first, since it is exact up to one rounding.
    """
    precision = _PRECISIONS[x.dtype]
    integer, width = precision.integer, precision.mantissa
    one = precision.bias << width
    three_quarters = one - (1 << (width - 1))
    exponent = ((x + 1.0).bits_as(integer) - three_quarters) >> width
    scale = ((exponent << width) * -1 + one).bits_as(x.dtype)
    f = x.fma(scale, scale - 1.0)
    s = f / (f + 2.0)
    square = s * s
    rest = square * _series(square, [2 / (2 * n + 3) for n in range(precision.log_terms)])
    half = f * f * 0.5
    near = f - (half - s * (half + rest))
    k = exponent.astype(x.dtype)
    high, low = precision.ln2
    far = k.fma(high, k.fma(low, near))
    result = near.where(exponent.equals(0), far)
    large = 2.0 ** (width + 7)
    result = x.where(_is_tiny(x), x.applied(Log).where(x >= large, result))
    return result.where(x > -1.0, x.filled(-math.inf).where(x.equals(-1.0), math.nan))


def expm1(x: TileFormula) -> TileFormula:
    """`exp(x) - 1`, in two parts.

    With `x = k log 2 + r`, it is `2**k expm1(r) + (2**k - 1)`. The power is halved and the result
    doubled, since `2**k` itself may overflow.
    """
    precision = _PRECISIONS[x.dtype]
    largest, least = precision.largest_exponential, -0.75 * (precision.mantissa + 3)
    held = x.where(x < largest, largest)
    held = held.where(held > least, least)
    k = (held * (1 / math.log(2)) + 0.5).applied(Floor)
    high, low = precision.ln2
    r = k.fma(-low, k.fma(-high, held))
    factors = [1 / math.factorial(n + 2) for n in range(precision.exp_terms)]
    near = (r * r).fma(_series(r, factors), r)
    power = (k.astype(precision.integer) + (precision.bias - 1)) << precision.mantissa
    half = power.bits_as(x.dtype)
    result = near.fma(half, half - 0.5) * 2.0
    return x.where(_is_tiny(x) | x.differs(x), result)


def _is_tiny(x: TileFormula) -> TileFormula:
    """Whether `log1p` and `expm1` leave elements unchanged, so near zero are they."""
    return x.applied(AbsF) < 2.0 ** -(_PRECISIONS[x.dtype].mantissa + 2)


def sigmoid(x: TileFormula) -> TileFormula:
    """`1 / (1 + exp(-x))`, in a form that does not overflow for negative `x`."""
    e = (x.applied(AbsF) * -1.0).applied(Exp)
    return e.where(x < 0.0, 1.0) / (e + 1.0)


# --- the error function ---------------------------------------------------------------------------


def erf(x: TileFormula) -> TileFormula:
    """The error function: its series near zero, and one minus its tail elsewhere."""
    precision = _PRECISIONS[x.dtype]
    size = x.applied(AbsF)
    square = x * x
    first = 2 / math.sqrt(math.pi)
    number, tail = precision.erf_terms
    factors = [first * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(number)]
    near = x.fma(_series(square, [factors[0] - 1, *factors[1:]]), x)
    far = 1.0 - _tail(size.where(size < LARGEST, LARGEST), TAIL[:tail])
    far = (far * -1.0).where(x < 0.0, far)
    return near.where(~(size >= SMALLEST), far)


def _tail(x: TileFormula, coefficients: Sequence[float]) -> TileFormula:
    """`1 - erf(x)` from `SMALLEST` to `LARGEST`, by Clenshaw's recurrence."""
    t = 2.0 / (x + 2.0)
    low, high = 2 / (LARGEST + 2), 2 / (SMALLEST + 2)
    place = t.fma(2 / (high - low), -(high + low) / (high - low))
    twice = place * 2.0
    before, last = x.filled(0.0), x.filled(coefficients[-1])
    for coefficient in reversed(coefficients[1:-1]):
        before, last = last, twice.fma(last, coefficient - before)
    exponent = place.fma(last, 0.5 * coefficients[0] - before)
    return t * (exponent - x * x).applied(Exp)


# --- whole numbers, NaN and infinities ------------------------------------------------------------


def rounded(x: TileFormula) -> TileFormula:
    """The nearest whole number, ties to even: `2**mantissa` leaves no bits for a fraction.

    The sign is that of `x`, of zero too.
    """
    precision = _PRECISIONS[x.dtype]
    large = 2.0**precision.mantissa
    size = x.applied(AbsF)
    whole = ((size + large) - large).bits_as(precision.integer)
    bits = x.bits_as(precision.integer)
    sign = bits & -(1 << (precision.mantissa + precision.bias.bit_length() + 1))
    return (whole | sign).bits_as(x.dtype).where(size < large, x)


def is_nan(x: TileFormula) -> TileFormula:
    """Whether elements are NaN: unequal to themselves."""
    return x.differs(x)


def is_infinite(x: TileFormula) -> TileFormula:
    """Whether elements are infinities."""
    return x.applied(AbsF).equals(math.inf)


def is_finite(x: TileFormula) -> TileFormula:
    """Whether elements are neither infinities nor NaN."""
    return x.applied(AbsF) < math.inf

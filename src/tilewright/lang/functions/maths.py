"""Element-wise mathematics, of floats unless a function states otherwise.

Modifiers trade accuracy for speed: `rounding` selects the rounding of a result that the dtype
cannot hold (`"approx"` is the GPU's fast one, f32 only), `ftz` flushes subnormal numbers to zero
(f32 only).
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import Any, TypeVar, overload

from tilewright.dtypes import DType, bool_
from tilewright.lang.builtin import builtin
from tilewright.lang.rounding import Direction, Precision, RootRounding
from tilewright.lang.tile import Operand, Tile

__all__ = [
    "abs", "atan2", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "fma",
    "isfinite", "isinf", "isnan", "log", "log1p", "log2", "mulhi", "pow", "round", "rsqrt",
    "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip

D = TypeVar("D", bound=DType)
V = TypeVar("V", bound=Tile[Any] | DType)  # a tile or a scalar


@builtin
def exp(x: V, *, rounding: Precision = "full") -> V:
    """The exponential of every element."""


@builtin
def exp2(x: V, *, ftz: bool = False) -> V:
    """Two to the power of every element; on a GPU the cheapest exponential."""


@builtin
def log(x: V) -> V:
    """The natural logarithm of every element; NaN below zero."""


@overload
def log2(x: int) -> int: ...
@overload
def log2(x: V) -> V: ...
@builtin
def log2(x: Any) -> Any:
    """The logarithm to base two of every element; NaN below zero.

    For a compile-time power of two the result is a compile-time integer.
    """


@builtin
def log1p(x: V) -> V:
    """`log(1 + x)` of every element, exact near zero too; NaN below -1.

    Within 2 ulp in f32 and f64; f16 and bf16 are rounded from f32.
    """


@builtin
def expm1(x: V) -> V:
    """`exp(x) - 1` of every element, exact near zero too.

    Within 2 ulp in f32 and f64; f16 and bf16 are rounded from f32.
    """


@builtin
def erf(x: V) -> V:
    """The error function of every element: `2 / sqrt(pi)` times the integral of `exp(-t²)` to `x`.

    Within 2 ulp in f32 and f64; f16 and bf16 are rounded from f32.
    """


@builtin
def sigmoid(x: V) -> V:
    """`1 / (1 + exp(-x))` of every element.

    Within 3 ulp in f32 and f64; f16 and bf16 are rounded from f32.
    """


@builtin
def sqrt(x: V, *, rounding: RootRounding = "nearest", ftz: bool = False) -> V:
    """The square root of every element; NaN below zero."""


@builtin
def rsqrt(x: V, *, ftz: bool = False) -> V:
    """One over the square root of every element, in one step."""


@builtin
def sin(x: V) -> V:
    """The sine of every element, in radians."""


@builtin
def cos(x: V) -> V:
    """The cosine of every element, in radians."""


@builtin
def tan(x: V) -> V:
    """The tangent of every element, in radians."""


@builtin
def sinh(x: V) -> V:
    """The hyperbolic sine of every element."""


@builtin
def cosh(x: V) -> V:
    """The hyperbolic cosine of every element."""


@builtin
def tanh(x: V, *, rounding: Precision = "full") -> V:
    """The hyperbolic tangent of every element."""


@builtin
def ceil(x: V) -> V:
    """Every element rounded up to a whole number; the dtype stays."""


@builtin
def floor(x: V) -> V:
    """Every element rounded down to a whole number; the dtype stays."""


@builtin
def round(x: V) -> V:
    """Every element rounded to the nearest whole number, halves to the even one; the dtype stays.

    Python and NumPy round the same way. A zero keeps the sign of the rounded number.
    """


@overload
def isnan(x: Tile[Any]) -> Tile[bool_]: ...
@overload
def isnan(x: DType) -> bool_: ...
@builtin
def isnan(x: Any) -> Any:
    """Whether every element is NaN, as truth values."""


@overload
def isinf(x: Tile[Any]) -> Tile[bool_]: ...
@overload
def isinf(x: DType) -> bool_: ...
@builtin
def isinf(x: Any) -> Any:
    """Whether every element is an infinity, of either sign, as truth values."""


@overload
def isfinite(x: Tile[Any]) -> Tile[bool_]: ...
@overload
def isfinite(x: DType) -> bool_: ...
@builtin
def isfinite(x: Any) -> Any:
    """Whether every element is neither NaN nor an infinity, as truth values."""


@builtin
def abs(x: V) -> V:
    """The magnitude of every element, also of integers; the lowest integer stays unchanged."""


@overload
def fma(
    a: Tile[D],
    b: Operand[D],
    c: Operand[D],
    *,
    rounding: Direction = "nearest",
    ftz: bool = False,
) -> Tile[D]: ...
@overload
def fma(
    a: D | float,
    b: Tile[D],
    c: Operand[D],
    *,
    rounding: Direction = "nearest",
    ftz: bool = False,
) -> Tile[D]: ...
@overload
def fma(
    a: D | float,
    b: D | float,
    c: Tile[D],
    *,
    rounding: Direction = "nearest",
    ftz: bool = False,
) -> Tile[D]: ...
@overload
def fma(
    a: D, b: D | float, c: D | float, *, rounding: Direction = "nearest", ftz: bool = False
) -> D: ...
@builtin
def fma(a: Any, b: Any, c: Any, *, rounding: Direction = "nearest", ftz: bool = False) -> Any:
    """`a * b + c` of floats, rounded once."""


@overload
def pow(x: Tile[D], y: Tile[Any] | DType | float) -> Tile[D]: ...
@overload
def pow(x: D | float, y: Tile[D]) -> Tile[D]: ...
@overload
def pow(x: D, y: DType | float) -> D: ...
@builtin
def pow(x: Any, y: Any) -> Any:
    """`x ** y`, of floats or of integers.

    The exponent has the dtype of `x`, or is an integer where `x` is a float. Integers wrap around;
    an integer to a negative power gives 0, and is refused where the exponent is a constant.
    """


@overload
def atan2(y: Tile[D], x: Operand[D]) -> Tile[D]: ...
@overload
def atan2(y: D | float, x: Tile[D]) -> Tile[D]: ...
@overload
def atan2(y: D, x: D | float) -> D: ...
@builtin
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y) in radians, from -pi to pi."""


@overload
def mulhi(a: Tile[D], b: Operand[D]) -> Tile[D]: ...
@overload
def mulhi(a: D | int, b: Tile[D]) -> Tile[D]: ...
@overload
def mulhi(a: D, b: D | int) -> D: ...
@builtin
def mulhi(a: Any, b: Any) -> Any:
    """The high half of the product of two integers, signed or not as their dtype is."""

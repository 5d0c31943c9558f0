"""Mathematics of every element."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import Any, TypeVar, overload

from tilewright.dtypes import DType
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Operand, Tile

__all__ = [
    "abs",
    "ceil",
    "cos",
    "exp",
    "exp2",
    "floor",
    "fma",
    "log",
    "log2",
    "rsqrt",
    "sin",
    "sqrt",
    "tanh",
]

D = TypeVar("D", bound=DType)
V = TypeVar("V", bound=Tile[Any] | DType)  # a tile or a scalar


@builtin
def exp(x: V) -> V:
    """The exponential of every element."""


@builtin
def exp2(x: V) -> V:
    """Two to the power of every element; on a GPU the cheapest of the exponentials."""


@builtin
def log(x: V) -> V:
    """The natural logarithm of every element; NaN below zero."""


@builtin
def log2(x: V) -> V:
    """The logarithm to base two of every element; NaN below zero."""


@builtin
def sqrt(x: V) -> V:
    """The square root of every element; NaN below zero."""


@builtin
def rsqrt(x: V) -> V:
    """One over the square root of every element, in one step."""


@builtin
def sin(x: V) -> V:
    """The sine of every element, in radians."""


@builtin
def cos(x: V) -> V:
    """The cosine of every element, in radians."""


@builtin
def tanh(x: V) -> V:
    """The hyperbolic tangent of every element."""


@builtin
def ceil(x: V) -> V:
    """Every element rounded up to a whole number; the dtype stays."""


@builtin
def floor(x: V) -> V:
    """Every element rounded down to a whole number; the dtype stays."""


@builtin
def abs(x: V) -> V:
    """The magnitude of every element; the lowest integer of a dtype stays as it is."""


@overload
def fma(a: Tile[D], b: Operand[D], c: Operand[D]) -> Tile[D]: ...
@overload
def fma(a: D | float, b: Tile[D], c: Operand[D]) -> Tile[D]: ...
@overload
def fma(a: D | float, b: D | float, c: Tile[D]) -> Tile[D]: ...
@overload
def fma(a: D, b: D | float, c: D | float) -> D: ...
@builtin
def fma(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c` of floats, rounded once."""

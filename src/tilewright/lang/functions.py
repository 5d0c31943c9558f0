"""The public functions of the kernel language: signatures for type checkers, and documentation.

None has a body: the front end knows each by its object. In one family the words are those of NumPy;
where ours differ, the documentation says how. `zeros`, `ones`, `full`, `arange` and `rand` also
have a meaning on the host, where they make tensors; that is why they are typed `Any`.
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar, overload

from tilewright.dtypes import DType, bool_, i32
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Operand, Tile

__all__ = [
    "abs",
    "arange",
    "block_id",
    "cdiv",
    "ceil",
    "clamp",
    "cos",
    "exp",
    "exp2",
    "floor",
    "fma",
    "full",
    "log",
    "log2",
    "max",
    "maximum",
    "min",
    "minimum",
    "mma",
    "num_blocks",
    "ones",
    "rand",
    "require",
    "rsqrt",
    "sin",
    "sqrt",
    "static_assert",
    "sum",
    "tanh",
    "where",
    "zeros",
]

D = TypeVar("D", bound=DType)
V = TypeVar("V", bound=Tile[Any] | DType)  # a tile or a scalar


@builtin
def zeros(shape: Sequence[SupportsIndex], dtype: type[DType]) -> Any:
    """Zeros in this shape.

    In a kernel a tile, whose extents are powers of two known at compile time; on the host a tensor
    of any shape.
    """


@builtin
def ones(shape: Sequence[SupportsIndex], dtype: type[DType]) -> Any:
    """Ones in this shape: in a kernel a tile, on the host a tensor."""


@builtin
def full(shape: Sequence[SupportsIndex], value: float | DType, dtype: type[DType]) -> Any:
    """One value repeated in this shape: in a kernel a tile, on the host a tensor.

    The value must be one that the dtype can hold; floats are rounded to it.
    """


@builtin
def arange(n: SupportsIndex, dtype: type[DType] = i32) -> Any:
    """The numbers 0, 1, … n - 1 along one axis: in a kernel a tile, on the host a tensor."""


@builtin
def rand(
    shape: Sequence[SupportsIndex],
    dtype: type[DType],
    *,
    seed: SupportsIndex = 0,
    offset: SupportsIndex = 0,
) -> Any:
    """Floats spread evenly over [0, 1): in a kernel a tile, on the host a tensor.

    Element `n` in row-major order is a function of `seed` and `offset + n` alone (Philox), so the
    same call gives the same numbers on every device and in every run.
    """


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


@overload
def minimum(a: Tile[D], b: Operand[D]) -> Tile[D]: ...
@overload
def minimum(a: D | float, b: Tile[D]) -> Tile[D]: ...
@overload
def minimum(a: D, b: D | float) -> D: ...
@overload
def minimum(a: float, b: D) -> D: ...
@overload
def minimum(a: int, b: int) -> int: ...
@builtin
def minimum(a: Any, b: Any) -> Any:
    """The smaller of two values, element by element; a NaN loses against a number."""


@overload
def maximum(a: Tile[D], b: Operand[D]) -> Tile[D]: ...
@overload
def maximum(a: D | float, b: Tile[D]) -> Tile[D]: ...
@overload
def maximum(a: D, b: D | float) -> D: ...
@overload
def maximum(a: float, b: D) -> D: ...
@overload
def maximum(a: int, b: int) -> int: ...
@builtin
def maximum(a: Any, b: Any) -> Any:
    """The larger of two values, element by element; a NaN loses against a number."""


@overload
def clamp(x: Tile[D], low: Operand[D], high: Operand[D]) -> Tile[D]: ...
@overload
def clamp(x: D, low: D | float, high: D | float) -> D: ...
@overload
def clamp(x: int, low: int, high: int) -> int: ...
@builtin
def clamp(x: Any, low: Any, high: Any) -> Any:
    """Every element brought into `[low, high]`: `minimum(maximum(x, low), high)`."""


@overload
def where(condition: Tile[bool_] | bool_ | bool, x: Tile[D], y: Operand[D]) -> Tile[D]: ...
@overload
def where(condition: Tile[bool_] | bool_ | bool, x: D | float, y: Tile[D]) -> Tile[D]: ...
@overload
def where(condition: Tile[bool_], x: D, y: D | float) -> Tile[D]: ...
@overload
def where(condition: Tile[bool_], x: float, y: D) -> Tile[D]: ...
@builtin
def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds and `y` elsewhere, element by element.

    Both are computed. At least one must have a dtype, which the result has too.
    """


@builtin
def sum(x: Tile[D], axis: int | None = None, keepdims: bool = False) -> Tile[D]:
    """The sum along an axis, or of all elements.

    The dtype stays: convert narrow floats first where their precision is not enough. `keepdims`
    leaves an axis of extent one, so that the result broadcasts against `x`.
    """


@builtin
def max(x: Tile[D], axis: int | None = None, keepdims: bool = False) -> Tile[D]:
    """The largest element along an axis, or of all. `maximum` compares two tiles."""


@builtin
def min(x: Tile[D], axis: int | None = None, keepdims: bool = False) -> Tile[D]:
    """The smallest element along an axis, or of all. `minimum` compares two tiles."""


@builtin
def mma(a: Tile[Any], b: Tile[Any], acc: Tile[D]) -> Tile[D]:
    """The matrix product of `a` and `b`, added to `acc`, whose dtype it is summed in.

    `a` is [M, K], `b` is [K, N] and `acc` is [M, N]; all three may have one leading batch axis.
    f16 and 8-bit floats sum in f32 or f16, bf16, tf32 and f32 in f32, f64 in f64, and 8-bit
    integers in i32.
    """


@builtin
def block_id(axis: int = 0) -> int:
    """This block's place along an axis of the grid."""


@builtin
def num_blocks(axis: int = 0) -> int:
    """The blocks along an axis of the grid."""


@builtin
def cdiv(a: SupportsIndex, b: SupportsIndex) -> int:
    """`a / b` rounded up: how many parts of size `b` cover `a`. `b` is positive."""


@builtin
def require(condition: bool) -> None:
    """State what a launch must satisfy: `tw.require(K % 64 == 0)`.

    The condition is over dims, scalars and the grid. It is checked before every launch, which it
    refuses when it does not hold, and is a known fact in the rest of the kernel.
    """


@builtin
def static_assert(condition: bool, message: str = "") -> None:
    """Refuse to compile the kernel unless the condition, a compile-time value, holds."""

"""Reductions and scans: the elements along an axis combined, to one or cumulatively.

A negative axis counts from the end. Several axes are a tuple; None means all elements. `keepdims`
leaves axes of extent one, so that a result broadcasts against its operand.
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from tilewright.dtypes import DType, bool_, i32
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Tile

__all__ = [
    "all", "any", "argmax", "argmin", "cumprod", "cumsum", "max", "mean", "min", "prod", "reduce",
    "scan", "sum",
]  # fmt: skip

D = TypeVar("D", bound=DType)
Axes = int | tuple[int, ...] | None


@builtin
def sum(x: Tile[D], axis: Axes = None, keepdims: bool = False) -> Tile[D]:
    """The sum along axes, or of all elements.

    The dtype is kept: convert narrow floats first where their precision does not suffice.
    """


@builtin
def mean(x: Tile[D], axis: Axes = None, keepdims: bool = False) -> Tile[D]:
    """The mean along axes, or of all elements, of floats.

    f16 and bf16 are summed in f32. Padding of a load counts as elements.
    """


@builtin
def prod(x: Tile[D], axis: Axes = None, keepdims: bool = False) -> Tile[D]:
    """The product along axes, or of all elements; the dtype is kept."""


@builtin
def max(x: Tile[D], axis: Axes = None, keepdims: bool = False, *, nan: bool = False) -> Tile[D]:
    """The largest element along axes, or of all. `maximum` compares two tiles.

    A NaN loses against a number; with `nan=True` it wins.
    """


@builtin
def min(x: Tile[D], axis: Axes = None, keepdims: bool = False, *, nan: bool = False) -> Tile[D]:
    """The smallest element along axes, or of all. `minimum` compares two tiles.

    A NaN loses against a number; with `nan=True` it wins.
    """


@builtin
def any(x: Tile[Any], axis: Axes = None, keepdims: bool = False) -> Tile[bool_]:
    """Whether any element along axes is true; a non-zero number is true."""


@builtin
def all(x: Tile[Any], axis: Axes = None, keepdims: bool = False) -> Tile[bool_]:
    """Whether every element along axes is true; a non-zero number is true."""


@builtin
def argmax(
    x: Tile[Any], axis: int | None = None, keepdims: bool = False, *, nan: bool = False
) -> Tile[i32]:
    """The index of the largest element along an axis, or of all in row-major order.

    Of equal elements the first counts. A NaN loses against every number; with `nan=True` the first
    NaN wins, as in NumPy.
    """


@builtin
def argmin(
    x: Tile[Any], axis: int | None = None, keepdims: bool = False, *, nan: bool = False
) -> Tile[i32]:
    """The index of the smallest element along an axis, or of all in row-major order.

    Of equal elements the first counts. A NaN loses against every number; with `nan=True` the first
    NaN wins, as in NumPy.
    """


@builtin
def cumsum(x: Tile[D], axis: int | None = None, *, reverse: bool = False) -> Tile[D]:
    """The running sum along an axis, each element included; `reverse` runs from the end.

    Without an axis the elements are taken in row-major order, and the result has one axis.
    """


@builtin
def cumprod(x: Tile[D], axis: int | None = None, *, reverse: bool = False) -> Tile[D]:
    """The running product along an axis, each element included; `reverse` runs from the end.

    Without an axis the elements are taken in row-major order, and the result has one axis.
    """


@overload
def reduce(
    x: Tile[D],
    f: Callable[[Any, Any], Any],
    identity: float,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tile[D]: ...
@overload
def reduce(
    x: tuple[Tile[Any], ...],
    f: Callable[..., Any],
    identity: tuple[float, ...],
    axis: Axes = None,
    keepdims: bool = False,
) -> tuple[Tile[Any], ...]: ...
@builtin
def reduce(
    x: Any, f: Callable[..., Any], identity: Any, axis: Axes = None, keepdims: bool = False
) -> Any:
    """Elements along axes combined by a function of two scalars: `lambda a, b: a + b`.

    The function is associative and commutative, the order of combination is free, and `identity` is
    its neutral element, a constant. The function is pure: no loads, stores, branches, or divisions
    that may be by zero. For a tuple of tiles of one shape, the function takes one scalar of each,
    then one of each again, and returns a tuple of as many.
    """


@overload
def scan(
    x: Tile[D],
    f: Callable[[Any, Any], Any],
    identity: float,
    axis: int | None = None,
    *,
    reverse: bool = False,
) -> Tile[D]: ...
@overload
def scan(
    x: tuple[Tile[Any], ...],
    f: Callable[..., Any],
    identity: tuple[float, ...],
    axis: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Tile[Any], ...]: ...
@builtin
def scan(
    x: Any, f: Callable[..., Any], identity: Any, axis: int | None = None, *, reverse: bool = False
) -> Any:
    """The running combination along an axis, each element included; `reverse` runs from the end.

    The function takes the combination so far and then the element, and is associative; otherwise as
    in `reduce`. Without an axis the elements are taken in row-major order, and the result has one
    axis.
    """

"""Selection between two values, element by element."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import Any, TypeVar, overload

from tilewright.dtypes import DType, bool_
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Operand, Tile

__all__ = [
    "clamp",
    "maximum",
    "minimum",
    "where",
]

D = TypeVar("D", bound=DType)


@overload
def minimum(a: Tile[D], b: Operand[D], *, nan: bool = False, ftz: bool = False) -> Tile[D]: ...
@overload
def minimum(a: D | float, b: Tile[D], *, nan: bool = False, ftz: bool = False) -> Tile[D]: ...
@overload
def minimum(a: D, b: D | float, *, nan: bool = False, ftz: bool = False) -> D: ...
@overload
def minimum(a: float, b: D, *, nan: bool = False, ftz: bool = False) -> D: ...
@overload
def minimum(a: int, b: int) -> int: ...
@builtin
def minimum(a: Any, b: Any, *, nan: bool = False, ftz: bool = False) -> Any:
    """The smaller of two values, element by element.

    A NaN loses against a number; with `nan=True` it wins. `ftz` flushes subnormal numbers to zero
    (f32 only).
    """


@overload
def maximum(a: Tile[D], b: Operand[D], *, nan: bool = False, ftz: bool = False) -> Tile[D]: ...
@overload
def maximum(a: D | float, b: Tile[D], *, nan: bool = False, ftz: bool = False) -> Tile[D]: ...
@overload
def maximum(a: D, b: D | float, *, nan: bool = False, ftz: bool = False) -> D: ...
@overload
def maximum(a: float, b: D, *, nan: bool = False, ftz: bool = False) -> D: ...
@overload
def maximum(a: int, b: int) -> int: ...
@builtin
def maximum(a: Any, b: Any, *, nan: bool = False, ftz: bool = False) -> Any:
    """The larger of two values, element by element.

    A NaN loses against a number; with `nan=True` it wins. `ftz` flushes subnormal numbers to zero
    (f32 only).
    """


@overload
def clamp(x: Tile[D], low: Operand[D], high: Operand[D]) -> Tile[D]: ...
@overload
def clamp(x: D, low: D | float, high: D | float) -> D: ...
@overload
def clamp(x: int, low: int, high: int) -> int: ...
@builtin
def clamp(x: Any, low: Any, high: Any) -> Any:
    """Every element clamped to `[low, high]`: `minimum(maximum(x, low), high)`."""


@overload
def where(condition: Tile[bool_] | bool_ | bool, x: Tile[D], y: Operand[D]) -> Tile[D]: ...
@overload
def where(condition: Tile[bool_] | bool_ | bool, x: D | float, y: Tile[D]) -> Tile[D]: ...
@overload
def where(condition: Tile[bool_], x: D, y: D | float) -> Tile[D]: ...
@overload
def where(condition: Tile[bool_], x: float, y: D) -> Tile[D]: ...
@overload
def where(condition: Tile[bool_], x: float, y: float) -> Tile[Any]: ...
@builtin
def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds and `y` elsewhere, element by element.

    Both are computed, and the result has the dtype of the one that has a dtype. Two numbers
    together behave like a literal: `tw.where(mask, 1, 0)` takes the dtype of the output or the tile
    that it meets; without one it is an i32, an f32 or a bool, by the type of the numbers.
    """

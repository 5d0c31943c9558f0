"""Arithmetic as functions, with the modifiers that an operator cannot take.

Without modifiers each is its operator, of integers too. `rounding` selects the rounding of a result
that the dtype cannot hold, `ftz` flushes subnormal numbers to zero (f32 only).
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import Any, TypeVar, overload

from tilewright.dtypes import DType
from tilewright.lang.builtin import builtin
from tilewright.lang.rounding import Direction, QuotientRounding
from tilewright.lang.tile import Operand, Tile

__all__ = ["add", "divide", "multiply", "subtract"]

D = TypeVar("D", bound=DType)


@overload
def add(
    a: Tile[D], b: Operand[D], *, rounding: Direction = "nearest", ftz: bool = False
) -> Tile[D]: ...
@overload
def add(
    a: D | float, b: Tile[D], *, rounding: Direction = "nearest", ftz: bool = False
) -> Tile[D]: ...
@overload
def add(a: D, b: D | float, *, rounding: Direction = "nearest", ftz: bool = False) -> D: ...
@builtin
def add(a: Any, b: Any, *, rounding: Direction = "nearest", ftz: bool = False) -> Any:
    """`a + b`."""


@overload
def subtract(
    a: Tile[D], b: Operand[D], *, rounding: Direction = "nearest", ftz: bool = False
) -> Tile[D]: ...
@overload
def subtract(
    a: D | float, b: Tile[D], *, rounding: Direction = "nearest", ftz: bool = False
) -> Tile[D]: ...
@overload
def subtract(a: D, b: D | float, *, rounding: Direction = "nearest", ftz: bool = False) -> D: ...
@builtin
def subtract(a: Any, b: Any, *, rounding: Direction = "nearest", ftz: bool = False) -> Any:
    """`a - b`."""


@overload
def multiply(
    a: Tile[D], b: Operand[D], *, rounding: Direction = "nearest", ftz: bool = False
) -> Tile[D]: ...
@overload
def multiply(
    a: D | float, b: Tile[D], *, rounding: Direction = "nearest", ftz: bool = False
) -> Tile[D]: ...
@overload
def multiply(a: D, b: D | float, *, rounding: Direction = "nearest", ftz: bool = False) -> D: ...
@builtin
def multiply(a: Any, b: Any, *, rounding: Direction = "nearest", ftz: bool = False) -> Any:
    """`a * b`."""


@overload
def divide(
    a: Tile[D], b: Operand[D], *, rounding: QuotientRounding = "nearest", ftz: bool = False
) -> Tile[D]: ...
@overload
def divide(
    a: D | float, b: Tile[D], *, rounding: QuotientRounding = "nearest", ftz: bool = False
) -> Tile[D]: ...
@overload
def divide(
    a: D, b: D | float, *, rounding: QuotientRounding = "nearest", ftz: bool = False
) -> D: ...
@builtin
def divide(a: Any, b: Any, *, rounding: QuotientRounding = "nearest", ftz: bool = False) -> Any:
    """`a / b` of floats; `rounding="approx"` and `"full"` are faster and less exact (f32 only)."""

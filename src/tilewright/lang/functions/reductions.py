"""Combining the elements along an axis."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import TypeVar

from tilewright.dtypes import DType
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Tile

__all__ = [
    "max",
    "min",
    "sum",
]

D = TypeVar("D", bound=DType)


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

"""Reinterpretation of bits as other elements."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import Any, TypeVar, overload

from tilewright.dtypes import DType, i8, u8
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Tile

__all__ = ["bitcast", "pack", "unpack"]

To = TypeVar("To", bound=DType)


@overload
def bitcast(x: Tile[Any], dtype: type[To]) -> Tile[To]: ...
@overload
def bitcast(x: DType, dtype: type[To]) -> To: ...
@builtin
def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of every element read as another dtype of the same width."""


@builtin
def pack(x: Tile[Any]) -> Tile[u8]:
    """The bytes of a tile, along its last axis.

    Two numbers of 4 bits make one byte, the first in the low half; a wider number makes several,
    the low one first.
    """


@builtin
def unpack(x: Tile[u8] | Tile[i8], dtype: type[To]) -> Tile[To]:
    """Bytes along the last axis as elements of a dtype: the inverse of `pack`."""

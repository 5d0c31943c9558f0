"""Tiles put together and taken apart."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex, TypeVar

from tilewright.dtypes import DType
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Tile

__all__ = ["cat", "extract", "insert", "join", "split"]

D = TypeVar("D", bound=DType)
Extents = SupportsIndex | Sequence[SupportsIndex]


@builtin
def cat(tiles: tuple[Tile[D], ...], axis: int = 0) -> Tile[D]:
    """Equal tiles one after the other along an axis; their number is a power of two."""


@builtin
def split(x: Tile[D], axis: int = -1, *, interleaved: bool = False) -> tuple[Tile[D], Tile[D]]:
    """The two halves of a tile along an axis: `tw.join` undoes it.

    `interleaved` takes every other element: those at even places, and those at odd ones.
    """


@builtin
def join(a: Tile[D], b: Tile[D], axis: int = -1, *, interleaved: bool = False) -> Tile[D]:
    """Two equal tiles as the halves of one along an axis: what `tw.split` takes apart.

    `interleaved` lets their elements take turns, the first of `a` before the first of `b`.
    """


@builtin
def extract(x: Tile[D], index: Extents, shape: Extents) -> Tile[D]:
    """One of the equal parts of this shape that a tile divides into.

    `index` numbers the parts along each axis (not the elements). It is checked like the index of a
    load: one that is outside reads the nearest part, and is reported.
    """


@builtin
def insert(x: Tile[D], part: Tile[D], index: Extents) -> Tile[D]:
    """The tile with one of the parts that it divides into replaced, by the part's number.

    The index is checked like that of a store: one that is outside replaces nothing, and is
    reported.
    """

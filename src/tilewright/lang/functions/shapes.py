"""Tiles put together and taken apart."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar

from tilewright.dtypes import DType, i32
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Tile

__all__ = [
    "argsort", "cat", "extract", "insert", "join", "sort", "split", "take_along_axis", "top_k",
]  # fmt: skip

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


@builtin
def sort(x: Tile[D], axis: int | None = -1, *, descending: bool = False) -> Tile[D]:
    """The elements along an axis in order, from the least on; of equal ones the first stays first.

    NaN comes last, as in NumPy, and first with `descending`; zeros of both signs are equal. Without
    an axis the elements are taken in row-major order. Up to 2048 elements along the axis.
    """


@builtin
def argsort(x: Tile[Any], axis: int | None = -1, *, descending: bool = False) -> Tile[i32]:
    """Where the elements along an axis stand that `sort` puts in order."""


@builtin
def top_k(x: Tile[D], k: SupportsIndex, axis: int | None = -1) -> tuple[Tile[D], Tile[i32]]:
    """The `k` greatest elements along an axis, the greatest first, and where they stand.

    `k` is a power of two. Of equal elements the first comes first, and NaN counts as the greatest,
    as in torch.
    """


@builtin
def take_along_axis(
    x: Tile[D], indices: Tile[Any], axis: int = -1, *, padding: float | D = 0
) -> Tile[D]:
    """The elements at these places along an axis: `x[i, indices[i, j]]` for axis 1 of a matrix.

    `indices` are integers, in the shape of `x` but for that axis. A place outside gives `padding`;
    -1 is outside, not the last element. It takes as many comparisons as there are places times
    elements: for long axes load with `gather`.
    """

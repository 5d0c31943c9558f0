"""Shapes: tiles concatenated, split, sorted and indexed."""

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
    """Equal tiles concatenated along an axis; their number is a power of two."""


@builtin
def split(x: Tile[D], axis: int = -1, *, interleaved: bool = False) -> tuple[Tile[D], Tile[D]]:
    """The two halves of a tile along an axis: the inverse of `tw.join`.

    `interleaved` gives every other element: those at even positions, and those at odd ones.
    """


@builtin
def join(a: Tile[D], b: Tile[D], axis: int = -1, *, interleaved: bool = False) -> Tile[D]:
    """Two equal tiles as the halves of one along an axis: the inverse of `tw.split`.

    `interleaved` alternates their elements, the first of `a` before the first of `b`.
    """


@builtin
def extract(x: Tile[D], index: Extents, shape: Extents) -> Tile[D]:
    """One of the equal parts of this shape that a tile divides into.

    `index` numbers the parts along each axis (not the elements). It is checked like the index of a
    load: an index outside reads the nearest part, and is reported.
    """


@builtin
def insert(x: Tile[D], part: Tile[D], index: Extents) -> Tile[D]:
    """The tile with one of its equal parts replaced, by the part's index.

    The index is checked like that of a store: an index outside replaces nothing, and is reported.
    """


@builtin
def sort(x: Tile[D], axis: int | None = -1, *, descending: bool = False) -> Tile[D]:
    """The elements along an axis in ascending order; equal elements keep their order.

    NaN comes last, as in NumPy, and first with `descending`; zeros of both signs are equal. Without
    an axis the elements are taken in row-major order. Up to 2048 elements along the axis.
    """


@builtin
def argsort(x: Tile[Any], axis: int | None = -1, *, descending: bool = False) -> Tile[i32]:
    """The indices of the sorted elements along an axis, as `sort` orders them."""


@builtin
def top_k(x: Tile[D], k: SupportsIndex, axis: int | None = -1) -> tuple[Tile[D], Tile[i32]]:
    """The `k` greatest elements along an axis, the greatest first, and their indices.

    `k` is a power of two. Of equal elements the first comes first, and NaN counts as the greatest,
    as in torch.
    """


@builtin
def take_along_axis(
    x: Tile[D], indices: Tile[Any], axis: int = -1, *, padding: float | D = 0
) -> Tile[D]:
    """The elements at these indices along an axis: `x[i, indices[i, j]]` for axis 1 of a matrix.

    `indices` are integers, in the shape of `x` but for that axis. An index outside gives `padding`;
    -1 is outside, not the last element. The number of comparisons is indices times elements: for
    long axes load with `gather`.
    """

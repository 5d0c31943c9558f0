"""Creation of tiles. On the host the same functions make tensors, so their type is `Any`."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar

from tilewright.dtypes import DType, i32
from tilewright.lang.builtin import builtin
from tilewright.lang.tile import Tile

__all__ = [
    "arange",
    "full",
    "ones",
    "rand",
    "rand4x",
    "zeros",
]

D = TypeVar("D", bound=DType)


@builtin
def zeros(shape: Sequence[SupportsIndex], dtype: type[DType]) -> Any:
    """Zeros in this shape.

    In a kernel the result is a tile, whose extents are powers of two known at compile time; on the
    host it is a tensor of any shape.
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

    Element `n` in row-major order is a function of `seed` and `offset + n` alone (Philox 4x32-10),
    so the same call gives the same numbers on every device, in every run and for every partition
    into tiles. Seed and offset may be scalars of the kernel; they count modulo 2**64.
    """


@builtin
def rand4x(
    places: Tile[Any], dtype: type[D], *, seed: SupportsIndex = 0
) -> tuple[Tile[D], Tile[D], Tile[D], Tile[D]]:
    """Four tiles of floats spread evenly over [0, 1), at the cost of one `rand`.

    Each element is a function of `seed` and the integer at its position in `places` alone; the
    first tile has the numbers of `rand` at these offsets. f16, bf16 or f32.
    """

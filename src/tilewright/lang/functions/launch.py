"""What a kernel can ask about its launch, and what it can demand of it."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import SupportsIndex

from tilewright.lang.builtin import builtin

__all__ = [
    "block_id",
    "cdiv",
    "next_power_of_2",
    "num_blocks",
    "require",
    "static_assert",
    "static_range",
]


@builtin
def block_id(axis: int = 0) -> int:
    """This block's place along an axis of the grid."""


@builtin
def num_blocks(axis: int = 0) -> int:
    """The blocks along an axis of the grid."""


@builtin
def cdiv(a: SupportsIndex, b: SupportsIndex) -> int:
    """`a / b` rounded up, exactly: how many parts of size `b` cover `a`.

    Of tiles and scalars of every integer dtype, and of constants; on the host of Python's integers.
    """


@builtin
def next_power_of_2(n: SupportsIndex) -> int:
    """The least power of two that is not below `n`, a compile-time value: an extent of a tile.

    On the host of any integer. Of zero and below it is 1.
    """


@builtin
def require(condition: bool) -> None:
    """State what a launch must satisfy: `tw.require(K % 64 == 0)`.

    The condition is over dims, scalars and the grid. It is checked before every launch, which it
    refuses when it does not hold, and is a known fact in the rest of the kernel.
    """


@builtin
def static_assert(condition: bool, message: str = "") -> None:
    """Refuse to compile the kernel unless the condition, a compile-time value, holds."""


@builtin
def static_range(start: int, stop: int | None = None, step: int = 1, /) -> range:
    """The numbers of `range(…)`, all compile-time values: a loop over them is unrolled.

    They may index tuples and `.shape`, and choose tile shapes.
    """

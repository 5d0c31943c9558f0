"""The launch in a kernel: block indices, grid extents, preconditions."""

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
    """This block's index along an axis of the grid."""


@builtin
def num_blocks(axis: int = 0) -> int:
    """Number of blocks along an axis of the grid."""


@builtin
def cdiv(a: SupportsIndex, b: SupportsIndex) -> int:
    """`a / b` rounded up, exactly: the number of parts of size `b` that cover `a`.

    For tiles and scalars of every integer dtype, and for constants; on the host for Python's
    integers.
    """


@builtin
def next_power_of_2(n: SupportsIndex) -> int:
    """The least power of two that is not below `n`, a compile-time value: an extent of a tile.

    On the host for any integer. For zero and below it is 1.
    """


@builtin
def require(condition: bool) -> None:
    """State a precondition of the launch: `tw.require(K % 64 == 0)`.

    The condition is over dims, scalars and the grid. Every launch checks it, one without a block
    included, and is refused when it does not hold; in the kernel it is a fact.
    """


@builtin
def static_assert(condition: bool, message: str = "") -> None:
    """Refuse to compile the kernel unless the condition, a compile-time value, holds."""


@builtin
def static_range(start: int, stop: int | None = None, step: int = 1, /) -> range:
    """The numbers of `range(…)`, all compile-time values: a loop over them is unrolled.

    They may index tuples and `.shape`, and choose tile shapes.
    """

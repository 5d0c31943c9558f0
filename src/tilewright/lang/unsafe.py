"""The public names of unsafe kernel code: the block, assumptions, loads and stores by pointer.

Every function but `unsafe` itself is refused outside `with tw.unsafe("why this is sound"):`, a
lexical block: a helper that is called from it needs its own. The front end recognises each function
by its object; none has a body.
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal, TypeAlias, TypeVar

from tilewright.dtypes import DType
from tilewright.lang.builtin import builtin
from tilewright.lang.pointers import Ptr
from tilewright.lang.tile import Mask, Operand, Tile

__all__ = [
    "assume",
    "assume_bounds",
    "assume_divisible",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "load",
    "store",
    "unsafe",
]

D = TypeVar("D", bound=DType)
Countable = TypeVar("Countable", bound=Tile[Any] | DType | Ptr[Any] | int)

Scope: TypeAlias = Literal["block", "device", "system"]
LoadOrder: TypeAlias = Literal["weak", "relaxed", "acquire"]
StoreOrder: TypeAlias = Literal["weak", "relaxed", "release"]
AtomicOrder: TypeAlias = Literal["relaxed", "acquire", "release", "acquire_release"]


@builtin
def unsafe(reason: str) -> AbstractContextManager[None]:
    """Allow unchecked operations in this block: `with tw.unsafe("why it is sound"):`.

    The reason is a string literal, for readers and for `tilewright check`, which lists it.
    """


# --- assumptions ----------------------------------------------------------------------------------


@builtin
def assume(condition: bool) -> None:
    """Promise that a condition on scalars holds here; the compiler relies on it from here on.

    A false promise is undefined behaviour on a GPU. The CPU device reports it.
    """


@builtin
def assume_bounds(x: Countable, lower: int | None = None, upper: int | None = None) -> Countable:
    """`x`, with the promise that every element lies in `[lower, upper]`, ends included."""


@builtin
def assume_divisible(x: Countable, divisor: int) -> Countable:
    """`x`, with the promise that every element is a multiple of a power of two.

    For pointers the divisor counts bytes.
    """


# --- memory ---------------------------------------------------------------------------------------


@builtin
def load(
    pointers: Ptr[D],
    *,
    mask: Mask = None,
    padding: D | float = 0,
    ordering: LoadOrder = "weak",
    scope: Scope = "device",
) -> Tile[D]:
    """The elements that pointers point to; where the mask is false, `padding`.

    An `ordering` other than "weak" makes the access one that blocks may synchronise by; `scope` is
    the set of blocks that see it in order.
    """


@builtin
def store(
    pointers: Ptr[D],
    values: Operand[D],
    *,
    mask: Mask = None,
    ordering: StoreOrder = "weak",
    scope: Scope = "device",
) -> None:
    """Write values through pointers; elements whose mask is false are not written."""


@builtin
def atomic_add(
    pointers: Ptr[D],
    values: Operand[D],
    *,
    mask: Mask = None,
    ordering: AtomicOrder = "relaxed",
    scope: Scope = "device",
) -> Tile[D]:
    """Add to memory, each element atomically; returns the old values.

    For integers of 32 and 64 bits, f16, f32 and f64, and bf16 from sm_90 on. Elements whose mask is
    false are not touched, and their results are undefined.
    """


@builtin
def atomic_min(
    pointers: Ptr[D],
    values: Operand[D],
    *,
    mask: Mask = None,
    ordering: AtomicOrder = "relaxed",
    scope: Scope = "device",
) -> Tile[D]:
    """Keep the smaller integer in memory, as `atomic_add` adds."""


@builtin
def atomic_max(
    pointers: Ptr[D],
    values: Operand[D],
    *,
    mask: Mask = None,
    ordering: AtomicOrder = "relaxed",
    scope: Scope = "device",
) -> Tile[D]:
    """Keep the larger integer in memory, as `atomic_add` adds."""


@builtin
def atomic_and(
    pointers: Ptr[D],
    values: Operand[D],
    *,
    mask: Mask = None,
    ordering: AtomicOrder = "relaxed",
    scope: Scope = "device",
) -> Tile[D]:
    """`&` an integer in memory with a value, as `atomic_add` adds."""


@builtin
def atomic_or(
    pointers: Ptr[D],
    values: Operand[D],
    *,
    mask: Mask = None,
    ordering: AtomicOrder = "relaxed",
    scope: Scope = "device",
) -> Tile[D]:
    """`|` an integer in memory with a value, as `atomic_add` adds."""


@builtin
def atomic_xor(
    pointers: Ptr[D],
    values: Operand[D],
    *,
    mask: Mask = None,
    ordering: AtomicOrder = "relaxed",
    scope: Scope = "device",
) -> Tile[D]:
    """`^` an integer in memory with a value, as `atomic_add` adds."""


@builtin
def atomic_xchg(
    pointers: Ptr[D],
    values: Operand[D],
    *,
    mask: Mask = None,
    ordering: AtomicOrder = "relaxed",
    scope: Scope = "device",
) -> Tile[D]:
    """Replace numbers of 32 or 64 bits in memory, as `atomic_add` adds."""


@builtin
def atomic_cas(
    pointers: Ptr[D],
    expected: Operand[D],
    desired: Operand[D],
    *,
    mask: Mask = None,
    ordering: AtomicOrder = "relaxed",
    scope: Scope = "device",
) -> Tile[D]:
    """Replace numbers of 32 or 64 bits where memory equals the expected ones, bit by bit.

    Returns the old values: equal to `expected` where the replacement took place.
    """

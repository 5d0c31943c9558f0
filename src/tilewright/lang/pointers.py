"""`Ptr`: raw pointers, as type checkers and readers see them.

A kernel gets pointers as parameters only if it is declared `@tw.kernel(unsafe=True)`, and uses them
only inside `with tw.unsafe("why this is sound"):`. Accesses through pointers are in `unsafe`:
`tw.load`, `tw.store` and the atomics. Addresses are unchecked; the CPU device reports one that lies
outside the tensors of the launch, and never uses it.
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import Any, Generic, SupportsIndex, TypeVar

from tilewright.dtypes import DType
from tilewright.lang.outside import InKernel
from tilewright.lang.tile import AxisSelection, Extents, Tile

__all__ = ["Ptr"]

D = TypeVar("D", bound=DType)

Offset = Tile[Any] | SupportsIndex | DType


class Ptr(InKernel, Generic[D]):
    """A pointer to elements of a dtype, or a tile of such pointers.

    As a parameter it is the address of a tensor's first element. Offsets count elements and
    broadcast as in NumPy: `p + tw.arange(128)` is a tile of 128 pointers.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, known when the kernel is compiled; empty for a single pointer."""

    @property
    def dtype(self) -> type[D]:
        """The type of the elements pointed to."""

    def reshape(self, *shape: Extents) -> Ptr[D]:
        """The same pointers in row-major order, in another shape."""

    def broadcast_to(self, *shape: Extents) -> Ptr[D]:
        """Axes of extent one repeated, and leading axes added, to get this shape."""

    def __getitem__(self, index: AxisSelection | tuple[AxisSelection, ...], /) -> Ptr[D]:
        """`p[:, None]`: the same pointers with axes of extent one added."""

    def __add__(self, offset: Offset, /) -> Ptr[D]:
        """Pointers moved by so many elements."""

    __radd__ = __sub__ = __add__

"""`Accum`: a tensor that all blocks add to, as kernel authors and type checkers see it.

Methods have a docstring and no body, as in `annotations`. An accumulator has no read: its contents
are undefined before the launch ends, since other blocks add to it.
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from typing import Any, Generic, SupportsIndex, TypeVar, TypeVarTuple

from tilewright.dtypes import DType
from tilewright.lang.outside import InKernel
from tilewright.lang.tile import Mask, Operand, Tile

__all__ = ["Accum"]

D = TypeVar("D", bound=DType)
Dims = TypeVarTuple("Dims")

Elements = Tile[Any] | DType | SupportsIndex


class Accum(InKernel, Generic[D, *Dims]):
    """A tensor that every block may accumulate into, element by element, and none may read.

    Each parameter of a kernel has one kind of accumulation: then the order of the blocks does not
    matter, except for the rounding of float sums. A tile is placed as in a partition into tiles of
    its shape, and elements over the edge are dropped; a number is a tile of one element.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the tensor."""

    @property
    def dtype(self) -> type[D]:
        """The type of the elements."""

    def add(self, tile: Operand[D], *index: SupportsIndex) -> None:
        """Add a tile to the one at this index, one number for each axis."""

    def add_at(self, values: Operand[D], *index: Elements, mask: Mask = None) -> None:
        """Add to single elements, one integer tile for each axis, broadcast as in NumPy.

        An element that several indices name gets all of their values; an index outside the tensor,
        and one where `mask` is false, adds nothing.
        """

    def min(self, tile: Operand[D], *index: SupportsIndex) -> None:
        """Keep the minimum of each element and the tile's; integers of 32 or 64 bits."""

    def min_at(self, values: Operand[D], *index: Elements, mask: Mask = None) -> None:
        """Keep the minimum of each value and its element; indices as for `add_at`."""

    def max(self, tile: Operand[D], *index: SupportsIndex) -> None:
        """Keep the maximum of each element and the tile's; integers of 32 or 64 bits."""

    def max_at(self, values: Operand[D], *index: Elements, mask: Mask = None) -> None:
        """Keep the maximum of each value and its element; indices as for `add_at`."""

    def and_(self, tile: Operand[D], *index: SupportsIndex) -> None:
        """Clear the bits that are clear in the tile; integers of 32 or 64 bits."""

    def and_at(self, values: Operand[D], *index: Elements, mask: Mask = None) -> None:
        """Clear the bits that are clear in each value; indices as for `add_at`."""

    def or_(self, tile: Operand[D], *index: SupportsIndex) -> None:
        """Set the bits that are set in the tile; integers of 32 or 64 bits."""

    def or_at(self, values: Operand[D], *index: Elements, mask: Mask = None) -> None:
        """Set the bits that are set in each value; indices as for `add_at`."""

    def xor(self, tile: Operand[D], *index: SupportsIndex) -> None:
        """Flip the bits that are set in the tile; integers of 32 or 64 bits."""

    def xor_at(self, values: Operand[D], *index: Elements, mask: Mask = None) -> None:
        """Flip the bits that are set in each value; indices as for `add_at`."""

"""What a kernel's parameters can be: `Ref`, `Mut`, `Mapped`, `Const`, and what they give access to.

The first argument of an annotation is a dtype, the others are dims or fixed extents; at run time
`typing.get_origin` and `typing.get_args` take it apart. Methods have a docstring and no body:
kernels are read, never run. What may be written, and where, is checked by the front end; that a
`Ref` has no `store` is something every type checker can see as well.
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Generic, SupportsIndex, TypeVar, TypeVarTuple

from tilewright.dtypes import DType
from tilewright.lang.outside import InKernel
from tilewright.lang.tile import Tile

__all__ = ["Const", "Index", "Mapped", "Mut", "MutPartition", "Partition", "Ref"]

D = TypeVar("D", bound=DType)
Dims = TypeVarTuple("Dims")


class Ref(InKernel, Generic[D, *Dims]):
    """A tensor that every block may read and none may write."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the tensor."""

    @property
    def dtype(self) -> type[D]:
        """The type of the elements."""

    def partition(self, *tile: SupportsIndex, padding: float = 0.0) -> Partition[D]:
        """The tensor cut into tiles of this shape.

        Elements beyond the edge of the tensor read as `padding`: zero or, for floats, also -0.0,
        an infinity or NaN.
        """

    def load_like(self, output: Mut[Any, *tuple[Any, ...]], *, padding: float = 0.0) -> Tile[D]:
        """The tile at the place of this block's piece of `output`.

        Both tensors must have the same shape, which every launch checks. Elements beyond the edge
        read as `padding`, as in `partition`.
        """


class Partition(InKernel, Generic[D]):
    """A tensor cut into tiles, for reading."""

    def __getitem__(self, index: SupportsIndex | tuple[SupportsIndex, ...], /) -> Tile[D]:
        """Load the tile at this place, one index for each axis."""

    def num_tiles(self, axis: int) -> int:
        """Tiles along an axis, the last one possibly hanging over the edge."""


class Mut(InKernel, Generic[D, *Dims]):
    """This block's piece of an output, which no other block reads or writes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole tensor."""

    @property
    def tile(self) -> tuple[int, ...]:
        """Extents of the piece."""

    @property
    def index(self) -> tuple[int, ...]:
        """The place of the piece, counted in pieces along each axis."""

    @property
    def dtype(self) -> type[D]:
        """The type of the elements."""

    def load(self) -> Tile[D]:
        """The piece as it is now."""

    def store(self, tile: Tile[D]) -> None:
        """Overwrite the piece; what hangs over the edge of the tensor is dropped."""

    def partition(self, *part: SupportsIndex) -> MutPartition[D]:
        """The piece cut into parts of this shape."""


class MutPartition(InKernel, Generic[D]):
    """This block's piece of an output cut into parts, for reading and writing."""

    def __getitem__(self, index: SupportsIndex | tuple[SupportsIndex, ...], /) -> Tile[D]:
        """Load the part at this place of the piece, one index for each axis."""

    def store(self, tile: Tile[D], *index: SupportsIndex) -> None:
        """Overwrite the part at this place of the piece."""

    def num_tiles(self, axis: int) -> int:
        """Parts along an axis that begin inside the tensor."""


class Index(InKernel):
    """One place of a walk. It unpacks into numbers; only the walk itself makes one."""

    def __iter__(self) -> Iterator[int]:
        """`i, j = at`: one number for each axis, counted in tiles."""

    def __getitem__(self, axis: int, /) -> int:
        """The number of one axis."""


class Mapped(InKernel, Generic[D, *Dims]):
    """An output whose tiles are dealt out to the blocks; each block walks its own share."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole tensor."""

    @property
    def tile(self) -> tuple[int, ...]:
        """Extents of one tile."""

    @property
    def dtype(self) -> type[D]:
        """The type of the elements."""

    def indices(self) -> Iterator[Index]:
        """The places of this block's tiles, one after another: `for at in z.indices():`."""

    def load(self, at: Index) -> Tile[D]:
        """The tile at a place of the walk, as it is now."""

    def store(self, tile: Tile[D], at: Index) -> None:
        """Overwrite the tile at a place of the walk."""


if TYPE_CHECKING:
    _Value = TypeVar("_Value")
    Const = Annotated[_Value, "known when the kernel is compiled"]
else:

    class Const(InKernel):
        """A keyword parameter whose value the kernel is compiled for: `BK: Const[int] = 64`."""

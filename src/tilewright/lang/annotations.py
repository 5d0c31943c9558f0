"""Annotations of a kernel's parameters: `Ref`, `Mut`, `Mapped`, `Const`, and their methods.

The first argument of an annotation is a dtype, the others are dims or fixed extents; at run time
`typing.get_origin` and `typing.get_args` take it apart. Methods have a docstring and no body:
kernels are compiled, never run as Python. The front end checks ownership and bounds; that a `Ref`
has no `store` is visible to type checkers as well.
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    SupportsIndex,
    TypeVar,
    TypeVarTuple,
    overload,
)

from tilewright.dtypes import DType, bool_
from tilewright.lang.outside import InKernel
from tilewright.lang.tile import Mask, Tile

__all__ = ["Const", "Index", "Mapped", "Mut", "MutPartition", "Partition", "Ref"]

D = TypeVar("D", bound=DType)
Dims = TypeVarTuple("Dims")

Range = tuple[SupportsIndex, SupportsIndex]  # start, and stop (exclusive)


class Ref(InKernel, Generic[D, *Dims]):
    """A tensor that every block may read and none may write."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the tensor."""

    @property
    def dtype(self) -> type[D]:
        """The type of the elements."""

    def __getitem__(
        self, index: SupportsIndex | tuple[SupportsIndex, ...], /
    ) -> Ref[D, *tuple[Any, ...]]:
        """The tensor at an index of its first axes, with the remaining axes: `q[b, h]`.

        Each index is checked like that of a tile. `q[b, h].partition(BM, D)[i, 0]` is a tile of two
        axes, and `x[i].item()` is one element.
        """

    def partition(
        self,
        *tile: SupportsIndex,
        order: tuple[SupportsIndex, ...] | None = None,
        padding: float = 0.0,
        exact: bool = False,
        whole: bool = False,
    ) -> Partition[D]:
        """The tensor cut into tiles of this shape.

        Elements beyond the edge of the tensor read as `padding`: zero or, for floats, also -0.0,
        an infinity or NaN. With `order`, axis `a` of the partition and of its tiles runs along
        axis `order[a]` of the tensor: `order=(1, 0)` reads a matrix transposed. With
        `exact=True` every launch checks that tiles divide the tensor, and loads need no mask.
        With `whole=True` only the tiles that lie inside the tensor are part of the partition, and
        loads need no mask either; another partition reads the partial tile at the edge.
        """

    def windows(
        self,
        *tile: SupportsIndex,
        step: SupportsIndex | tuple[SupportsIndex, ...],
        start: SupportsIndex | tuple[SupportsIndex, ...] = 0,
        padding: float = 0.0,
    ) -> Partition[D]:
        """Tiles of this shape, one starting every `step` elements: they may overlap.

        Window `k` starts at element `k*step + start`; there is one for each element `k*step` of the
        tensor. `start`, for halos, is less than a tile away from 0, in either direction. Elements
        before the tensor or beyond its edge read as `padding`, as in `partition`, which is faster
        for tiles side by side.
        """

    def load_like(self, output: Mut[Any, *tuple[Any, ...]], *, padding: float = 0.0) -> Tile[D]:
        """The tile at the index of this block's piece of `output`.

        Both tensors must have the same shape, which every launch checks. Elements beyond the edge
        read as `padding`, as in `partition`.
        """

    @overload
    def gather(  # type: ignore[overload-overlap] # a tile is no index
        self,
        *index: SupportsIndex,
        mask: bool | bool_ | None = None,
        padding: float | D = 0,
        latency: int | None = None,
    ) -> D: ...
    @overload
    def gather(
        self,
        *index: SupportsIndex | Tile[Any],
        mask: bool | bool_ | Tile[bool_] | None = None,
        padding: float | D = 0,
        latency: int | None = None,
    ) -> Tile[D]: ...
    def gather(
        self,
        *index: SupportsIndex | Tile[Any],
        mask: bool | bool_ | Tile[bool_] | None = None,
        padding: float | D = 0,
        latency: int | None = None,
    ) -> Any:
        """The elements at these indices, one integer tile or scalar for each axis.

        They broadcast together as in NumPy; scalars give a scalar, `x.gather(i)`. An element whose
        index lies outside the tensor, or whose `mask` is false, is not read, and the result is
        `padding`; -1 is outside, not the last element.
        """

    def item(self) -> D:
        """The one element of a tensor without axes."""


class Partition(InKernel, Generic[D]):
    """A tensor seen as tiles, side by side or overlapping, for reading."""

    def __getitem__(self, index: SupportsIndex | tuple[SupportsIndex, ...], /) -> Tile[D]:
        """Load the tile at this index, one number for each axis."""

    def load(
        self,
        *index: SupportsIndex | tuple[SupportsIndex, ...],
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> Tile[D]:
        """Load the tile at this index, like `p[i, j]`, with hints to the assembler.

        `latency` (1 to 10) is the expected cost of the load, and so how far ahead to start it;
        `allow_tma` is whether the tensor memory accelerator may serve it.
        """

    def num_tiles(self, axis: int) -> int:
        """Tiles along an axis that begin inside the tensor; the last may hang over the edge."""

    def clip(self, index: SupportsIndex, axis: int) -> int:
        """The index clamped to the axis: an index read from memory becomes valid.

        A launch that is known to reach this checks that the axis is not empty. Under a guard, the
        kernel reports an empty axis as `OutOfBoundsError`: no index lies inside it.
        """

    def load_unchecked(self, *index: SupportsIndex) -> Tile[D]:
        """Load the tile at an unchecked index; only inside `with tw.unsafe(…)`."""


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
        """The index of the piece, counted in pieces along each axis.

        For an output cut by segments, the first two numbers are the segment and the piece in it.
        """

    @property
    def rows(self) -> tuple[int, int]:
        """Start and end of the piece along the first axis, in elements of the tensor."""

    @property
    def segment(self) -> tuple[int, int]:
        """Start and end of the piece's segment; without segments, of all rows."""

    @property
    def segments(self) -> int:
        """Number of segments of the rows, known at launch; 1 without segments.

        `tw.require(z.segments == E)` ties it to the extent of a tensor with an element for each:
        `z.index[0]` is then a valid index of it.
        """

    @property
    def dtype(self) -> type[D]:
        """The type of the elements."""

    def __getitem__(
        self, index: SupportsIndex | tuple[SupportsIndex, ...], /
    ) -> Mut[D, *tuple[Any, ...]]:
        """The piece without leading axes along which it has one element: `z[b, h]`.

        The indices are those of the piece, `b, h, i, _ = z.index`; others are refused.
        """

    def load(self) -> Tile[D]:
        """The current contents of the piece."""

    def store(self, tile: Tile[D], *, mask: Mask = None) -> None:
        """Overwrite the piece; elements over the edge of the tensor are dropped.

        Elements where `mask` is false keep their value.
        """

    def scatter(
        self, values: Tile[D] | D | float, *index: SupportsIndex | Tile[Any], mask: Mask = None
    ) -> None:
        """Overwrite single elements of the piece, one integer tile or scalar for each axis.

        Indices count from the first element of the piece, and broadcast together with the values.
        An element whose index lies outside the piece or the tensor, or whose `mask` is false, is
        not written. Of several values for one element, the last in row-major order is written.
        """

    def partition(
        self, *part: SupportsIndex, exact: bool = False, whole: bool = False
    ) -> MutPartition[D]:
        """The piece cut into parts of this shape.

        With `exact=True` every launch checks that parts divide the tensor: no access has a mask.
        With `whole=True` a partial part at the edge of a whole axis (`tw.All`) is left out, the
        launch checks the other axes, and no access has a mask.
        """


class MutPartition(InKernel, Generic[D]):
    """This block's piece of an output cut into parts, for reading and writing."""

    def __getitem__(self, index: SupportsIndex | tuple[SupportsIndex, ...], /) -> Tile[D]:
        """Load the part at this index of the piece, one number for each axis."""

    def store(self, tile: Tile[D], *index: SupportsIndex, mask: Mask = None) -> None:
        """Overwrite the part at this index of the piece, where `mask` is true."""

    def num_tiles(self, axis: int) -> int:
        """Parts along an axis that begin inside the tensor."""

    def load_unchecked(self, *index: SupportsIndex) -> Tile[D]:
        """Load the part at an unchecked index; only inside `with tw.unsafe(…)`.

        Indices count from the piece: outside `num_tiles` lie the pieces of other blocks.
        """

    def store_unchecked(self, tile: Tile[D], *index: SupportsIndex) -> None:
        """Overwrite the part at an unchecked index; only inside `with tw.unsafe(…)`."""


class Index(InKernel):
    """One index of a walk. It unpacks into numbers; only the walk itself mints one."""

    def __iter__(self) -> Iterator[int]:
        """`i, j = at`: one number for each axis, counted in tiles."""

    def __getitem__(self, axis: int, /) -> int:
        """The number of one axis."""


class Mapped(InKernel, Generic[D, *Dims]):
    """An output whose tiles are distributed over the blocks; each block walks its own share."""

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
        """The indices of this block's tiles, one after another: `for at in z.indices():`."""

    def indices_within(self, *ranges: Range | None) -> Iterator[Index]:
        """The indices of this block's share of a range of the tiles.

        For each axis `(start, stop)`, counted in tiles, or None for all of it. Tiles outside the
        output are not visited. The range must be the same in all blocks and at every visit.
        """

    def indices_with(
        self,
        *others: Mapped[Any, *tuple[Any, ...]],
        within: tuple[Range | None, ...] | None = None,
    ) -> Iterator[Index]:
        """One walk of several outputs with the same grid: its indices are valid for each of them.

        The launch checks that they have the same number of tiles along each axis. `within` are
        ranges as in `indices_within`.
        """

    def piece(self, at: Index) -> Mut[D, *Dims]:
        """This block's piece at an index of the walk, to be used like a `Mut` inside the loop."""

    def load(self, at: Index) -> Tile[D]:
        """The current tile at an index of the walk."""

    def store(self, tile: Tile[D], at: Index, *, mask: Mask = None) -> None:
        """Overwrite the tile at an index of the walk, where `mask` is true."""


if TYPE_CHECKING:
    _Value = TypeVar("_Value")
    Const = Annotated[_Value, "known when the kernel is compiled"]
else:

    class Const(InKernel):
        """A compile-time keyword parameter: `BK: Const[int] = 64`.

        Without a default, a constant that is also a dim of a tensor may be left out of a call: it
        is the tensor's extent. A dtype is a `Const[type[DType]]`: the class itself, also for type
        checkers.
        """

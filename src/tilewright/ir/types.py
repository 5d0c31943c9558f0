"""Types of Tile IR values: frozen, compared by structure, printed as `tileirdisasm` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

from tilewright.dtypes import Element

__all__ = [
    "MAX_TILE_ELEMENTS",
    "TOKEN",
    "FunctionType",
    "GatherScatterViewType",
    "Padding",
    "PartitionViewType",
    "PtrAttribute",
    "PtrType",
    "StridedViewType",
    "TensorViewType",
    "TileType",
    "TokenType",
    "Type",
    "ViewType",
    "elements_of",
    "scalar",
]

# Tile IR's limit on the elements of one tile.
MAX_TILE_ELEMENTS = 16_777_216


class Padding(Enum):
    """Value of loaded elements outside the tensor."""

    ZERO = 0
    NEG_ZERO = 1
    NAN = 2
    POS_INF = 3
    NEG_INF = 4


class PtrAttribute(Enum):
    """Attribute of a pointer; the only one so far has no semantics."""

    NONE = 0


@dataclass(frozen=True)
class PtrType:
    """Address of one element in global memory."""

    pointee: Element
    attribute: PtrAttribute | None = None

    def __str__(self) -> str:
        return f"ptr<{self.pointee.spelling}{_attributed(self.attribute, '')}>"


@dataclass(frozen=True)
class TileType:
    """An immutable block of elements (or pointers) with a static shape; rank 0 is a scalar."""

    element: Element | PtrType
    shape: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def with_shape(self, shape: tuple[int, ...]) -> TileType:
        """The same element in another shape."""
        return TileType(self.element, shape)

    def with_element(self, element: Element) -> TileType:
        """Another element in the same shape."""
        return TileType(element, self.shape)

    def __str__(self) -> str:
        inner = str(self.element) if isinstance(self.element, PtrType) else self.element.spelling
        return f"tile<{'x'.join([*map(str, self.shape), inner])}>"


@dataclass(frozen=True)
class TensorViewType:
    """A tensor in global memory. None is an extent or a stride known only at launch."""

    element: Element
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    attribute: PtrAttribute | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __str__(self) -> str:
        shape = "".join(f"{_dynamic(extent)}x" for extent in self.shape)
        strides = ",".join(_dynamic(stride) for stride in self.strides)
        tail = f", strides=[{strides}]" if self.shape else ""
        said = _attributed(self.attribute, "#cuda_tile.ptr_attr")
        return f"tensor_view<{shape}{self.element.spelling}{tail}{said}>"


class Tiled:
    """Fields that all views cut into tiles share."""

    tile: tuple[int, ...]
    view: TensorViewType

    @property
    def tile_type(self) -> TileType:
        """Type of one loaded tile."""
        return TileType(self.view.element, self.tile)

    @property
    def index_rank(self) -> int:
        """Number of indices that select one tile."""
        return len(self.tile)


@dataclass(frozen=True)
class PartitionViewType(Tiled):
    """A tensor view cut into tiles. Tile axis `a` runs along view axis `dim_map[a]`."""

    tile: tuple[int, ...]
    view: TensorViewType
    dim_map: tuple[int, ...]
    padding: Padding | None = None

    def __str__(self) -> str:
        parts = [_cut(self.tile), *_padded(self.padding), str(self.view), *_mapped(self.dim_map)]
        return f"partition_view<{', '.join(parts)}>"


@dataclass(frozen=True)
class StridedViewType(Tiled):
    """Tiles of a tensor view that start every `traversal_strides[a]` elements along tile axis `a`.

    Tiles overlap where the step is below the tile's extent, and leave gaps where it is above.
    """

    tile: tuple[int, ...]
    traversal_strides: tuple[int, ...]
    view: TensorViewType
    dim_map: tuple[int, ...]
    padding: Padding | None = None

    def __str__(self) -> str:
        steps = f"traversal_strides=[{','.join(map(str, self.traversal_strides))}]"
        parts = [_cut(self.tile), steps, *_padded(self.padding), str(self.view)]
        return f"strided_view<{', '.join([*parts, *_mapped(self.dim_map)])}>"


@dataclass(frozen=True)
class GatherScatterViewType(Tiled):
    """Tiles whose rows along axis `sparse_dim` are picked by a tile of indices."""

    tile: tuple[int, ...]
    view: TensorViewType
    sparse_dim: int
    padding: Padding | None = None

    def __str__(self) -> str:
        parts = [_cut(self.tile), *_padded(self.padding), str(self.view)]
        return f"gather_scatter_view<{', '.join([*parts, f'sparse_dim={self.sparse_dim}'])}>"


@dataclass(frozen=True)
class TokenType:
    """Order between memory operations of one block."""

    def __str__(self) -> str:
        return "token"


# The one token type.
TOKEN = TokenType()

# Views that loads and stores take tiles from.
ViewType = PartitionViewType | StridedViewType | GatherScatterViewType

# Types of SSA values.
Type = TileType | TensorViewType | ViewType | TokenType


@dataclass(frozen=True)
class FunctionType:
    """Parameters and results of an entry; not the type of any value."""

    params: tuple[Type, ...]
    results: tuple[Type, ...] = ()

    def __str__(self) -> str:
        params, results = (", ".join(map(str, types)) for types in (self.params, self.results))
        single = len(self.results) == 1
        return f"({params}) -> {results if single else f'({results})'}"


def scalar(element: Element | PtrType) -> TileType:
    """Return the rank-0 tile of an element."""
    return TileType(element)


def elements_of(type_: Type) -> tuple[Element, ...]:
    """Return the elements that a type holds or points to: one, or none for a token."""
    held: object = type_.view if isinstance(type_, ViewType) else type_
    if isinstance(held, TileType | TensorViewType):
        held = held.element
    if isinstance(held, PtrType):
        held = held.pointee
    return (held,) if isinstance(held, Element) else ()


def _cut(tile: tuple[int, ...]) -> str:
    return f"tile=({'x'.join(map(str, tile))})"


def _padded(padding: Padding | None) -> tuple[str, ...]:
    return () if padding is None else (f"padding_value = {padding.name.lower()}",)


def _mapped(dim_map: tuple[int, ...]) -> tuple[str, ...]:
    usual = dim_map == tuple(range(len(dim_map)))
    return () if usual else (f"dim_map=[{', '.join(map(str, dim_map))}]",)


def _attributed(attribute: PtrAttribute | None, prefix: str) -> str:
    return "" if attribute is None else f", {prefix}<{attribute.name.lower()}>"


def _dynamic(extent: int | None) -> str:
    return "?" if extent is None else str(extent)

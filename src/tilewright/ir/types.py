"""Types of Tile IR values: frozen, compared by structure, printed as `tileirdisasm` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

from tilewright.dtypes import Element

__all__ = [
    "MAX_TILE_ELEMENTS",
    "TOKEN",
    "Padding",
    "PartitionViewType",
    "PtrType",
    "TensorViewType",
    "TileType",
    "TokenType",
    "Type",
    "elements_of",
    "scalar",
]

# What Tile IR allows in one tile.
MAX_TILE_ELEMENTS = 16_777_216


class Padding(Enum):
    """What a load gives for elements outside the tensor."""

    ZERO = 0
    NEG_ZERO = 1
    NAN = 2
    POS_INF = 3
    NEG_INF = 4


@dataclass(frozen=True)
class PtrType:
    """Address of one element in global memory."""

    pointee: Element

    def __str__(self) -> str:
        return f"ptr<{self.pointee.spelling}>"


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

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __str__(self) -> str:
        shape = "".join(f"{_dynamic(extent)}x" for extent in self.shape)
        strides = ",".join(_dynamic(stride) for stride in self.strides)
        tail = f", strides=[{strides}]" if self.shape else ""
        return f"tensor_view<{shape}{self.element.spelling}{tail}>"


@dataclass(frozen=True)
class PartitionViewType:
    """A tensor view cut into tiles. Tile axis `a` runs along view axis `dim_map[a]`."""

    tile: tuple[int, ...]
    view: TensorViewType
    dim_map: tuple[int, ...]
    padding: Padding | None = None

    @property
    def tile_type(self) -> TileType:
        """What one load gives."""
        return TileType(self.view.element, self.tile)

    def __str__(self) -> str:
        parts = [f"tile=({'x'.join(map(str, self.tile))})"]
        if self.padding is not None:
            parts.append(f"padding_value = {self.padding.name.lower()}")
        parts.append(str(self.view))
        if self.dim_map != tuple(range(len(self.dim_map))):
            parts.append(f"dim_map=[{', '.join(map(str, self.dim_map))}]")
        return f"partition_view<{', '.join(parts)}>"


@dataclass(frozen=True)
class TokenType:
    """Order between memory operations of one block."""

    def __str__(self) -> str:
        return "token"


# The one token type.
TOKEN = TokenType()

# What a value can be.
Type = TileType | TensorViewType | PartitionViewType | TokenType


def scalar(element: Element | PtrType) -> TileType:
    """The rank-0 tile of an element."""
    return TileType(element)


def elements_of(type_: Type) -> tuple[Element, ...]:
    """The elements that a type holds or points to: one, or none for a token."""
    held: object = type_.view if isinstance(type_, PartitionViewType) else type_
    if isinstance(held, TileType | TensorViewType):
        held = held.element
    if isinstance(held, PtrType):
        held = held.pointee
    return (held,) if isinstance(held, Element) else ()


def _dynamic(extent: int | None) -> str:
    return "?" if extent is None else str(extent)

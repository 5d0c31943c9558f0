"""Launch terms: names of numbers known at launch (extents, strides, tile counts, scalars, grid).

The front end refers to these through `LaunchValue`; launch checks are evaluated over the same
terms on the host, so that a fact in the kernel and its check at launch cannot diverge.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BaseAddress",
    "Blocks",
    "Extent",
    "GridExtent",
    "LaunchTerm",
    "PointerArgument",
    "RecordAddress",
    "ScalarArgument",
    "Stride",
    "TileCount",
]


@dataclass(frozen=True)
class BaseAddress:
    """Address of a tensor's first element."""

    param: str


@dataclass(frozen=True)
class Extent:
    """Elements along one axis of a tensor."""

    param: str
    axis: int

    def __str__(self) -> str:
        return f"{self.param}.shape[{self.axis}]"


@dataclass(frozen=True)
class Stride:
    """Distance, in elements, between neighbours along one axis of a tensor."""

    param: str
    axis: int

    def __str__(self) -> str:
        return f"{self.param}.strides[{self.axis}]"


@dataclass(frozen=True)
class TileCount:
    """Number of tiles of extent `tile` along an axis; the last one may be partial."""

    param: str
    axis: int
    tile: int

    def __str__(self) -> str:
        return f"ceil({self.param}.shape[{self.axis}] / {self.tile})"


@dataclass(frozen=True)
class ScalarArgument:
    """A scalar argument of the launch."""

    param: str

    def __str__(self) -> str:
        return self.param


@dataclass(frozen=True)
class PointerArgument:
    """The address that a pointer argument of an unsafe kernel holds."""

    param: str


@dataclass(frozen=True)
class Blocks:
    """Total number of blocks of a launch."""

    def __str__(self) -> str:
        return "the number of blocks"


@dataclass(frozen=True)
class GridExtent:
    """Number of blocks along one axis of the grid, if no tile count defines it."""

    axis: int

    def __str__(self) -> str:
        return f"blocks along axis {self.axis}"


@dataclass(frozen=True)
class RecordAddress:
    """Address of the record that a failed check writes."""


# A number that the host knows at each launch.
LaunchTerm = (
    BaseAddress | Extent | Stride | TileCount | ScalarArgument | PointerArgument | Blocks
    | GridExtent | RecordAddress
)  # fmt: skip

"""Launch terms evaluated for one launch: extents, strides, counts, scalars and the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilewright.ir.launch_terms import (
    Blocks,
    Extent,
    GridExtent,
    LaunchTerm,
    ScalarArgument,
    Stride,
    TileCount,
)
from tilewright.runtime.memory.tensor import Tensor

__all__ = ["LaunchEnvironment"]


class LaunchEnvironment(Mapping[LaunchTerm, int]):
    """A lazy mapping from launch terms, addresses excepted, to their values in one launch."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        scalars: Mapping[str, int | float],
        grid: tuple[int, ...],
        blocks: int,
    ) -> None:
        self.tensors = tensors
        self.scalars = scalars
        self.grid = grid
        self.blocks = blocks

    def __getitem__(self, term: LaunchTerm) -> int:
        return int(_VALUES[type(term)](self, term))

    def __iter__(self) -> Iterator[LaunchTerm]:
        for name, tensor in self.tensors.items():
            for axis in range(len(tensor.shape)):
                yield Extent(name, axis)
                yield Stride(name, axis)
        yield from map(ScalarArgument, self.scalars)
        yield Blocks()
        yield from map(GridExtent, range(len(self.grid)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_VALUES: dict[type, Callable[[LaunchEnvironment, Any], int | float]] = {
    Extent: lambda launch, term: launch.tensors[term.param].shape[term.axis],
    Stride: lambda launch, term: launch.tensors[term.param].strides[term.axis],
    TileCount: lambda launch, term: -(-launch.tensors[term.param].shape[term.axis] // term.tile),
    ScalarArgument: lambda launch, term: launch.scalars[term.param],
    Blocks: lambda launch, _: launch.blocks,
    GridExtent: lambda launch, term: launch.grid[term.axis],
}

"""Launch terms evaluated for one launch: extents, strides, counts, scalars and the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from tilewright.ir.launch_terms import (
    BaseAddress,
    Blocks,
    Extent,
    GridExtent,
    LaunchTerm,
    PointerArgument,
    ScalarArgument,
    Stride,
    TileCount,
)
from tilewright.runtime.memory.tensor import Tensor

__all__ = ["LaunchEnvironment", "Numbers", "launch_number"]


class Numbers(Protocol):
    """The arguments and the grid of a launch: a binding, or the part of it that a plan has."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors by parameter name."""

    @property
    def scalars(self) -> Mapping[str, int | float]:
        """Scalars by parameter name."""

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of blocks along each grid axis."""

    @property
    def blocks(self) -> int:
        """The number of blocks in all."""


class LaunchEnvironment(Mapping[LaunchTerm, int]):
    """A lazy mapping from launch terms to their values in one launch."""

    def __init__(self, binding: Numbers) -> None:
        self._binding = binding

    def __getitem__(self, term: LaunchTerm) -> int:
        if type(term) not in _VALUES:
            raise KeyError(term)
        return int(launch_number(self._binding, term))

    def __iter__(self) -> Iterator[LaunchTerm]:
        for name, tensor in self._binding.tensors.items():
            for axis in range(len(tensor.shape)):
                yield Extent(name, axis)
                yield Stride(name, axis)
        yield from map(ScalarArgument, self._binding.scalars)
        yield Blocks()
        yield from map(GridExtent, range(len(self._binding.grid)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def launch_number(binding: Numbers, term: LaunchTerm) -> int | float:
    """The value of a term in one launch; an address needs allocated memory."""
    return _VALUES[type(term)](binding, term)


_VALUES: dict[type, Callable[[Numbers, Any], int | float]] = {
    BaseAddress: lambda binding, term: binding.tensors[term.param].address,
    PointerArgument: lambda binding, term: binding.tensors[term.param].address,
    Extent: lambda binding, term: binding.tensors[term.param].shape[term.axis],
    Stride: lambda binding, term: binding.tensors[term.param].strides[term.axis],
    TileCount: lambda binding, term: -(-binding.tensors[term.param].shape[term.axis] // term.tile),
    ScalarArgument: lambda binding, term: binding.scalars[term.param],
    Blocks: lambda binding, _: binding.blocks,
    GridExtent: lambda binding, term: binding.grid[term.axis],
}

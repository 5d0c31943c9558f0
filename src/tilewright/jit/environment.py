"""The numbers of one launch by the names the compiler knows them by."""

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
from tilewright.jit.binding import Binding

__all__ = ["LaunchEnvironment"]


class LaunchEnvironment(Mapping[LaunchTerm, int]):
    """Extents, strides, counts, scalars and the number of blocks, looked up when asked for."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding

    def __getitem__(self, term: LaunchTerm) -> int:
        rule = _VALUES.get(type(term))
        if rule is None:
            raise KeyError(term)
        return rule(self._binding, term)

    def __iter__(self) -> Iterator[LaunchTerm]:
        for name, tensor in self._binding.tensors.items():
            for axis in range(tensor.ndim):
                yield Extent(name, axis)
                yield Stride(name, axis)
        yield from map(ScalarArgument, self._binding.scalars)
        yield Blocks()
        yield from map(GridExtent, range(len(self._binding.grid)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_VALUES: dict[type, Callable[[Binding, Any], int]] = {
    Extent: lambda binding, term: binding.tensors[term.param].shape[term.axis],
    Stride: lambda binding, term: binding.tensors[term.param].strides[term.axis],
    TileCount: lambda binding, term: -(-binding.tensors[term.param].shape[term.axis] // term.tile),
    ScalarArgument: lambda binding, term: int(binding.scalars[term.param]),
    Blocks: lambda binding, _: binding.blocks,
    GridExtent: lambda binding, term: binding.grid[term.axis],
}

"""The numbers of one launch by the names the compiler knows them by."""

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

__all__ = ["Laid", "LaunchEnvironment", "Numbers", "launch_number"]


class Laid(Protocol):
    """How a tensor lies, and where."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours."""

    @property
    def address(self) -> int:
        """Where the first element lies."""


class Numbers(Protocol):
    """What is known of a launch: a binding, or what was kept of one."""

    @property
    def tensors(self) -> Mapping[str, Laid]:
        """The tensors by name."""

    @property
    def scalars(self) -> Mapping[str, int | float]:
        """The scalars by name."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Blocks along each axis."""

    @property
    def blocks(self) -> int:
        """All blocks."""


class LaunchEnvironment(Mapping[LaunchTerm, int]):
    """Extents, strides, counts, scalars and the number of blocks, looked up when asked for."""

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
    """What a term is in one launch; addresses are known when all bytes are allocated."""
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

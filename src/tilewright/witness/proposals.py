"""Proposals: small launches that might break a kernel, with extents, scalars, integers, grids.

The first proposals are the usual ones, with all axes equal; then come mixtures, drawn from a
generator with a fixed seed, so that the same kernel gets the same answer every time. Launches that
are refused are proposed as well: trying one costs little.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.dtypes import bool_, limits
from tilewright.frontend.signature.signature import ScalarParam, Signature

__all__ = ["IntegerContents", "Proposal", "axes_of", "proposals"]

_SEED = 20_26
_MIXTURES = 150
_GRIDS = {
    1: ((4,), (7,), (1,)),
    2: ((4, 1), (2, 3), (1, 4)),
    3: ((2, 2, 1), (2, 3, 2), (1, 1, 4)),
}  # by rank
_LARGE = 1000

Axis = str | tuple[str, int]  # a dim that axes share by name, or one axis of one tensor


@dataclass(frozen=True)
class IntegerContents:
    """Contents of the integer tensors: one number, or counting up from it."""

    start: int
    counts: bool = False

    def __str__(self) -> str:
        return f"{self.start}, {self.start + 1}, …" if self.counts else f"only {self.start}"


@dataclass(frozen=True)
class Proposal:
    """One launch, apart from the constants of its specialisation."""

    extents: Mapping[Axis, int]
    scalars: Mapping[str, int | float]
    fill: IntegerContents
    grid: tuple[int, ...]


def axes_of(signature: Signature) -> list[Axis]:
    """The extents that a launch is free to choose; an output has extents of its own."""
    found: dict[Axis, None] = {}
    for param in signature.tensors:
        for axis, dim in enumerate(param.extents):
            if dim is None:
                found[param.name, axis] = None
            elif isinstance(dim, str) and dim not in signature.static_dims:
                found[dim] = None
    return list(found)


def proposals(signature: Signature, tile: int, grid_rank: int) -> Iterator[Proposal]:
    """Launches to try, the likeliest first; `tile` is the extent of the usual tile."""
    grids = _GRIDS[grid_rank]
    axes = axes_of(signature)
    sizes = (2 * tile, 3 * tile - 1, tile, 4 * tile, 1, tile + 1)
    fills = (
        IntegerContents(0),
        IntegerContents(0, counts=True),
        IntegerContents(_LARGE),
        IntegerContents(-1),
    )
    for size in sizes[:2]:
        scalars = {param.name: _fitting(param, size) for param in signature.scalars}
        for fill in fills:
            for grid in grids[:2]:
                yield Proposal(dict.fromkeys(axes, size), scalars, fill, grid)
    draw = random.Random(_SEED)
    for turn in range(_MIXTURES):
        common = draw.choice(sizes)
        alone = turn % 3 == 0  # every third proposal has an independent extent for each axis
        extents = {axis: draw.choice(sizes) if alone else common for axis in axes}
        numbers = (0, 1, 2, 3, -1, common - 1, common, common + 1, tile, _LARGE)
        scalars = {param.name: _fitting(param, draw.choice(numbers)) for param in signature.scalars}
        yield Proposal(extents, scalars, draw.choice(fills), draw.choice(grids))


def _fitting(param: ScalarParam, number: int) -> int | float:
    """A number as a scalar of some dtype."""
    if param.dtype is bool_:
        return bool(number % 2)
    if not hasattr(param.dtype, "element"):  # a placeholder: its dtype is not known yet
        return abs(number) % 100
    if param.dtype.element.is_float:
        return float(number)
    low, high = limits(param.dtype)
    return int(min(max(number, low), high))

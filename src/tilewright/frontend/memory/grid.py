"""The logical grid in a kernel: its extents, and this block's index.

The grid is that of the first exact output (`Mut`), one axis for each of its axes, in the order and
direction of its partition; without one it is that of the call (`k.grid(n0, …)`), and for walked
outputs alone a line. The host has checked that every other output has a piece for each block.
"""

from __future__ import annotations

from tilewright.dtypes import i32
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Grid
from tilewright.frontend.signature.extents import tiles_along
from tilewright.frontend.signature.signature import MutParam, TensorParam
from tilewright.frontend.signature.specialization import TensorSpecialization
from tilewright.ir.launch_terms import Blocks, GridExtent
from tilewright.ir.op import Value
from tilewright.ir.ops.internal import BlockIndex

__all__ = ["make_grid", "piece_index"]


def make_grid(lo: Lowering) -> Grid:
    """The grid of this specialisation, with this block's index in it."""
    owner = _owner(lo)
    if owner is not None:
        param, spec = owner
        return _placed(lo, _counts_of_output(lo, param, spec), param.name, spec.descending)
    rank = lo.specialization.grid_rank
    if rank is not None:
        return _placed(lo, tuple(lo.launch_value(GridExtent(axis)) for axis in range(rank)))
    return _placed(lo, (lo.launch_value(Blocks()),))


def _owner(lo: Lowering) -> tuple[TensorParam, TensorSpecialization] | None:
    """The first output with exactly one piece for each block."""
    pairs = zip(lo.signature.tensors, lo.specialization.tensors, strict=True)
    exact = (pair for pair in pairs if isinstance(pair[0], MutParam) and not pair[1].is_prefix)
    return next(exact, None)


def _counts_of_output(
    lo: Lowering, param: TensorParam, spec: TensorSpecialization
) -> tuple[Value | None, ...]:
    counts = [
        None if tile is None else tiles_along(lo, param.name, axis, tile)
        for axis, tile in ((axis, spec.tile[axis]) for axis in spec.grid_axes)
    ]
    if spec.segments is not None:
        counts[0] = lo.launch_value(GridExtent(0))
    return tuple(counts)


def _placed(
    lo: Lowering,
    counts: tuple[Value | None, ...],
    owner: str = "",
    descending: tuple[int, ...] = (),
) -> Grid:
    """The grid with these extents; None is an axis with a single step."""
    counted = {axis: count for axis, count in enumerate(counts) if count is not None}
    backwards = tuple(at for at, axis in enumerate(counted) if axis in descending)
    numbered = BlockIndex(counts=tuple(counted.values()), descending=backwards, dtype=i32)
    places = iter(lo.builder.add(numbered).indices if counted else ())
    index = tuple(lo.builder.index(0) if count is None else next(places) for count in counts)
    for axis, place in enumerate(index):
        place.hint = f"{owner}.index[{axis}]" if owner else f"block_id({axis})"
    extents = tuple(lo.builder.index(1) if count is None else count for count in counts)
    return Grid(extents, index)


def piece_index(lo: Lowering, spec: TensorSpecialization) -> tuple[Value, ...]:
    """The index of this block's piece of an output, one number for each of its axes.

    Axes beyond the grid are trailing ones with a single step.
    """
    places = lo.grid.index
    along = {axis: places[at] for at, axis in enumerate(spec.grid_axes) if at < len(places)}
    return tuple(
        along[axis] if axis in along else lo.builder.index(0) for axis in range(len(spec.tile))
    )

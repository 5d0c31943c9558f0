"""Shared accumulation in a kernel: tiles and single elements combined into an Accum.

Each accumulation becomes a relaxed atomic of device scope with an unused old value, and one
parameter has one kind of it: then blocks, and the accumulations of one block, may run in any order.
A tile is placed by an index that is checked like that of a store; single elements outside the
tensor are dropped without a check.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NoReturn

from tilewright.check.errors.accumulation import (
    MixedAccumulation,
    NotAtomic,
    NotAtomicOnTarget,
    OnlyAccumulates,
)
from tilewright.check.errors.types import IndexCount, WrongOperand, WrongStoreDType
from tilewright.dtypes import DTYPES
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.atomic_modes import FIRST_TARGETS, atomic_mode, first_target_needed
from tilewright.frontend.memory.elements import elements_at, index_tiles, mask_tile
from tilewright.frontend.memory.tensors import checked, tile_count
from tilewright.frontend.operands.operands import AccumOperand, Operand, Static, TileOperand
from tilewright.frontend.operands.tiles import (
    as_tile,
    broadcast_together,
    check_tile_shape,
    reshaped,
)
from tilewright.ir.attributes import AtomicMode
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.ops.memory import AtomicRmw
from tilewright.ir.ops.views import AtomicRedView

__all__ = ["ACCUMULATIONS", "REFUSED", "refuse_read", "refuse_store"]

_OWN_RESULTS = "let each block store its own result to a Mut, and reduce those in a second launch"
_BITS = "bits are those of integers: declare it as u32, and convert the tile"


@dataclass(frozen=True)
class KindRow:
    """One kind of accumulation: its method, its verb, and the alternative on floats."""

    method: str
    mode: AtomicMode
    instead_on_floats: str  # where it is not atomic


class Accumulation(Enum):
    """The kinds of accumulation."""

    # fmt: off
    ADD = KindRow("add",  AtomicMode.ADD,
                  "accumulate in f32: declare it so and add `tile.astype(f32)`")
    MIN = KindRow("min",  AtomicMode.MIN, _OWN_RESULTS)
    MAX = KindRow("max",  AtomicMode.MAX, _OWN_RESULTS)
    AND = KindRow("and_", AtomicMode.AND, _BITS)
    OR  = KindRow("or_",  AtomicMode.OR,  _BITS)
    XOR = KindRow("xor",  AtomicMode.XOR, _BITS)
    # fmt: on

    @property
    def method_at(self) -> str:
        """The method for single elements."""
        return f"{self.value.method.rstrip('_')}_at"


# --- dtypes and targets ---------------------------------------------------------------------------


def _mode(lo: Lowering, node: ast.AST, kind: Accumulation, target: AccumOperand) -> AtomicMode:
    """The atomic mode of an accumulation; one that is not atomic is refused."""
    dtype, row = target.spec.dtype, kind.value
    call = f"{target.name}.{row.method}"
    mode = atomic_mode(row.mode, dtype)
    if mode is None:
        way_out = row.instead_on_floats
        if not dtype.element.is_float:
            way_out = "accumulate in i32: declare it so and convert the tile, `tile.astype(i32)`"
        lo.reject(NotAtomic, node, call, dtype.label, _possible(row.mode), way_out)
    if (first := first_target_needed(lo, mode, dtype)) is not None:
        lo.reject(NotAtomicOnTarget, node, call, dtype.label, lo.specialization.target, first)
    return mode


def _possible(mode: AtomicMode) -> str:
    """The dtypes of an atomic mode, for messages."""
    shown = []
    for dtype in DTYPES:
        exact = atomic_mode(mode, dtype)
        if exact is not None:
            first = FIRST_TARGETS.get((exact, dtype))
            shown.append(f"{dtype.label} from sm_{first} on" if first else dtype.label)
    return ", ".join(shown)


def _claim(lo: Lowering, node: ast.AST, kind: Accumulation, target: AccumOperand) -> None:
    """Refuse a second kind of accumulation into one parameter, anywhere in the kernel."""
    earlier = lo.accumulated.setdefault(target.name, (kind.value.method, lo.span(node)))
    if earlier[0] != kind.value.method:
        lo.reject(MixedAccumulation, node, target.name, kind.value.method, *earlier)


def refuse_read(lo: Lowering, node: ast.AST, target: AccumOperand) -> NoReturn:
    """Refuse a read: the accumulated value depends on the order of blocks."""
    lo.reject(OnlyAccumulates, node, target.name, is_store=False)


def refuse_store(lo: Lowering, node: ast.AST, target: AccumOperand) -> NoReturn:
    """Refuse a plain store to memory that all blocks share."""
    lo.reject(OnlyAccumulates, node, target.name, is_store=True)


# Members of other tensors that an accumulator refuses.
REFUSED: dict[str, Callable[[Lowering, ast.AST, AccumOperand], NoReturn]] = {
    "gather": refuse_read,
    "indices": refuse_store,
    "load": refuse_read,
    "load_like": refuse_read,
    "partition": refuse_read,
    "store": refuse_store,
    "windows": refuse_read,
}


# --- accumulation ---------------------------------------------------------------------------------


def _values(lo: Lowering, call: Arguments, target: AccumOperand, name: str) -> TileOperand:
    where, dtype = call.where(name), target.spec.dtype
    tile = as_tile(lo, where, call.operand(name), dtype)
    if tile.dtype is not dtype:
        lo.reject(WrongStoreDType, where, target.name, dtype.label, tile.dtype.label)
    return tile


def _accumulate_tile(
    kind: Accumulation, lo: Lowering, target: AccumOperand, call: Arguments
) -> Operand:
    """`z.add(tile, i, j)`: the tile at an index that is checked like that of a store."""
    mode = _mode(lo, call.node, kind, target)
    _claim(lo, call.node, kind, target)
    tile = _values(lo, call, target, "tile")
    if not tile.shape:
        tile = reshaped(lo, tile, (1,) * target.rank)
    if len(tile.shape) != target.rank:
        reason = f"`{target.name}` has rank {target.rank}; this is {tile}"
        way_out = "`.reshape(…)` or `[:, None]` gives it axes of extent one"
        lo.reject(WrongOperand, call.where("tile"), "a tile has an axis for each of the tensor's",
                  reason, way_out)  # fmt: skip
    places = call.places("index")
    if len(places) != target.rank:
        lo.reject(IndexCount, call.node, f"`{target.name}`", target.rank, len(places))
    index = tuple(
        checked(
            lo,
            place,
            tile_count(lo, target, axis, tile.shape[axis]),
            CheckSite(target.name, axis, tile.shape[axis], is_store=True),
        )
        for axis, place in enumerate(places)
    )
    if not index:  # no view has tiles of rank 0
        pointer = elements_at(lo, target, (), None, ()).pointers
        lo.builder.add(AtomicRmw(pointers=pointer, arg=tile.value, mode=mode))
        return Static(None)
    view = lo.partition_view(target, tile.shape, None)
    lo.builder.add(AtomicRedView(view=view, index=index, value=tile.value, mode=mode))
    return Static(None)


def _accumulate_elements(
    kind: Accumulation, lo: Lowering, target: AccumOperand, call: Arguments
) -> Operand:
    """`z.add_at(values, i, j, mask=…)`: single elements; those outside are dropped."""
    mode = _mode(lo, call.node, kind, target)
    _claim(lo, call.node, kind, target)
    values = _values(lo, call, target, "values")
    indices = index_tiles(lo, call.node, target, call.places("index"))
    mask = mask_tile(lo, call.where("mask"), call.operand("mask"))
    masks = () if mask is None else (mask,)
    name = f"{target.name}.{kind.method_at}"
    values, *_ = broadcast_together(lo, call.node, name, values, *indices, *masks)
    check_tile_shape(lo, call.node, values.shape, f"the tile of `{name}`", "", values.dtype)
    found = elements_at(lo, target, indices, mask, values.shape)
    lo.builder.add(
        AtomicRmw(pointers=found.pointers, arg=values.value, mask=found.inside, mode=mode)
    )
    return Static(None)


# The methods of an Accum.
ACCUMULATIONS: dict[str, Callable[[Lowering, AccumOperand, Arguments], Operand]] = {
    **{kind.value.method: partial(_accumulate_tile, kind) for kind in Accumulation},
    **{kind.method_at: partial(_accumulate_elements, kind) for kind in Accumulation},
}

"""Walked outputs: a store takes an index minted by the walk of the very output."""

from __future__ import annotations

from tilewright.check.errors.ownership import ForeignIndex, NotAMintedIndex
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.stores import masked, storable, store_tile
from tilewright.frontend.memory.tensors import loaded, whole_tile
from tilewright.frontend.operands.operands import (
    MappedOperand,
    Minted,
    Operand,
    PieceOperand,
    Static,
)
from tilewright.ir.op import Value
from tilewright.ir.types import Padding

__all__ = ["load_mapped", "piece_of_walk", "store_mapped"]


def _minted_for(lo: Lowering, output: MappedOperand, call: Arguments) -> tuple[Value, ...]:
    at = call.operand("at")
    if not isinstance(at, Minted):
        lo.reject(NotAMintedIndex, call.where("at"), output.name, str(at))
    if output.name not in at.outputs:
        lo.reject(ForeignIndex, call.where("at"), at.outputs[0], output.name, at.span)
    assert at.open, "names that a loop sets end with it"
    return tuple(coordinate.value for coordinate in at.coordinates)


def store_mapped(lo: Lowering, output: MappedOperand, call: Arguments) -> Operand:
    """`z.store(tile, at, mask=…)`."""
    index = _minted_for(lo, output, call)
    shape = whole_tile(lo, call.node, output)
    tile = storable(lo, call, output, shape)
    tile = masked(lo, call, tile, lambda: loaded(lo, output, shape, Padding.ZERO, index))
    store_tile(lo, output, shape, tile, index)
    return Static(None)


def load_mapped(lo: Lowering, output: MappedOperand, call: Arguments) -> Operand:
    """`z.load(at)`: the current contents of this block's tile."""
    index = _minted_for(lo, output, call)
    return loaded(lo, output, whole_tile(lo, call.node, output), Padding.ZERO, index)


def piece_of_walk(lo: Lowering, output: MappedOperand, call: Arguments) -> Operand:
    """`z.piece(at)`: the piece of this step of the walk, valid as long as its index."""
    index = _minted_for(lo, output, call)
    return PieceOperand(output.name, output.spec, output.view, output.rank, index)

"""`for at in z.indices()`: the walk of an output, whose index is minted here and ends here."""

from __future__ import annotations

import ast

from tilewright.dtypes import i32
from tilewright.frontend.carrying import LoopShape, run_loop
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Minted, Operand, TileOperand, WalkRange
from tilewright.frontend.tensors import tile_count
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.internal import Walk

__all__ = ["walk_loop"]


def walk_loop(lo: Lowering, node: ast.For, source: WalkRange) -> None:
    """The loop over this block's share of an output."""
    output = source.output
    counts = tuple(tile_count(lo, output, axis, extent) for axis, extent in enumerate(output.tile))
    minted: list[Minted] = []

    def enter(block: Block) -> Operand:
        places = block.args[: len(counts)]
        index = Minted(output.name, tuple(TileOperand(place, i32) for place in places), source.span)
        minted.append(index)
        return index

    def leave(inits: tuple[Value, ...], block: Block) -> tuple[Value, ...]:
        op = Walk(
            counts=counts, init_values=inits,
            group=output.spec.group, output=output.name, body=block,
        )  # fmt: skip
        return lo.builder.add(op).result_values

    try:
        run_loop(lo, node, LoopShape((i32,) * len(counts), enter, leave))
    finally:
        for index in minted:
            index.open = False

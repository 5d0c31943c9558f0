"""Tiles without a mask: `partition(…, exact=True)` and `partition(…, whole=True)`.

Exact tiles divide their tensor, which every launch checks. Whole tiles are those of any tensor that
lie inside it; a partial tile at its edge is none of them. Indices are checked as always, so all
elements of such a tile lie inside the tensor. It is loaded and stored without a mask, which lets
the assembler have many accesses in flight.
"""

from __future__ import annotations

import ast

from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import i32
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.tensors import extent_of
from tilewright.frontend.operands.operands import Static, TensorOperand, TileOperand
from tilewright.ir.attributes import Predicate
from tilewright.ir.op import Value
from tilewright.ir.ops.elementwise import CmpI
from tilewright.ir.ops.internal import FloorDiv, FloorMod, Require

__all__ = ["exact_argument", "whole_argument", "whole_count"]


def exact_argument(
    lo: Lowering, call: Arguments, tensor: TensorOperand, tile: tuple[int, ...]
) -> bool:
    """Whether tiles are to divide the tensor; `tile` has one extent for each of its axes."""
    is_exact = _truth(lo, call, "exact")
    if is_exact:
        for axis, extent in enumerate(tile):
            _require_division(lo, call.node, tensor, axis, extent)
    return is_exact


def whole_argument(lo: Lowering, call: Arguments) -> bool:
    """Whether only the tiles that lie inside the tensor are meant."""
    return _truth(lo, call, "whole")


def _truth(lo: Lowering, call: Arguments, name: str) -> bool:
    operand = call.operand(name)
    if not isinstance(operand, Static) or not isinstance(operand.value, bool):
        reason = f"it is True or False, known when the kernel is compiled; this is {operand}"
        lo.reject(WrongOperand, call.where(name), f"`{name}`", reason)
    return operand.value


def whole_count(lo: Lowering, tensor: TensorOperand, axis: int, tile: int) -> Value:
    """Number of tiles along an axis that lie inside the tensor."""
    extent = extent_of(lo, tensor, axis)
    if isinstance(extent, TileOperand):
        by = lo.builder.index(tile)
        return lo.builder.add(FloorDiv(lhs=extent.value, rhs=by, dtype=i32)).result
    assert isinstance(extent, Static)
    return lo.builder.index(extent.value // tile)


def _require_division(
    lo: Lowering, node: ast.AST, tensor: TensorOperand, axis: int, tile: int
) -> None:
    whole = extent_of(lo, tensor, axis)
    if isinstance(whole, TileOperand):
        if tile > 1:
            extent = f"{tensor.name}.shape[{tensor.along(axis)}]"
            text = f"{extent} % {tile} == 0, since its tiles are to be exact"
            lo.builder.add(Require(condition=_divides(lo, tile, whole.value), text=text))
        return
    assert isinstance(whole, Static)
    if whole.value % tile:
        reason = f"tiles of {tile} do not divide the {whole.value} elements along axis {axis}"
        lo.reject(BadCall, node, f"{tensor.name}.partition", reason, "leave `exact=True` out")


def _divides(lo: Lowering, tile: int, extent: Value) -> Value:
    add, index = lo.builder.add, lo.builder.index
    rest = add(FloorMod(lhs=extent, rhs=index(tile), dtype=i32)).result
    equal = CmpI(lhs=rest, rhs=index(0), comparison_predicate=Predicate.EQUAL, dtype=i32)
    return add(equal).result

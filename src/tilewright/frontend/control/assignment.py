"""Assignment to names: one by one, or unpacked."""

from __future__ import annotations

import ast
from typing import NoReturn

from tilewright.check.errors.syntax import Unsupported
from tilewright.check.errors.types import WrongOperand
from tilewright.frontend.expressions.inspecting import inspect_name
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory import accumulators
from tilewright.frontend.memory.stores import refuse_store
from tilewright.frontend.operands.operands import (
    AccumOperand,
    MappedOperand,
    Minted,
    Operand,
    PartitionOperand,
    PieceOperand,
    PiecePartition,
    RecordOperand,
    RefOperand,
    TileOperand,
    TupleOperand,
)

__all__ = ["assign", "refuse_target"]


def assign(lo: Lowering, target: ast.expr, operand: Operand) -> None:
    """Bind the names of a target to an operand."""
    if isinstance(target, ast.Name):
        if isinstance(operand, TileOperand) and not operand.value.hint:
            operand.value.hint = target.id
        lo.frame.scope[target.id] = operand
        inspect_name(lo, target, target.id, operand)
    elif isinstance(target, ast.Tuple):
        _unpack(lo, target, operand)
    else:
        refuse_target(lo, target)


def refuse_target(lo: Lowering, target: ast.expr) -> NoReturn:
    """Refuse assignment to a part of an object: `t[0] = …`, `p[i] = …`, `x.field = …`."""
    if isinstance(target, (ast.Subscript, ast.Attribute)):
        owner = lo.expression(target.value)
        if isinstance(owner, AccumOperand):
            accumulators.refuse_store(lo, target, owner)
        if isinstance(owner, (RefOperand, PartitionOperand)):
            tensor = owner if isinstance(owner, RefOperand) else owner.tensor
            refuse_store(lo, target, tensor.name)
        way_out = _ASSIGNMENTS.get(type(owner), "nothing in a kernel has parts that can be set")
        lo.reject(Unsupported, target, f"assignment into {owner}", way_out)
    lo.refuse(target)


_ASSIGNMENTS: dict[type, str] = {
    TileOperand: "tiles are immutable: `tw.where` makes a new one with some elements replaced",
    PieceOperand: "this block's piece is written with `.store(tile)`",
    PiecePartition: "a part is written with `.store(tile, i)`",
    MappedOperand: "a walked output is written with `.store(tile, at)`",
    RecordOperand: "fields are only read: make a new one",
    TupleOperand: "tuples are immutable: make a new one",
}


def _unpack(lo: Lowering, target: ast.Tuple, operand: Operand) -> None:
    starred = next((item for item in target.elts if isinstance(item, ast.Starred)), None)
    if starred is not None:
        way_out = "name every item, or cut the tuple: `rest = t[1:]`"
        lo.reject(Unsupported, starred, "`*` in a target", way_out)
    items: tuple[Operand, ...]
    if isinstance(operand, TupleOperand):
        items = operand.items
    elif isinstance(operand, Minted):
        items = operand.coordinates
    else:
        lo.reject(WrongOperand, target, "only tuples and indices unpack", f"this is {operand}")
    if len(items) != len(target.elts):
        reason = f"there are {len(target.elts)} names for it"
        lo.reject(WrongOperand, target, f"{operand} cannot be unpacked", reason)
    for name, item in zip(target.elts, items, strict=True):
        assign(lo, name, item)

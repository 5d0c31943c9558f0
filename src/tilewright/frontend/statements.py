"""Statements without control flow: assignment, expressions, return."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from tilewright.check.errors.syntax import BadCall, Unsupported
from tilewright.check.errors.types import WrongOperand
from tilewright.frontend import accumulators
from tilewright.frontend.branches import if_statement
from tilewright.frontend.loops import for_statement
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import (
    AccumOperand,
    MappedOperand,
    Minted,
    Operand,
    PartitionOperand,
    PieceOperand,
    PiecePartition,
    RefOperand,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operators import apply_binary
from tilewright.frontend.stores import refuse_store
from tilewright.frontend.unsafe import with_statement

__all__ = ["STATEMENTS"]


def _assign(lo: Lowering, node: ast.Assign) -> None:
    operand = lo.expression(node.value)
    for target in node.targets:
        _bind(lo, target, operand)


def _annotated_assign(lo: Lowering, node: ast.AnnAssign) -> None:
    if node.value is None:
        lo.reject(Unsupported, node, "a declaration without a value", "give it a value")
    _bind(lo, node.target, lo.expression(node.value))


def _augmented_assign(lo: Lowering, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        _refuse_target(lo, node.target)
    before = lo.expression(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    _bind(lo, node.target, apply_binary(lo, node, node.op, before, lo.expression(node.value)))


def _bind(lo: Lowering, target: ast.expr, operand: Operand) -> None:
    if isinstance(target, ast.Name):
        if isinstance(operand, TileOperand) and not operand.value.hint:
            operand.value.hint = target.id
        lo.frame.scope[target.id] = operand
    elif isinstance(target, ast.Tuple):
        _unpack(lo, target, operand)
    else:
        _refuse_target(lo, target)


def _refuse_target(lo: Lowering, target: ast.expr) -> NoReturn:
    """Assignment to a part of something: `t[0] = …`, `p[i] = …`, `x.field = …`."""
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
    TupleOperand: "tuples are immutable: make a new one",
}


def _unpack(lo: Lowering, target: ast.Tuple, operand: Operand) -> None:
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
        _bind(lo, name, item)


def _expression_statement(lo: Lowering, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return  # a docstring
    lo.expression(node.value)


def _return(lo: Lowering, node: ast.Return) -> None:
    if not lo.frame.calls and node.value is not None:
        way_out = "write results to a Mut or a Mapped with `.store(tile)`"
        lo.reject(BadCall, node, lo.signature.kernel, "a kernel returns nothing", way_out)
    if lo.frame.block_depth:
        way_out = (
            "put what follows under the opposite condition"
            if node.value is None
            else "assign the value in the branches and return it at the end"
        )
        lo.reject(Unsupported, node, "`return` inside `if` or `for`", way_out)
    lo.frame.returned = Static(None) if node.value is None else lo.expression(node.value)


def _pass(_: Lowering, __: ast.Pass) -> None:
    return


# How each kind of statement is lowered.
STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.AnnAssign: _annotated_assign,
    ast.Assign: _assign,
    ast.AugAssign: _augmented_assign,
    ast.Expr: _expression_statement,
    ast.For: for_statement,
    ast.If: if_statement,
    ast.Pass: _pass,
    ast.Return: _return,
    ast.With: with_statement,
}

"""Closures: functions that outlive their frame, with the values of their free names.

While its frame is open, a nested function looks its names up when it is called, as Python does.
After the frame ends, its values are visible only in the region in which it was inlined; a returned
function has them as members, so branches and loops carry its values with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tilewright.frontend.control.frames import Frame
from tilewright.frontend.lowering import assigned_names
from tilewright.frontend.operands.aggregates import Aggregate
from tilewright.frontend.operands.operands import LambdaOperand, Operand, Poison, Unset

__all__ = ["closed", "find"]

_Functions = tuple[ast.AST, ...]


def find(frame: Frame, name: str) -> tuple[Frame, Operand] | None:
    """The operand of a name in a frame, and the frame of the name; None if it is no local name."""
    while True:
        if name in frame.scope:
            return frame, frame.scope[name]
        callee = frame.callee
        if callee is None:
            return None
        if name in callee.names:
            return frame, callee.items[callee.names.index(name)]
        frame = callee.frame


def closed(frame: Frame, operand: Operand, around: _Functions = ()) -> Operand:
    """The operand after its frame ends: functions in it capture the frame's names.

    `around` are the functions that are being closed: one that uses itself is left open, since
    calling it is refused as recursion.
    """
    if isinstance(operand, LambdaOperand):
        return _closed_function(frame, operand, around)
    if not isinstance(operand, Aggregate):
        return operand
    items = tuple(closed(frame, item, around) for item in operand.items)
    is_same = all(map(_is_one, items, operand.items))
    return operand if is_same else replace(operand, items=items)


def _is_one(left: Operand, right: Operand) -> bool:
    return left is right


def _closed_function(frame: Frame, function: LambdaOperand, around: _Functions) -> LambdaOperand:
    if function.node in around:
        return function
    taken: dict[str, Operand] = dict(zip(function.names, function.items, strict=True))
    for name in _free_names(function.node):
        found = None if name in taken else find(function.frame, name)
        if found is None or found[0] is not frame or isinstance(found[1], (Unset, Poison)):
            continue  # an unset name keeps its reason, which the ended frame still has
        taken[name] = closed(frame, found[1], (*around, function.node))
    if len(taken) == len(function.names):
        return function
    return replace(function, names=tuple(taken), items=tuple(taken.values()))


def _free_names(node: ast.Lambda | ast.FunctionDef) -> dict[str, None]:
    """Free names of a function, in order."""
    body: Iterable[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
    given = node.args
    own = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    own |= {each.arg for each in (given.vararg, given.kwarg) if each is not None}
    if isinstance(node, ast.FunctionDef):
        own.update(assigned_names(node.body))
    return {name: None for inner in body for name in _used_names(inner) if name not in own}


def _used_names(node: ast.AST) -> Iterator[str]:
    """Names that an expression or a statement reads, those of nested functions included."""
    if isinstance(node, (ast.Lambda, ast.FunctionDef)):
        yield from _free_names(node)
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load):
            yield node.id
    else:
        # `x += 1` reads its target, but that name is the function's own.
        for inner in ast.iter_child_nodes(node):
            yield from _used_names(inner)

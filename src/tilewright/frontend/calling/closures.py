"""Functions that outlive the frame they stand in: the names they use travel with them.

While its frame is open, a function inside a function looks its names up when it is called, as
Python does. Where the frame ends, the values of its names are only those of the region in which it
was inlined; a function that is returned takes them along as members, so a branch that hands it on
hands on its values, and a loop carries them.
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
    """What a name means in a frame, and the frame it belongs to; None if it is no local name."""
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
    """The operand as it leaves a frame that ends: functions in it take the frame's names along.

    `around` are the functions that are being closed: one that uses itself is not followed, since
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
            continue  # an unset name keeps its reason, which the ended frame still tells
        taken[name] = closed(frame, found[1], (*around, function.node))
    if len(taken) == len(function.names):
        return function
    return replace(function, names=tuple(taken), items=tuple(taken.values()))


def _free_names(node: ast.Lambda | ast.FunctionDef) -> dict[str, None]:
    """Names that a function uses and neither takes nor sets, in order."""
    body: Iterable[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
    given = node.args
    own = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    own |= {each.arg for each in (given.vararg, given.kwarg) if each is not None}
    if isinstance(node, ast.FunctionDef):
        own.update(assigned_names(node.body))
    return {name: None for inner in body for name in _used_names(inner) if name not in own}


def _used_names(node: ast.AST) -> Iterator[str]:
    """Names that an expression or a statement looks up, those of functions inside included."""
    if isinstance(node, (ast.Lambda, ast.FunctionDef)):
        yield from _free_names(node)
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load):
            yield node.id
    else:
        # `x += 1` looks up what it sets, but that name is the function's own.
        for inner in ast.iter_child_nodes(node):
            yield from _used_names(inner)

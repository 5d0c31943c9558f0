"""Expressions: names, constants, tuples, attributes, subscripts, conditions."""

from __future__ import annotations

import ast
import difflib
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from tilewright.check.errors.names import NotCapturable, UndefinedName, UnknownAttribute, UnsetName
from tilewright.check.errors.types import IndexCount, WrongOperand
from tilewright.dtypes import DType
from tilewright.frontend.attributes import attribute_of
from tilewright.frontend.calls import call
from tilewright.frontend.choice import chosen, guarded
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import (
    BuiltinOperand,
    DTypeOperand,
    FunctionOperand,
    Minted,
    ModuleOperand,
    Operand,
    PartitionOperand,
    PiecePartition,
    PythonFunction,
    Static,
    TileOperand,
    TupleOperand,
    Unset,
)
from tilewright.frontend.operators import binary, compare, truth, unary
from tilewright.frontend.tensors import load_part, load_tile
from tilewright.frontend.tiles import reshaped, static_int
from tilewright.lang.builtin import Builtin
from tilewright.lang.dimensions import Dim

__all__ = ["EXPRESSIONS", "captured"]

_PYTHON_FUNCTIONS = (range, len, min, max, abs, int, float, bool)


def _constant(_: Lowering, node: ast.Constant) -> Operand:
    return Static(node.value)


def _tuple(lo: Lowering, node: ast.Tuple) -> Operand:
    return TupleOperand(tuple(lo.expression(item) for item in node.elts))


def _name(lo: Lowering, node: ast.Name) -> Operand:
    operand = lo.frame.scope.get(node.id)
    if operand is None:
        return captured(lo, node, node.id, _looked_up(lo, node))
    if isinstance(operand, Unset):
        lo.reject(UnsetName, node, node.id, operand.reason)
    return operand


def _looked_up(lo: Lowering, node: ast.Name) -> Any:
    source = lo.frame.source
    try:
        return source.lookup(node.id)
    except NameError:
        known = [*lo.frame.scope, *source.visible_names()]
        similar = difflib.get_close_matches(node.id, known, n=1)
        lo.reject(UndefinedName, node, node.id, similar[0] if similar else None)


def captured(lo: Lowering, node: ast.AST, name: str, value: Any) -> Operand:
    """A Python value from outside the kernel as an operand, if kernels can use it."""
    operand = _as_operand(value)
    if operand is None:
        lo.reject(NotCapturable, node, name, _kind_of(value))
    return operand


def _as_operand(value: Any) -> Operand | None:
    for kinds, make in _CAPTURES:
        if isinstance(value, kinds):
            operand: Operand | None = make(value)
            return operand
    return _captured_class(value)


def _captured_tuple(value: tuple[Any, ...]) -> Operand | None:
    items = [_as_operand(item) for item in value]
    return (
        None if None in items else TupleOperand(tuple(item for item in items if item is not None))
    )


def _captured_class(value: Any) -> Operand | None:
    if isinstance(value, type) and issubclass(value, DType):
        return DTypeOperand(value)
    if value in _PYTHON_FUNCTIONS:
        return PythonFunction(value)
    return None


_CAPTURES: tuple[tuple[Any, Any], ...] = (
    ((bool, int, float, str, type(None)), Static),
    (tuple, _captured_tuple),
    (Builtin, BuiltinOperand),
    (ModuleType, ModuleOperand),
    (FunctionType, FunctionOperand),
    (
        BuiltinFunctionType,
        lambda value: PythonFunction(value) if value in _PYTHON_FUNCTIONS else None,
    ),
)


def _kind_of(value: Any) -> str:
    if isinstance(value, type) and issubclass(value, Dim):
        return "a dim that its signature does not have"
    return f"a {type(value).__name__}"


def _attribute(lo: Lowering, node: ast.Attribute) -> Operand:
    owner = lo.expression(node.value)
    if isinstance(owner, ModuleOperand):
        return _module_attribute(lo, node, owner)
    return attribute_of(lo, node, owner, node.attr)


def _module_attribute(lo: Lowering, node: ast.Attribute, owner: ModuleOperand) -> Operand:
    if not hasattr(owner.module, node.attr):
        similar = tuple(difflib.get_close_matches(node.attr, dir(owner.module), n=3))
        lo.reject(UnknownAttribute, node, str(owner), node.attr, similar)
    name = f"{owner.module.__name__}.{node.attr}"
    return captured(lo, node, name, getattr(owner.module, node.attr))


# --- subscripts -----------------------------------------------------------------------------------


def _subscript(lo: Lowering, node: ast.Subscript) -> Operand:
    owner = lo.expression(node.value)
    if isinstance(owner, TileOperand):
        return _new_axes(lo, node, owner)
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    indices = [lo.expression(item) for item in items]
    if isinstance(owner, PartitionOperand):
        return load_tile(lo, node, owner, _flattened(indices))
    if isinstance(owner, PiecePartition):
        return load_part(lo, node, owner, _flattened(indices))
    if isinstance(owner, (TupleOperand, Minted)):
        return _item(lo, node, owner, indices)
    lo.reject(WrongOperand, node, f"{owner} cannot be indexed", _index_help(owner))


def _flattened(indices: list[Operand]) -> tuple[Operand, ...]:
    """`p[at]` means `p[i, j]`: a tuple or a minted index stands for its parts."""
    if len(indices) == 1 and isinstance(indices[0], TupleOperand):
        return indices[0].items
    if len(indices) == 1 and isinstance(indices[0], Minted):
        return indices[0].coordinates
    return tuple(indices)


def _item(
    lo: Lowering, node: ast.AST, owner: TupleOperand | Minted, indices: list[Operand]
) -> Operand:
    items = owner.items if isinstance(owner, TupleOperand) else owner.coordinates
    if len(indices) != 1:
        lo.reject(IndexCount, node, str(owner), 1, len(indices))
    place = static_int(lo, node, indices[0], "the index of a tuple")
    if not -len(items) <= place < len(items):
        lo.reject(WrongOperand, node, f"item {place}", f"there are only {len(items)}")
    return items[place]


def _new_axes(lo: Lowering, node: ast.Subscript, tile: TileOperand) -> Operand:
    """`t[:, None]`: each `:` keeps an axis, each `None` adds one of extent one."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    shape: list[int] = []
    axes = iter(tile.shape)
    for item in items:
        if isinstance(item, ast.Constant) and item.value is None:
            shape.append(1)
        elif isinstance(item, ast.Slice) and item.lower is item.upper is item.step is None:
            shape.append(next(axes, 0))
        else:
            lo.reject(
                WrongOperand, item, "a tile is indexed with `:` and `None` only",
                "its elements are not addressed one by one",
                "use tw.where with tw.arange to pick elements, or reduce",
            )  # fmt: skip
    shape.extend(axes)
    if 0 in shape:
        lo.reject(IndexCount, node, str(tile), len(tile.shape), len(items))
    return reshaped(lo, tile, tuple(shape))


def _index_help(owner: Operand) -> str:
    if getattr(owner, "kind", "") == "Ref":
        return "cut it into tiles first: `p = x.partition(BM, BN)`, then `p[i, j]`"
    return "it has no items"


# --- logic and choice -----------------------------------------------------------------------------


def _bool_op(lo: Lowering, node: ast.BoolOp) -> Operand:
    """`and`, `or`: the right side runs only when it matters, if that can be noticed."""
    result = truth(lo, node.values[0], lo.expression(node.values[0]))
    is_and = isinstance(node.op, ast.And)
    for item in node.values[1:]:
        if isinstance(result, Static):
            if result.value != is_and:
                return result
            result = truth(lo, item, lo.expression(item))
            continue
        assert isinstance(result, TileOperand)
        result = guarded(lo, item, result, is_and=is_and)
    return result


def _if_expression(lo: Lowering, node: ast.IfExp) -> Operand:
    condition = truth(lo, node.test, lo.expression(node.test))
    if isinstance(condition, Static):
        return lo.expression(node.body if condition.value else node.orelse)
    assert isinstance(condition, TileOperand)
    return chosen(lo, node, condition)


# How each kind of expression is lowered.
EXPRESSIONS: dict[type[ast.expr], Any] = {
    ast.Attribute: _attribute,
    ast.BinOp: binary,
    ast.BoolOp: _bool_op,
    ast.Call: call,
    ast.Compare: compare,
    ast.Constant: _constant,
    ast.IfExp: _if_expression,
    ast.Name: _name,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: unary,
}

"""Expressions: names, constants, tuples, attributes, subscripts, conditions."""

from __future__ import annotations

import ast
import itertools
from types import ModuleType
from typing import Any

from tilewright.check.errors.names import ForeignName, UndefinedName, UnknownAttribute, UnsetName
from tilewright.check.errors.types import IndexCount, WrongOperand
from tilewright.frontend.calling.arguments import Place, spread
from tilewright.frontend.calling.calls import call
from tilewright.frontend.calling.closures import find
from tilewright.frontend.control.choice import bool_op, compare, if_expression
from tilewright.frontend.expressions.comparisons import logical_not
from tilewright.frontend.expressions.operators import binary, unary
from tilewright.frontend.expressions.printing import joined_string
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.accumulators import refuse_read
from tilewright.frontend.memory.leading_axes import tensor_at
from tilewright.frontend.memory.partitions import load_at
from tilewright.frontend.memory.pieces import load_part
from tilewright.frontend.memory.pointers import reshaped_pointers
from tilewright.frontend.operands.attributes import attribute_of
from tilewright.frontend.operands.indices import coordinates
from tilewright.frontend.operands.operands import (
    AccumOperand,
    EnumOperand,
    LambdaOperand,
    MappedOperand,
    Minted,
    ModuleOperand,
    Operand,
    PartitionOperand,
    PieceOperand,
    PiecePartition,
    PointerOperand,
    RefOperand,
    Static,
    TileOperand,
    TupleOperand,
    Unset,
)
from tilewright.frontend.operands.tiles import reshaped, static_int
from tilewright.frontend.source.captured_values import captured
from tilewright.frontend.source.foreign_names import foreign_hint, is_foreign_module
from tilewright.frontend.source.similar_names import similar_names

__all__ = ["EXPRESSIONS"]

_PACKAGE = __name__.partition(".")[0]


def _constant(_: Lowering, node: ast.Constant) -> Operand:
    return Static(node.value)


def _tuple(lo: Lowering, node: ast.Tuple) -> Operand:
    return TupleOperand(tuple(operand for _, operand in spread(lo, node.elts)))


def _name(lo: Lowering, node: ast.Name) -> Operand:
    found = find(lo.frame, node.id)
    if found is None:
        return captured(lo, node, node.id, _looked_up(lo, node))
    operand = found[1]
    if isinstance(operand, Unset):
        lo.reject(UnsetName, node, node.id, operand.reason, operand.way_out)
    return operand


def _looked_up(lo: Lowering, node: ast.Name) -> Any:
    source = lo.frame.source
    if source.is_local(node.id):
        reason = "it is set further down, and so it is a name of this function"
        lo.reject(UnsetName, node, node.id, reason, "set it before, or use another name")
    try:
        return lo.captures.name(source, node.id)
    except NameError:
        known = [*lo.frame.scope, *source.visible_names()]
        similar = next(iter(similar_names(node.id, known)), None)
        lo.reject(UndefinedName, node, node.id, similar, foreign_hint(node.id))


def _attribute(lo: Lowering, node: ast.Attribute) -> Operand:
    _refuse_foreign(lo, node)
    owner = lo.expression(node.value)
    if isinstance(owner, ModuleOperand):
        return _module_attribute(lo, node, owner)
    if isinstance(owner, EnumOperand):
        return _enum_member(lo, node, owner)
    return attribute_of(lo, node, owner, node.attr)


def _refuse_foreign(lo: Lowering, node: ast.Attribute) -> None:
    """Refuse `tl.program_id(0)`, `ct.load(…)`, and name the function of the language."""
    hint = foreign_hint(node.attr)
    if not hint or not isinstance(node.value, ast.Name) or find(lo.frame, node.value.id):
        return
    alias, package = node.value.id, None
    try:
        found = lo.captures.name(lo.frame.source, alias)
        package = found.__name__ if isinstance(found, ModuleType) else ""
    except NameError:
        pass
    if is_foreign_module(alias, package):
        lo.reject(ForeignName, node, f"{alias}.{node.attr}", hint)


def _module_attribute(lo: Lowering, node: ast.Attribute, owner: ModuleOperand) -> Operand:
    try:
        value = lo.captures.attribute(owner.module, node.attr)
    except Exception:  # noqa: BLE001 (a module may have code for its attributes)
        public = owner.names.get("__all__")
        names = public if isinstance(public, (list, tuple)) else owner.names
        similar = similar_names(node.attr, [name for name in names if type(name) is str])
        hint = foreign_hint(node.attr) if owner.name == _PACKAGE else ""
        lo.reject(UnknownAttribute, node, str(owner), node.attr, similar, hint)
    return captured(lo, node, f"{owner.name}.{node.attr}", value)


def _enum_member(lo: Lowering, node: ast.Attribute, owner: EnumOperand) -> Operand:
    if node.attr not in owner.kind.__members__:
        lo.reject(UnknownAttribute, node, str(owner), node.attr, tuple(owner.kind.__members__))
    name = f"{owner.kind.__name__}.{node.attr}"
    return captured(lo, node, name, owner.kind.__members__[node.attr])


def _lambda(lo: Lowering, node: ast.Lambda) -> Operand:
    return LambdaOperand(node, lo.frame)


# --- subscripts -----------------------------------------------------------------------------------


def _subscript(lo: Lowering, node: ast.Subscript) -> Operand:
    owner = lo.expression(node.value)
    if isinstance(owner, TileOperand):
        return reshaped(lo, owner, _with_new_axes(lo, node, owner))
    if isinstance(owner, PointerOperand):
        return reshaped_pointers(lo, owner, _with_new_axes(lo, node, owner))
    if isinstance(owner, TupleOperand) and isinstance(node.slice, ast.Slice):
        return _part_of_tuple(lo, owner, node.slice)
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    places: list[Place] = [(item, lo.expression(item)) for item in items]
    if isinstance(owner, PartitionOperand):
        return load_at(lo, node, owner, coordinates(places))
    if isinstance(owner, PiecePartition):
        return load_part(lo, node, owner, coordinates(places))
    if isinstance(owner, (TupleOperand, Minted)):
        return _item(lo, node, owner, [operand for _, operand in places])
    if isinstance(owner, AccumOperand):
        refuse_read(lo, node, owner)
    if isinstance(owner, (RefOperand, PieceOperand, MappedOperand)):
        return tensor_at(lo, node, owner, coordinates(places))
    lo.reject(WrongOperand, node, f"{owner} cannot be indexed", "it has no items")


def _part_of_tuple(lo: Lowering, owner: TupleOperand, cut: ast.Slice) -> Operand:
    """`t[1:]`: a tuple of some items."""
    bounds = [
        None if bound is None else static_int(lo, bound, lo.expression(bound), "a bound")
        for bound in (cut.lower, cut.upper, cut.step)
    ]
    if bounds[2] == 0:
        lo.reject(WrongOperand, cut, "a tuple cannot be cut here", "the step is zero")
    return TupleOperand(owner.items[slice(*bounds)])


def _item(
    lo: Lowering, node: ast.AST, owner: TupleOperand | Minted, indices: list[Operand]
) -> Operand:
    items = owner.items if isinstance(owner, TupleOperand) else owner.coordinates
    if len(indices) != 1:
        reason = f"this has {len(indices)}"
        lo.reject(WrongOperand, node, "a tuple is indexed with one number", reason)
    place = static_int(lo, node, indices[0], "the index of a tuple")
    if not -len(items) <= place < len(items):
        reason = f"it has only {len(items)}"
        lo.reject(WrongOperand, node, f"{owner} has no item {place}", reason)
    return items[place]


def _with_new_axes(
    lo: Lowering, node: ast.Subscript, tile: TileOperand | PointerOperand
) -> tuple[int, ...]:
    """`t[:, None]`: `:` keeps an axis, `...` the remaining ones, `None` adds one of extent one."""
    items = [*node.slice.elts] if isinstance(node.slice, ast.Tuple) else [node.slice]
    for item in items:
        if not (_is_whole_axis(item) or _is_constant(item, None) or _is_constant(item, ...)):
            lo.reject(
                WrongOperand, item, "a tile is indexed with `:`, `...` and `None` only",
                "its elements are not addressed one by one", _in_place_of(item),
            )  # fmt: skip
    if not any(_is_constant(item, ...) for item in items):
        items.append(ast.Constant(...))
    left_over = len(tile.shape) - sum(map(_is_whole_axis, items))
    if left_over < 0 or sum(_is_constant(item, ...) for item in items) > 1:
        lo.reject(IndexCount, node, str(tile), len(tile.shape), len(tile.shape) - left_over)
    shape: list[int] = []
    axes = iter(tile.shape)
    for item in items:
        if _is_constant(item, None):
            shape.append(1)
        else:
            shape.extend(itertools.islice(axes, left_over if _is_constant(item, ...) else 1))
    return tuple(shape)


def _in_place_of(item: ast.expr) -> str:
    """The function in place of an index or a slice of a tile."""
    if isinstance(item, ast.Slice):
        return "`tw.extract(t, (0,), (8,))` gives the first of the equal parts of 8 elements"
    return "use tw.where with tw.arange to pick elements, or reduce"


def _is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _is_whole_axis(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is node.upper is node.step is None


# --- operators ------------------------------------------------------------------------------------


def _unary(lo: Lowering, node: ast.UnaryOp) -> Operand:
    if isinstance(node.op, ast.Not):
        return logical_not(lo, node, lo.expression(node.operand))
    return unary(lo, node)


# Lowering of each kind of expression.
EXPRESSIONS: dict[type[ast.expr], Any] = {
    ast.Attribute: _attribute,
    ast.BinOp: binary,
    ast.BoolOp: bool_op,
    ast.Call: call,
    ast.Compare: compare,
    ast.Constant: _constant,
    ast.IfExp: if_expression,
    ast.JoinedStr: joined_string,
    ast.Lambda: _lambda,
    ast.Name: _name,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: _unary,
}

"""Records: instances of dataclasses and named tuples, their fields, and `replace`.

Only methods that Python generates for such a class are supported: a class with code of its own for
making an instance is refused. The annotations of the fields are for type checkers.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from typing import Any

from tilewright.check.errors.names import UnknownAttribute
from tilewright.check.errors.syntax import BadCall, Unsupported
from tilewright.frontend.calling.arguments import bind
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.aggregates import Aggregate, is_named_tuple, member_names
from tilewright.frontend.operands.operands import (
    ClassOperand,
    Method,
    Operand,
    RecordOperand,
    TupleOperand,
)
from tilewright.frontend.operands.shown_values import shown_value
from tilewright.frontend.source.captured_values import captured

__all__ = ["instance", "member", "replaced", "replaced_fields"]


def instance(lo: Lowering, node: ast.Call, callee: ClassOperand) -> Operand:
    """An instance of a dataclass or a named tuple."""
    kind = callee.kind
    _refuse_own_code(lo, node, kind)
    signature = inspect.signature(kind)
    arguments = bind(lo, node, kind.__name__, signature)
    items = tuple(
        arguments.operand(name)
        if arguments.given(name)
        else captured(lo, node, f"{name}={shown_value(parameter.default)}", parameter.default)
        for name, parameter in signature.parameters.items()
    )
    return TupleOperand(items, kind) if is_named_tuple(kind) else RecordOperand(items, kind)


def _refuse_own_code(lo: Lowering, node: ast.AST, kind: type) -> None:
    """Refuse a class with code of its own, since instances are built from their fields."""
    if is_named_tuple(kind):
        is_plain = kind.__bases__ == (tuple,)
    else:
        fields = dataclasses.fields(kind)
        names = [field.name for field in fields]
        is_plain = (
            list(inspect.signature(kind).parameters) == names
            and not hasattr(kind, "__post_init__")
            and kind.__init__.__code__.co_filename == "<string>"  # type: ignore[misc]
            and all(field.default_factory is dataclasses.MISSING for field in fields)
        )
    if not is_plain:
        what = f"`{kind.__name__}`, which has code of its own for making an instance,"
        way_out = "use a plain dataclass or named tuple, and a function that makes one"
        lo.reject(Unsupported, node, what, way_out)


def member(lo: Lowering, node: ast.AST, owner: Aggregate, name: str) -> Operand:
    """`owner.name`: a field."""
    names = member_names(owner)
    if name in names:
        return owner.items[names.index(name)]
    if name == "_replace" and is_named_tuple(owner.kind):
        return Method(name, owner, lambda lo, call: replaced_fields(lo, call, owner, call.args))
    lo.reject(UnknownAttribute, node, str(owner), name, names)


def replaced(lo: Lowering, node: ast.Call) -> Operand:
    """`dataclasses.replace(owner, field=value)`."""
    owner = lo.expression(node.args[0]) if node.args else None
    if not isinstance(owner, RecordOperand):
        reason = "it takes an instance of a dataclass and the fields that change"
        lo.reject(BadCall, node, "dataclasses.replace", reason)
    return replaced_fields(lo, node, owner, node.args[1:])


def replaced_fields(
    lo: Lowering, node: ast.Call, owner: Aggregate, positional: list[ast.expr]
) -> Operand:
    """The same record with some fields replaced, which are given by keyword."""
    names = member_names(owner)
    changes: dict[Any, Operand] = {
        keyword.arg: lo.expression(keyword.value) for keyword in node.keywords
    }
    unknown = [str(name) for name in changes if name not in names]
    if positional or unknown:
        reason = f"{owner} has no `{unknown[0]}`" if unknown else "fields are given by keyword"
        lo.reject(BadCall, node, "replace", reason, f"its fields: {', '.join(names)}")
    items = tuple(changes.get(name, item) for name, item in zip(names, owner.items, strict=True))
    return dataclasses.replace(owner, items=items)

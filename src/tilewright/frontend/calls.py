"""Calls: functions of the language, methods, Python built-ins, and helpers, which are inlined."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from tilewright.check.errors.syntax import BadCall, TooDeep, Unsupported
from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import bool_, f32, i32
from tilewright.errors import CompileError
from tilewright.frontend.arguments import bind
from tilewright.frontend.builtins.table import LOWERINGS
from tilewright.frontend.capture import capture
from tilewright.frontend.lowering import Derived, Frame, Lowering
from tilewright.frontend.operands import (
    BuiltinOperand,
    DTypeOperand,
    FunctionOperand,
    Method,
    Operand,
    PythonFunction,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.tiles import as_scalar, as_tile, check_dtype, convert, unify
from tilewright.ir.op import Op
from tilewright.ir.ops.elementwise import AbsF, AbsI, MaxF, MaxI, MinF, MinI

__all__ = ["call"]


def call(lo: Lowering, node: ast.Call) -> Operand:
    """Lower a call by what is called."""
    callee = lo.expression(node.func)
    if isinstance(callee, Method):
        return callee.lower(lo, node)
    if isinstance(callee, BuiltinOperand):
        arguments = bind(lo, node, f"tw.{callee.builtin.name}", callee.builtin.signature)
        return LOWERINGS[callee.builtin](lo, arguments)
    if isinstance(callee, FunctionOperand):
        return _inlined(lo, node, callee)
    if isinstance(callee, PythonFunction):
        return _python_call(lo, node, callee.function)
    if isinstance(callee, DTypeOperand):
        return _cast(lo, node, callee)
    lo.reject(WrongOperand, node.func, "only functions can be called", f"this is a {callee.kind}")


# --- helpers --------------------------------------------------------------------------------------


def _inlined(lo: Lowering, node: ast.Call, callee: FunctionOperand) -> Operand:
    """The body of a plain Python function in place of the call."""
    try:
        source = capture(callee.function)
    except CompileError as error:
        lo.reject(BadCall, node, f"`{callee.function.__name__}`", str(error))
    if any(
        span.file is source.file and span.line in _lines_of(source.node) for span in lo.frame.calls
    ):
        lo.reject(TooDeep, node, source.name)
    signature = inspect.signature(callee.function)
    arguments = bind(lo, node, f"`{source.name}`", signature)
    scope: dict[str, Operand] = {}
    for name, parameter in signature.parameters.items():
        variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        scope[name] = (
            TupleOperand(arguments.operands(name)) if variadic else arguments.operand(name)
        )
    return _lower_body(lo, node, Frame(source, scope, (lo.span(node), *lo.frame.calls)))


def _lines_of(node: ast.FunctionDef) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _lower_body(lo: Lowering, node: ast.Call, frame: Frame) -> Operand:
    outer, before = lo.frame, len(lo.problems)
    lo.frame = frame
    try:
        lo.statements(frame.source.node.body)
    finally:
        lo.frame = outer
    if len(lo.problems) > before:
        raise Derived
    return Static(None) if frame.returned is None else frame.returned


# --- Python built-ins and casts -------------------------------------------------------------------


def _python_call(lo: Lowering, node: ast.Call, function: Any) -> Operand:
    if node.keywords:
        lo.reject(BadCall, node, f"`{function.__name__}`", "it takes no keywords in a kernel")
    operands = [lo.expression(item) for item in node.args]
    if all(isinstance(operand, Static) for operand in operands) and function is not range:
        return _computed_now(lo, node, function, operands)
    rule = _PYTHON_RULES.get(function)
    if rule is None:
        lo.reject(
            Unsupported, node, "`range(…)` outside a `for`", "loop over it: `for i in range(n):`"
        )
    return rule(lo, node, operands)


def _computed_now(lo: Lowering, node: ast.Call, function: Any, operands: list[Operand]) -> Operand:
    try:
        return Static(
            function(*(operand.value for operand in operands if isinstance(operand, Static)))
        )
    except (TypeError, ValueError) as error:
        lo.reject(BadCall, node, f"`{function.__name__}`", str(error))


def _length(lo: Lowering, node: ast.Call, operands: list[Operand]) -> Operand:
    if len(operands) == 1 and isinstance(operands[0], TupleOperand):
        return Static(len(operands[0].items))
    if len(operands) == 1 and isinstance(operands[0], TileOperand) and operands[0].shape:
        return Static(operands[0].shape[0])
    lo.reject(BadCall, node, "`len`", "it takes a tuple or a tile", "a tensor has `.shape[0]`")


def _extremum(name: str, floats: type[Op], integers: type[Op]) -> Callable[..., Operand]:
    def rule(lo: Lowering, node: ast.Call, operands: list[Operand]) -> Operand:
        if len(operands) == 1 and isinstance(operands[0], TupleOperand):
            operands = list(operands[0].items)
        if len(operands) < 2:
            lo.reject(
                BadCall,
                node,
                f"`{name}`",
                "it takes two numbers or more",
                f"over a tile: `tw.{name}(tile)`",
            )
        result = operands[0]
        for operand in operands[1:]:
            lhs, rhs = unify(lo, node, f"`{name}`", result, operand)
            if lhs.shape:
                lo.reject(
                    BadCall,
                    node,
                    f"`{name}`",
                    "it compares scalars",
                    f"by element: `tw.{name}imum(a, b)`",
                )
            op: Any = floats if lhs.dtype.element.is_float else integers
            made = lo.builder.add(op(lhs=lhs.value, rhs=rhs.value, dtype=lhs.dtype))
            result = TileOperand(made.results[0], lhs.dtype, lhs.weak and rhs.weak)
        return result

    return rule


def _absolute(lo: Lowering, node: ast.Call, operands: list[Operand]) -> Operand:
    tile = as_tile(lo, node, operands[0])
    op = AbsF if tile.dtype.element.is_float else AbsI
    return TileOperand(lo.builder.add(op(source=tile.value, dtype=tile.dtype)).result, tile.dtype)


def _converted_scalar(dtype: Any) -> Callable[..., Operand]:
    def rule(lo: Lowering, node: ast.Call, operands: list[Operand]) -> Operand:
        scalar = as_scalar(lo, node, operands[0], f"conversion to {dtype.label}")
        return convert(lo, scalar, dtype)

    return rule


_PYTHON_RULES: dict[Any, Callable[..., Operand]] = {
    len: _length,
    min: _extremum("min", MinF, MinI),
    max: _extremum("max", MaxF, MaxI),
    abs: _absolute,
    int: _converted_scalar(i32),
    float: _converted_scalar(f32),
    bool: _converted_scalar(bool_),
}


def _cast(lo: Lowering, node: ast.Call, callee: DTypeOperand) -> Operand:
    """`f32(x)`: a number or scalar of that dtype."""
    if len(node.args) != 1 or node.keywords:
        lo.reject(BadCall, node, f"`{callee.dtype.label}`", "it converts one number")
    check_dtype(lo, node, callee.dtype)
    operand = lo.expression(node.args[0])
    if isinstance(operand, Static):
        return as_tile(lo, node, operand, callee.dtype)
    return convert(lo, as_tile(lo, node, operand), callee.dtype)

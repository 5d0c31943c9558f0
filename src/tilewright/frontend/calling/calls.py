"""Calls: functions of the language, methods, Python built-ins, and inlined helpers."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from typing import Any

from tilewright.check.errors.syntax import BadCall, Unsupported
from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import DType, bool_, f32, i32
from tilewright.frontend.builtins.elementwise import absolute, extreme
from tilewright.frontend.builtins.table import LOWERINGS
from tilewright.frontend.calling.arguments import bind, given_by, spread
from tilewright.frontend.calling.constant_functions import computed_now, refuse_values
from tilewright.frontend.calling.inlining import called
from tilewright.frontend.expressions.inspecting import breakpoint_call
from tilewright.frontend.expressions.operators import apply_binary
from tilewright.frontend.expressions.printing import print_call
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import (
    BuiltinOperand,
    ClassOperand,
    DTypeOperand,
    FunctionOperand,
    LambdaOperand,
    Method,
    Operand,
    PythonFunction,
    Static,
    TileOperand,
    TupleOperand,
)
from tilewright.frontend.operands.records import instance, replaced
from tilewright.frontend.operands.tiles import as_scalar, as_tile, check_dtype, convert

__all__ = ["call"]


def call(lo: Lowering, node: ast.Call) -> Operand:
    """Lower a call by the kind of its callee."""
    callee = lo.expression(node.func)
    if isinstance(callee, Method):
        return callee.lower(lo, node)
    if isinstance(callee, BuiltinOperand):
        signature = callee.builtin.signature
        arguments = bind(lo, node, f"tw.{callee.builtin.name}", signature, given_by(node, callee))
        return LOWERINGS[callee.builtin](lo, arguments)
    if isinstance(callee, FunctionOperand) and callee.function is dataclasses.replace:
        return replaced(lo, node)
    if isinstance(callee, (FunctionOperand, LambdaOperand)):
        return called(lo, node, callee)
    if isinstance(callee, PythonFunction):
        return _python_call(lo, node, callee.function)
    if isinstance(callee, DTypeOperand):
        return _cast(lo, node, callee)
    if isinstance(callee, ClassOperand):
        return instance(lo, node, callee)
    lo.reject(WrongOperand, node.func, "only functions can be called", f"this is {callee}")


# --- Python built-ins and casts -------------------------------------------------------------------


def _python_call(lo: Lowering, node: ast.Call, function: Any) -> Operand:
    if function is print:
        return print_call(lo, node)
    if function is breakpoint:
        return breakpoint_call(lo, node)
    if node.keywords:
        lo.reject(BadCall, node, f"{function.__name__}", "it takes no keywords in a kernel")
    if function is range:
        lo.reject(
            Unsupported, node, "`range(…)` outside a `for`", "loop over it: `for i in range(n):`"
        )
    operands = [operand for _, operand in spread(lo, node.args)]
    if all(isinstance(operand, Static) for operand in operands):
        is_power = function is pow and len(operands) == 2  # its result may have too many digits
        return (_power if is_power else computed_now)(lo, node, function, operands)
    rule = _PYTHON_RULES.get(function)
    if rule is None:
        refuse_values(lo, node, function, operands)
    return rule(lo, node, operands)


def _power(lo: Lowering, node: ast.Call, _: Any, operands: list[Operand]) -> Operand:
    return apply_binary(lo, node, ast.Pow(), *operands)


def _length(lo: Lowering, node: ast.Call, operands: list[Operand]) -> Operand:
    if len(operands) == 1 and isinstance(operands[0], TupleOperand):
        return Static(len(operands[0].items))
    if len(operands) == 1 and isinstance(operands[0], TileOperand) and operands[0].shape:
        return Static(operands[0].shape[0])
    lo.reject(BadCall, node, "len", "it takes a tuple or a tile", "a tensor has `.shape[0]`")


def _extremum(name: str) -> Callable[..., Operand]:
    def rule(lo: Lowering, node: ast.Call, operands: list[Operand]) -> Operand:
        if len(operands) == 1 and isinstance(operands[0], TupleOperand):
            operands = list(operands[0].items)
        if len(operands) < 2:
            way_out = f"over a tile: `tw.{name}(tile)`"
            lo.reject(BadCall, node, f"{name}", "it takes two numbers or more", way_out)
        result = operands[0]
        for operand in operands[1:]:
            result = extreme(lo, node, f"`{name}`", (result, operand), least=name == "min")
            if isinstance(result, TileOperand) and result.shape:
                way_out = f"by element: `tw.{name}imum(a, b)`"
                lo.reject(BadCall, node, f"{name}", "it compares scalars", way_out)
        return result

    return rule


def _of_two(*signs: ast.operator) -> Callable[..., Operand]:
    """A function of two values by an operator, or by a pair of them."""

    def rule(lo: Lowering, node: ast.Call, operands: list[Operand]) -> Operand:
        if len(operands) != 2:
            name = ast.unparse(node.func)
            lo.reject(BadCall, node, name, f"it takes two values, not {len(operands)}")
        results = tuple(apply_binary(lo, node, sign, *operands) for sign in signs)
        return results[0] if len(results) == 1 else TupleOperand(results)

    return rule


def _one_argument(
    rule: Callable[[Lowering, ast.Call, Operand], Operand],
) -> Callable[[Lowering, ast.Call, list[Operand]], Operand]:
    def checked(lo: Lowering, node: ast.Call, operands: list[Operand]) -> Operand:
        if len(operands) != 1:
            name = ast.unparse(node.func)
            lo.reject(BadCall, node, name, f"it takes one value, not {len(operands)}")
        return rule(lo, node, operands[0])

    return checked


def _absolute(lo: Lowering, node: ast.Call, operand: Operand) -> Operand:
    return absolute(lo, node, as_tile(lo, node, operand))


def _converted_scalar(dtype: type[DType]) -> Callable[..., Operand]:
    def rule(lo: Lowering, node: ast.Call, operand: Operand) -> Operand:
        scalar = as_scalar(lo, node, operand, f"conversion to {dtype.label}")
        return convert(lo, scalar, dtype)

    return _one_argument(rule)


_PYTHON_RULES: dict[Any, Callable[..., Operand]] = {
    len: _length,
    min: _extremum("min"),
    max: _extremum("max"),
    abs: _one_argument(_absolute),
    int: _converted_scalar(i32),
    float: _converted_scalar(f32),
    bool: _converted_scalar(bool_),
    pow: _of_two(ast.Pow()),
    divmod: _of_two(ast.FloorDiv(), ast.Mod()),
}


def _cast(lo: Lowering, node: ast.Call, callee: DTypeOperand) -> Operand:
    """`f32(x)`: a number or scalar of that dtype."""
    operands = [operand for _, operand in spread(lo, node.args)]
    if len(operands) != 1 or node.keywords:
        lo.reject(BadCall, node, f"{callee.dtype.label}", "it converts one number")
    check_dtype(lo, node, callee.dtype)
    operand = operands[0]
    if isinstance(operand, Static):
        return as_tile(lo, node, operand, callee.dtype)
    return convert(lo, as_tile(lo, node, operand), callee.dtype)

"""Inlining: the body of a plain function or a lambda in place of a call."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from types import FunctionType

from tilewright.check.errors.syntax import BadCall, TooDeep, Unsupported
from tilewright.errors import CompileError
from tilewright.frontend.calling.arguments import Arguments, bind, bind_operands, given_by
from tilewright.frontend.calling.closures import closed
from tilewright.frontend.control.frames import RESULT, RETURNED, Frame, Scope
from tilewright.frontend.control.merging import is_same_constant
from tilewright.frontend.control.sequences import statements
from tilewright.frontend.lowering import Derived, Lowering, assigned_names
from tilewright.frontend.operands.aggregates import leaves
from tilewright.frontend.operands.operands import (
    FunctionOperand,
    LambdaOperand,
    Minted,
    Operand,
    Static,
    TileOperand,
    TupleOperand,
    Unset,
)
from tilewright.frontend.operands.shown_values import shown_value
from tilewright.frontend.source.capture import SourceFunction, capture
from tilewright.frontend.source.captured_values import captured
from tilewright.source import Span

__all__ = ["applied", "called", "signature_of"]

# Closures of one nested function in each other, as `composed(composed(f, g), h)` has them.
_MOST_CLOSURES = 64


def called(lo: Lowering, node: ast.Call, callee: FunctionOperand | LambdaOperand) -> Operand:
    """Inline a call in the source."""
    given = given_by(node, callee)
    arguments = bind(lo, node, callee.name, signature_of(lo, node, callee), given)
    return _inlined(lo, node, callee, arguments)


def applied(
    lo: Lowering,
    node: ast.Call,
    callee: FunctionOperand | LambdaOperand,
    operands: Sequence[Operand],
) -> Operand:
    """Inline a call by a builtin, with operands that exist already."""
    signature, given = signature_of(lo, node, callee), given_by(node, callee)
    arguments = bind_operands(lo, node, callee.name, signature, operands, given)
    return _inlined(lo, node, callee, arguments)


def signature_of(
    lo: Lowering, node: ast.Call, callee: FunctionOperand | LambdaOperand
) -> inspect.Signature:
    """The signature of a function of the author's."""
    if isinstance(callee, FunctionOperand):
        return _own_signature(callee.function)  # pyright: ignore[reportArgumentType] as in capture
    given = callee.node.args
    if given.defaults or any(given.kw_defaults) or given.vararg or given.kwarg:
        way_out = "name its parameters, and give all of them"
        lo.reject(Unsupported, node, f"{callee} with defaults or with `*`", way_out)
    kinds = inspect.Parameter
    return inspect.Signature(
        [
            *(kinds(each.arg, kinds.POSITIONAL_ONLY) for each in given.posonlyargs),
            *(kinds(each.arg, kinds.POSITIONAL_OR_KEYWORD) for each in given.args),
            *(kinds(each.arg, kinds.KEYWORD_ONLY) for each in given.kwonlyargs),
        ]
    )


def _own_signature(function: FunctionType) -> inspect.Signature:
    """The parameters of the inlined `def`, even if `__signature__` differs."""
    code, namespace = function.__code__, function.__globals__
    plain = FunctionType(code, namespace, None, function.__defaults__, function.__closure__)
    plain.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(plain)


def _inlined(
    lo: Lowering, node: ast.Call, callee: FunctionOperand | LambdaOperand, arguments: Arguments
) -> Operand:
    scope = {
        name: _parameter(lo, arguments, parameter)
        for name, parameter in arguments.signature.parameters.items()
    }
    calls = (lo.span(node), *lo.frame.calls)
    if isinstance(callee, LambdaOperand):
        return _inlined_here(lo, node, callee, scope, calls)
    source = _source(lo, node, callee)
    lo.open_functions.append(callee.function)  # pyright: ignore[reportArgumentType] as in capture
    try:
        return _lower_body(lo, Frame(source, scope, calls))
    finally:
        lo.open_functions.pop()


def _inlined_here(
    lo: Lowering, node: ast.Call, callee: LambdaOperand, scope: Scope, calls: tuple[Span, ...]
) -> Operand:
    """Inline a nested function, which reads the current names of its frame."""
    inner, source = callee.node, callee.frame.source
    if _calls_itself(lo, callee):
        lo.reject(TooDeep, node, callee.name)
    lo.open_functions.append(callee)
    try:
        if isinstance(inner, ast.Lambda):
            return _value_of(lo, Frame(source, scope, calls, callee=callee), inner.body)
        reason = f"`{inner.name}` sets it further down, and so it is a name of that function"
        own = Unset(reason, "set it before, or use another name")
        names: Scope = dict.fromkeys(assigned_names(inner.body), own)
        return _lower_body(lo, Frame(source, names | scope, calls, callee=callee))
    finally:
        lo.open_functions.pop()


def _calls_itself(lo: Lowering, callee: LambdaOperand) -> bool:
    """Whether a nested function is open already: itself, or too many closures of the same text."""
    alike = [
        one
        for one in lo.open_functions
        if isinstance(one, LambdaOperand) and one.node is callee.node
    ]
    return len(alike) >= _MOST_CLOSURES or any(one is callee for one in alike)


def _source(lo: Lowering, node: ast.Call, callee: FunctionOperand) -> SourceFunction:
    """The source of a function, which must not be open already."""
    if callee.function in lo.open_functions:
        lo.reject(TooDeep, node, callee.name)
    try:
        source = capture(callee.function)  # pyright: ignore[reportArgumentType] as in capture
    except CompileError as error:
        lo.reject(BadCall, node, callee.name, str(error))
    lo.captures.helper(callee.function)  # pyright: ignore[reportArgumentType] as in capture
    return source


def _parameter(lo: Lowering, arguments: Arguments, parameter: inspect.Parameter) -> Operand:
    """The operand of a parameter of an inlined function."""
    name = parameter.name
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        lo.reject(
            Unsupported, arguments.node, f"a `**{name}` parameter", "name the parameters"
        )  # fmt: skip
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return TupleOperand(arguments.operands(name))
    if arguments.given(name):
        return arguments.operand(name)
    return captured(
        lo, arguments.node, f"{name}={shown_value(parameter.default)}", parameter.default
    )


def _lower_body(lo: Lowering, frame: Frame) -> Operand:
    outer, before = lo.frame, len(lo.problems)
    lo.frame = frame
    frame.scope[RETURNED] = Static(False)
    frame.skips.append(RETURNED)
    try:
        statements(lo, frame.node.body)
        result = _result(lo, frame)
    finally:
        lo.frame = outer
    if len(lo.problems) > before:
        raise Derived
    return result


def _result(lo: Lowering, frame: Frame) -> Operand:
    """The result of a function whose body has been lowered."""
    result = frame.scope.get(RESULT, Static(None))
    name, node = frame.node.name, frame.node
    if isinstance(result, Unset):
        lo.reject(BadCall, node, name, f"it cannot return this: {result.reason}", result.way_out)
    for _, leaf in leaves(result):
        if isinstance(leaf, Minted) and not leaf.open:
            reason = f"an index of `{leaf.outputs[0]}` ends with the loop that minted it"
            lo.reject(BadCall, node, name, reason, "store inside the loop")
    has_ended = isinstance(frame.scope[RETURNED], TileOperand) and frame.left is None
    if has_ended and not is_same_constant(result, Static(None)):
        way_out = "end it with a `return` of the same kind"
        reason = f"it returns {result} on one path and nothing on another"
        lo.reject(BadCall, node, name, reason, way_out)
    return result


def _value_of(lo: Lowering, frame: Frame, body: ast.expr) -> Operand:
    outer, lo.frame = lo.frame, frame
    try:
        return closed(frame, lo.expression(body))
    finally:
        lo.frame = outer

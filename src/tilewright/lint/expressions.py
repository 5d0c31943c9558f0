"""Expressions of host code: their values, and the operations that they build and run.

Each kind of expression has one rule. An expression without a rule lets go of the objects in it:
other code may reach them, and nothing is reported about them from then on.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.lint.built_operations import BuiltOperations, GivenArgument
from tilewright.lint.calls import Calls
from tilewright.lint.declarations import Declarations, attribute_of
from tilewright.lint.scopes import NameScope
from tilewright.lint.state import HostState
from tilewright.lint.values import (
    FOREIGN,
    UNKNOWN,
    CalleeValue,
    ConstantValue,
    CutValue,
    GraphValue,
    ItemsValue,
    KnownValue,
    MethodValue,
    ModuleValue,
    OperationValue,
    TensorValue,
    Value,
)
from tilewright.lint.views import sliced, viewed

__all__ = ["Expressions"]

_SILENT = frozenset({"bool", "hash", "id", "isinstance", "len", "print", "repr", "str", "type"})
_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
}


class Expressions:
    """Evaluates the expressions of one scope."""

    def __init__(
        self, scope: NameScope, declarations: Declarations, launches: BuiltOperations
    ) -> None:
        self._scope = scope
        self._declarations = declarations
        self._launches = launches
        self._calls = Calls(launches)
        self._rules: dict[type[ast.expr], Callable[[Any, HostState], Value]] = {
            ast.Attribute: self._attribute,
            ast.Await: self._await,
            ast.BinOp: self._binary,
            ast.BoolOp: self._either,
            ast.Call: self._call,
            ast.Compare: self._look,
            ast.Constant: self._constant,
            ast.DictComp: self._nested,
            ast.FormattedValue: self._look,
            ast.GeneratorExp: self._nested,
            ast.IfExp: self._branches,
            ast.JoinedStr: self._look,
            ast.Lambda: self._nested,
            ast.ListComp: self._nested,
            ast.Name: self._name,
            ast.NamedExpr: self._named,
            ast.SetComp: self._nested,
            ast.Subscript: self._subscript,
            ast.Tuple: self._tuple,
            ast.UnaryOp: self._unary,
        }

    def value(self, node: ast.expr, state: HostState) -> Value:
        """The value of an expression; the state changes with the operations in it."""
        return self._rules.get(type(node), self._other)(node, state)

    def release(self, node: ast.AST, state: HostState) -> None:
        """Evaluate an expression whose value other code may keep."""
        if isinstance(node, ast.expr):
            state.escape(self.value(node, state))
        else:
            for child in ast.iter_child_nodes(node):
                self.release(child, state)

    def _other(self, node: ast.expr, state: HostState) -> Value:
        for child in ast.iter_child_nodes(node):
            self.release(child, state)
        return UNKNOWN

    def _nested(self, node: ast.expr, state: HostState) -> Value:
        """Lambdas, which run later, and comprehensions, which run any number of times."""
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        for name in names:
            state.escape(state.names.get(name, UNKNOWN))
        return UNKNOWN

    def _look(self, node: ast.expr, state: HostState) -> Value:
        """Comparisons and texts, which keep nothing."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, state)
        return UNKNOWN

    def _constant(self, node: ast.Constant, state: HostState) -> Value:
        del state
        return ConstantValue(node.value)

    def _name(self, node: ast.Name, state: HostState) -> Value:
        name = node.id
        if name in self._scope.bound:
            return state.names.get(name, UNKNOWN)
        if self._scope.is_builtin(name):
            return KnownValue(getattr(builtins, name))
        return self._declarations.lookup(self._scope.outer, name)

    def _tuple(self, node: ast.Tuple, state: HostState) -> Value:
        if any(isinstance(one, ast.Starred) for one in node.elts):
            return self._other(node, state)
        return ItemsValue(tuple([self.value(one, state) for one in node.elts]))

    def _named(self, node: ast.NamedExpr, state: HostState) -> Value:
        value = self.value(node.value, state)
        state.escape(value)
        state.names[node.target.id] = value
        return value

    def _await(self, node: ast.Await, state: HostState) -> Value:
        value = self.value(node.value, state)
        if isinstance(value, OperationValue):
            return state.end(value)
        return value if isinstance(value, TensorValue) else UNKNOWN

    def _binary(self, node: ast.BinOp, state: HostState) -> Value:
        left, right = self.value(node.left, state), self.value(node.right, state)
        rule = _ARITHMETIC.get(type(node.op))
        match left, right:
            case ConstantValue(value=int(one)), ConstantValue(value=int(other)) if rule is not None:
                return ConstantValue(rule(one, other))
        state.escape(left)
        state.escape(right)
        return FOREIGN if FOREIGN in (left, right) else UNKNOWN

    def _unary(self, node: ast.UnaryOp, state: HostState) -> Value:
        value = self.value(node.operand, state)
        if isinstance(node.op, ast.USub) and isinstance(value, ConstantValue):
            number = value.value
            return ConstantValue(-number) if type(number) in (int, float) else UNKNOWN
        return FOREIGN if value is FOREIGN else UNKNOWN

    def _branches(self, node: ast.IfExp, state: HostState) -> Value:
        self.value(node.test, state)
        other = state.copy()
        first, second = self.value(node.body, state), self.value(node.orelse, other)
        _become(state, state.joined(other))
        state.escape(first)
        state.escape(second)
        return first if first == second else UNKNOWN

    def _either(self, node: ast.BoolOp, state: HostState) -> Value:
        self.release(node.values[0], state)
        skipped = state.copy()
        for one in node.values[1:]:
            self.release(one, state)
        _become(state, state.joined(skipped))
        return UNKNOWN

    def _attribute(self, node: ast.Attribute, state: HostState) -> Value:
        owner = self.value(node.value, state)
        match owner:
            case ModuleValue(module=module):
                return attribute_of(module, node.attr)
            case TensorValue():
                if self._launches.is_moved(state, owner, node.value):
                    return UNKNOWN
                return viewed(owner) if node.attr == "T" else MethodValue(owner, node.attr)
            case OperationValue() | CutValue() | GraphValue() | CalleeValue():
                return MethodValue(owner, node.attr)
            case _ if owner is FOREIGN:
                return FOREIGN
        return UNKNOWN

    def _subscript(self, node: ast.Subscript, state: HostState) -> Value:
        owner = self.value(node.value, state)
        if isinstance(owner, TensorValue):
            self.release(node.slice, state)
            moved = self._launches.is_moved(state, owner, node.value)
            return UNKNOWN if moved else sliced(owner, node.slice)
        self.release(node.slice, state)
        state.escape(owner)
        return FOREIGN if owner is FOREIGN else UNKNOWN

    def _call(self, node: ast.Call, state: HostState) -> Value:
        function = self.value(node.func, state)
        given = self._arguments(node, state)
        if isinstance(function, KnownValue) and self._is_silent(node.func, function):
            return UNKNOWN
        return self._calls.call(state, function, node, given)

    def _is_silent(self, node: ast.expr, function: KnownValue) -> bool:
        """Whether a function of Python keeps none of its arguments."""
        name = node.id if isinstance(node, ast.Name) else ""
        return name in _SILENT and function.thing is getattr(builtins, name)

    def _arguments(self, node: ast.Call, state: HostState) -> list[GivenArgument] | None:
        """The arguments in order; None for a call with `*` or `**`, which lets go of them."""
        plain = [(None, one) for one in node.args]
        named = [(one.arg, one.value) for one in node.keywords]
        is_whole = all(one.arg is not None for one in node.keywords)
        if not is_whole or any(isinstance(one, ast.Starred) for one in node.args):
            for _, one in (*plain, *named):
                self.release(one, state)
            return None
        return [GivenArgument(name, one, self.value(one, state)) for name, one in (*plain, *named)]


def _become(state: HostState, other: HostState) -> None:
    """Give a state the facts of another one."""
    state.names, state.operations, state.moved = other.names, other.operations, other.moved

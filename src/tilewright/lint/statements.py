"""Statements of host code, followed in order: branches, loops, `try` and `with`.

A branch is followed on both sides and joined to the facts of both. A loop is followed once from the
state before it, twice if it certainly runs twice; behind it, the names that it binds are unknown.
Where an exception may be caught, nothing is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.lint.built_operations import BuiltOperations
from tilewright.lint.declarations import Declarations
from tilewright.lint.expressions import Expressions
from tilewright.lint.reporting import Reporter
from tilewright.lint.scopes import FunctionNode, NameScope, bound_names, names_in
from tilewright.lint.state import HostState
from tilewright.lint.values import (
    FOREIGN,
    SCOPE,
    UNKNOWN,
    GraphValue,
    ItemsValue,
    OperationValue,
    Value,
)

__all__ = ["Statements"]

_DEEPEST = 3  # nested loops that are followed a second time
# Exceptions of Python that are no ancestor of ours.
_UNRELATED = frozenset(
    {
        "ArithmeticError", "AssertionError", "AttributeError", "EOFError", "FileNotFoundError",
        "ImportError", "IndexError", "KeyError", "KeyboardInterrupt", "LookupError", "MemoryError",
        "ModuleNotFoundError", "NameError", "NotImplementedError", "OSError", "OverflowError",
        "RecursionError", "StopIteration", "SystemExit", "TypeError", "ValueError",
        "ZeroDivisionError",
    }
)  # fmt: skip


class Statements:
    """Follows the statements of one scope."""

    def __init__(self, scope: NameScope, declarations: Declarations, reporter: Reporter) -> None:
        self._scope = scope
        self._declarations = declarations
        self._reporter = reporter
        self._launches = BuiltOperations(reporter)
        self._expressions = Expressions(scope, declarations, self._launches)
        self._loops = 0
        self._unused: list[
            tuple[HostState, OperationValue, ast.stmt]
        ] = []  # bound to names of no use
        self._rules: dict[type[ast.stmt], Callable[[Any, HostState], HostState | None]] = {
            ast.AnnAssign: self._annotated,
            ast.Assign: self._assign,
            ast.AsyncFor: self._for,
            ast.AsyncFunctionDef: self._define,
            ast.AsyncWith: self._with,
            ast.Break: self._stop,
            ast.ClassDef: self._class,
            ast.Continue: self._stop,
            ast.Delete: self._delete,
            ast.Expr: self._expression,
            ast.For: self._for,
            ast.FunctionDef: self._define,
            ast.If: self._if,
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.Match: self._match,
            ast.Raise: self._stop,
            ast.Return: self._return,
            ast.Try: self._try,
            ast.TryStar: self._try,
            ast.While: self._while,
            ast.With: self._with,
        }

    def follow(self, state: HostState) -> None:
        """Follow the whole scope."""
        body = self._scope.node.body
        end = self._block(body, state)
        if end is not None and body:
            self._leave(end, body[-1])
            if self._scope.is_module:
                self._scope.keep(end.names)
        for state, operation, at in self._unused:  # also in loops, behind which nothing is certain
            self._launches.drop(state, operation, at)

    def _block(self, body: Sequence[ast.stmt], state: HostState | None) -> HostState | None:
        """The state behind some statements; None if the end is not reached."""
        for statement in body:
            if state is None:
                return None
            self._launches.has_refused = False
            rule = self._rules.get(type(statement))
            if rule is None:
                self._other(statement, state)
            else:
                state = rule(statement, state)
        return state

    def _leave(self, state: HostState, at: ast.AST) -> None:
        """Drop the operations that the scope has when it ends."""
        self._launches.has_refused = False
        for number in [n for n, one in state.operations.items() if one.is_held]:
            self._launches.drop(state, OperationValue(number), at)

    # --- simple statements ---

    def _other(self, statement: ast.stmt, state: HostState) -> None:
        self._expressions.release(statement, state)
        state.forget(bound_names([statement]))

    def _expression(self, statement: ast.Expr, state: HostState) -> HostState:
        value = self._expressions.value(statement.value, state)
        if isinstance(value, OperationValue) and state.is_unnamed(value):
            self._launches.drop(state, value, statement.value)
        elif isinstance(value, ItemsValue):
            state.escape(value)
        return state

    def _assign(self, statement: ast.Assign, state: HostState) -> HostState:
        value = self._expressions.value(statement.value, state)
        for target in statement.targets:
            self._store(target, value, statement, state)
        return state

    def _annotated(self, statement: ast.AnnAssign, state: HostState) -> HostState:
        if statement.value is not None:
            value = self._expressions.value(statement.value, state)
            self._store(statement.target, value, statement, state)
        return state

    def _store(self, target: ast.expr, value: Value, at: ast.stmt, state: HostState) -> None:
        """Bind a target; an operation that loses its last name is dropped."""
        match target:
            case ast.Name(id=name):
                self._bind(name, value, at, state)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                is_alike = isinstance(value, ItemsValue) and len(value.values) == len(targets)
                values = value.values if isinstance(value, ItemsValue) else ()
                if not is_alike or any(isinstance(one, ast.Starred) for one in targets):
                    state.escape(value)
                    values = (UNKNOWN,) * len(targets)
                for one, item in zip(targets, values, strict=True):
                    self._store(one, item, at, state)
            case _:
                state.escape(value)
                self._expressions.release(target, state)

    def _bind(self, name: str, value: Value, at: ast.stmt, state: HostState) -> None:
        old = state.names.get(name, UNKNOWN)
        is_shared = name in self._scope.shared or name not in self._scope.bound
        if is_shared or not isinstance(value, OperationValue):
            state.escape(value)
        state.names[name] = UNKNOWN if name not in self._scope.bound else value
        if isinstance(old, OperationValue) and old != value and state.is_unnamed(old):
            self._launches.drop(state, old, at)
        is_used = is_shared or name in self._scope.loaded or self._is_public(name)
        if isinstance(value, OperationValue) and not is_used:
            self._unused.append((state.copy(), value, at))

    def _is_public(self, name: str) -> bool:
        """Whether other modules may use a name: constants of a module are imported."""
        return self._scope.is_module and name.isupper()

    def _delete(self, statement: ast.Delete, state: HostState) -> HostState:
        for target in statement.targets:
            if isinstance(target, ast.Name):
                old = state.names.pop(target.id, UNKNOWN)
                if isinstance(old, OperationValue) and state.is_unnamed(old):
                    self._launches.drop(state, old, statement)
            else:
                self._expressions.release(target, state)
        return state

    def _return(self, statement: ast.Return, state: HostState) -> None:
        if statement.value is not None:
            self._expressions.release(statement.value, state)
        self._leave(state, statement)

    def _stop(self, statement: ast.stmt, state: HostState) -> None:
        """`raise`, `break` and `continue`, behind which nothing runs."""
        self._expressions.release(statement, state)

    def _import(self, statement: ast.Import | ast.ImportFrom, state: HostState) -> HostState:
        for alias in statement.names:
            name = alias.asname or alias.name.partition(".")[0]
            value = self._declarations.value_of(statement, alias, self._scope)
            self._bind(name, value, statement, state)
        return state

    def _define(self, statement: FunctionNode, state: HostState) -> HostState:
        for decorator in statement.decorator_list:
            self._expressions.release(decorator, state)
        value = self._declarations.value_of(statement, statement, self._scope)
        self._bind(statement.name, value, statement, state)
        return state

    def _class(self, statement: ast.ClassDef, state: HostState) -> HostState:
        self._bind(statement.name, UNKNOWN, statement, state)
        return state

    # --- statements with blocks ---

    def _if(self, statement: ast.If, state: HostState) -> HostState | None:
        self._expressions.value(statement.test, state)
        other = self._block(statement.orelse, state.copy())
        return _either(self._block(statement.body, state), other)

    def _for(self, statement: ast.For | ast.AsyncFor, state: HostState) -> HostState:
        value = self._expressions.value(statement.iter, state)
        state.escape(value)
        self._store(statement.target, UNKNOWN, statement, first := state.copy())
        self._loop(statement, first, again=self._runs_twice(statement.iter))
        return self._behind_loop(statement, state)

    def _while(self, statement: ast.While, state: HostState) -> HostState:
        self._expressions.value(statement.test, state)
        self._loop(statement, state.copy(), again=False)
        return self._behind_loop(statement, state)

    def _loop(
        self, statement: ast.For | ast.AsyncFor | ast.While, state: HostState, *, again: bool
    ) -> None:
        self._loops += 1
        end = self._block(statement.body, state)
        if again and end is not None and self._loops <= _DEEPEST and not _may_leave(statement.body):
            self._block(statement.body, end)
        self._loops -= 1

    def _behind_loop(
        self, statement: ast.For | ast.AsyncFor | ast.While, state: HostState
    ) -> HostState:
        self._forget(statement.body, state)
        if not isinstance(statement, ast.While):
            state.forget(names_in([ast.Expr(statement.target)], ast.Store))
        after = self._block(statement.orelse, state.copy())
        return state if after is None else state.joined(after)

    def _forget(self, body: list[ast.stmt], state: HostState) -> None:
        """Forget all that some statements may have changed."""
        state.forget(bound_names(body))
        for name in names_in(body, ast.Load):
            state.escape(state.names.get(name, UNKNOWN))

    def _runs_twice(self, iterable: ast.expr) -> bool:
        """Whether a loop certainly has a second iteration."""
        match iterable:
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return len(items) > 1 and not any(isinstance(one, ast.Starred) for one in items)
            case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
                return count > 1 and self._scope.is_builtin("range")
        return False

    def _with(self, statement: ast.With | ast.AsyncWith, state: HostState) -> HostState | None:
        is_open = True
        for item in statement.items:
            value = self._expressions.value(item.context_expr, state)
            is_open &= value in (SCOPE, FOREIGN) or isinstance(value, GraphValue)
            state.escape(value)
            if item.optional_vars is not None:
                given = value if isinstance(value, GraphValue) else UNKNOWN
                self._store(item.optional_vars, given, statement, state)
        if is_open:
            return self._block(statement.body, state)
        before = state.copy()
        self._forget(statement.body, before)
        with self._reporter.silence():
            end = self._block(statement.body, state)
        return _either(end, before)

    def _try(self, statement: ast.Try | ast.TryStar, state: HostState) -> HostState | None:
        before = state.copy()
        self._forget(statement.body, before)
        with self._reporter.silence(any(map(self._catches, statement.handlers))):
            end = self._block(statement.body, state)
            if end is not None:
                end = self._block(statement.orelse, end)
        for handler in statement.handlers:
            start = before.copy()
            if handler.name is not None:
                start.names[handler.name] = UNKNOWN
            end = _either(end, self._block(handler.body, start))
        if not statement.finalbody:
            return end
        if end is None:
            self._block(statement.finalbody, before)
            return None
        return self._block(statement.finalbody, end)

    def _catches(self, handler: ast.ExceptHandler) -> bool:
        """Whether a handler may catch an exception of ours."""
        kind = handler.type
        kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
        return not all(
            isinstance(one, ast.Name) and one.id in _UNRELATED and self._scope.is_builtin(one.id)
            for one in kinds
        )

    def _match(self, statement: ast.Match, state: HostState) -> HostState | None:
        self._expressions.release(statement.subject, state)
        end: HostState | None = state.copy()
        for case in statement.cases:
            start = state.copy()
            start.forget({n for one in ast.walk(case.pattern) for n in _captured(one)})
            if case.guard is not None:
                self._expressions.value(case.guard, start)
            end = _either(end, self._block(case.body, start))
        return end


def _either(one: HostState | None, other: HostState | None) -> HostState | None:
    """The facts behind two paths, of which one may not get there."""
    if one is None or other is None:
        return one or other
    return one.joined(other)


def _captured(pattern: ast.AST) -> tuple[str, ...]:
    name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
    return (name,) if isinstance(name, str) else ()


def _may_leave(body: list[ast.stmt]) -> bool:
    """Whether a loop may end early."""
    leaving = (ast.Break, ast.Continue, ast.Return, ast.Raise)
    return any(isinstance(node, leaving) for one in body for node in ast.walk(one))

"""Scopes of the host check: the names that a function or a module binds, and their declarations.

A name that is bound once, by an import or a `def`, is looked up from nested functions. Names that
nested functions use are shared with them, and hold no operation that the check follows.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.lint.values import FOREIGN, CalleeValue, ConstantValue, TensorValue, Value

__all__ = ["Declaration", "FunctionNode", "NameScope", "bound_names", "names_in"]

# A function of the program.
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
# Nodes whose values are known without following the program.
Declaration = ast.alias | FunctionNode
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass
class NameScope:
    """One module or function."""

    node: ast.Module | FunctionNode
    outer: NameScope | None = None
    bound: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()  # used by nested functions, or global
    loaded: frozenset[str] = frozenset()  # used or deleted anywhere in it
    declared: dict[str, tuple[ast.stmt, Declaration]] = field(default_factory=dict)
    has_star: bool = False
    once: frozenset[str] = frozenset()  # bound a single time
    values: dict[str, Value] = field(default_factory=dict)  # of a module that has been followed

    @staticmethod
    def of(node: ast.Module | FunctionNode, outer: NameScope | None = None) -> NameScope:
        """The scope of a module or a function."""
        own = list(_own_nodes(node.body))
        elsewhere = {
            n for one in own if isinstance(one, ast.Global | ast.Nonlocal) for n in one.names
        }
        counts = Counter(name for one in own for name in _bindings(one))
        parameters = _parameters(node)
        return NameScope(
            node,
            outer,
            bound=frozenset(counts.keys() | parameters) - elsewhere,
            shared=frozenset(_used_by_nested(node) | elsewhere),
            loaded=frozenset(names_in(node.body, ast.Load) | names_in(node.body, ast.Del)),
            declared={
                name: (statement, found)
                for statement, name, found in _declarations(own)
                if counts[name] == 1 and name not in parameters | elsewhere
            },
            has_star="*" in counts,
            once=frozenset(name for name, count in counts.items() if count == 1),
        )

    def keep(self, names: dict[str, Value]) -> None:
        """Keep the values of a module's names for its functions.

        A name has to be bound once. An operation is left out: its state belongs to the flow.
        """
        rebound = {
            name
            for node in ast.walk(self.node)
            if isinstance(node, ast.Global)
            for name in node.names
        }
        for name in self.once - rebound:
            value = names.get(name)
            if isinstance(value, TensorValue | CalleeValue | ConstantValue) or value is FOREIGN:
                self.values[name] = value

    @property
    def is_module(self) -> bool:
        """Whether it is the module itself."""
        return isinstance(self.node, ast.Module)

    def is_builtin(self, name: str) -> bool:
        """Whether a name is Python's own here."""
        scope: NameScope | None = self
        while scope is not None:
            if name in scope.bound or scope.has_star:
                return False
            scope = scope.outer
        return hasattr(builtins, name)


def names_in(body: list[ast.stmt], context: type[ast.expr_context]) -> set[str]:
    """The names that some statements use in a context, nested functions included."""
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, context)
    }


def bound_names(body: list[ast.stmt]) -> set[str]:
    """The names that some statements bind in their own scope."""
    return {name for node in _own_nodes(body) for name in _bindings(node)}


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a scope without those of nested scopes."""
    open_: list[ast.AST] = list(reversed(body))
    while open_:
        node = open_.pop()
        yield node
        if not isinstance(node, _NESTED):
            open_ += reversed(list(ast.iter_child_nodes(node)))


def _bindings(node: ast.AST) -> Iterator[str]:
    """The names that one node binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (_bound_by(one) for one in names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _declarations(own: list[ast.AST]) -> Iterator[tuple[ast.stmt, str, Declaration]]:
    for node in own:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node, _bound_by(alias), alias) for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, node.name, node


def _parameters(node: ast.Module | FunctionNode) -> set[str]:
    if isinstance(node, ast.Module):
        return set()
    given = node.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
    return {one.arg for one in every if one is not None}


def _used_by_nested(node: ast.Module | FunctionNode) -> set[str]:
    """The names that nested functions, lambdas and classes mention."""
    return {
        inner.id
        for nested in _own_nodes(node.body)
        if isinstance(nested, _NESTED)
        for inner in ast.walk(nested)
        if isinstance(inner, ast.Name)
    }

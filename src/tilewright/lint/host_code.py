"""The check of host code: every function and the module itself, followed one by one.

A finding is an exception or a warning of the runtime that this line would meet, if it is reached
with tensors that have elements. Anything that is not certain is passed over in silence: objects
that other code may reach, tensors whose memory is not known, exceptions that may be caught. The
file is not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import tilewright
from tilewright.deep_calls import with_room
from tilewright.lint.built_operations import BuiltOperations
from tilewright.lint.declarations import Declarations
from tilewright.lint.findings import HostFinding
from tilewright.lint.reporting import Reporter
from tilewright.lint.scopes import NameScope
from tilewright.lint.state import HostState
from tilewright.lint.statements import Statements
from tilewright.lint.values import CalleeValue, KnownValue
from tilewright.source import SourceFile

__all__ = ["check_host_code"]


def check_host_code(text: str, path: Path) -> tuple[HostFinding, ...]:
    """The mistakes in the host code of a file; raises SyntaxError if it is no Python."""
    return with_room(partial(_check, text, path))


def _check(text: str, path: Path) -> tuple[HostFinding, ...]:
    tree = ast.parse(text, str(path))
    reporter = Reporter(SourceFile(str(path), tuple(text.splitlines())))
    declarations = Declarations(path.parent)
    for scope in _scopes(tree):
        if not _is_kernel(scope, declarations):
            state = HostState()
            _give_parameters(scope, declarations, state, BuiltOperations(reporter))
            Statements(scope, declarations, reporter).follow(state)
    return reporter.findings()


def _scopes(tree: ast.Module) -> Iterator[NameScope]:
    """The module and all its functions, outer ones first."""
    open_: list[tuple[ast.AST, NameScope]] = [(tree, NameScope.of(tree))]
    yield open_[0][1]
    while open_:
        node, scope = open_.pop()
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = NameScope.of(child, scope)
                yield inner
            open_.append((child, inner))


def _is_kernel(scope: NameScope, declarations: Declarations) -> bool:
    """Whether a function runs on the device."""
    node, outer = scope.node, scope.outer
    if isinstance(node, ast.Module) or outer is None:
        return False
    found = declarations.value_of(node, node, outer)
    return isinstance(found, CalleeValue) and found.parameters is not None


def _give_parameters(
    scope: NameScope, declarations: Declarations, state: HostState, launches: BuiltOperations
) -> None:
    """Bind the parameters that are annotated as tensors."""
    node = scope.node
    if isinstance(node, ast.Module):
        return
    for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        found = declarations.static(one.annotation, scope)
        if isinstance(found, KnownValue) and found.thing is tilewright.Tensor:
            state.names[one.arg] = launches.new_tensor(is_dense=False)

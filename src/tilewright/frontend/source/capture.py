"""Capture of a Python function: its AST and source text.

The whole file is parsed, so that line numbers, columns and multi-line strings are the user's own
(cutting a function out of its file and dedenting it would change both); a file is parsed once. A
file that has changed since the function was defined is refused.
"""

# pyright takes a function in a field for a method.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import ast
import builtins
import linecache
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from itertools import takewhile
from types import CodeType, FunctionType
from typing import Any

from tilewright.deep_calls import with_room
from tilewright.errors import CompileError
from tilewright.source import SourceFile

__all__ = ["SourceFunction", "capture", "is_free", "lookup", "source_file"]


@dataclass(frozen=True, eq=False)
class SourceFunction:
    """A Python function with its AST and file."""

    function: FunctionType
    node: ast.FunctionDef
    file: SourceFile

    @property
    def name(self) -> str:
        """The name in its `def`."""
        return self.node.name

    def plain(self) -> FunctionType:
        """The function, for checkers that take a function in a field for a method."""
        return self.function

    def parameter(self, name: str) -> ast.arg:
        """A parameter as it is written in the `def`."""
        given = self.node.args
        named = (*given.posonlyargs, *given.args, *given.kwonlyargs)
        return next(each for each in named if each.arg == name)

    def is_local(self, name: str) -> bool:
        """Whether the function assigns a name, which is then a local one."""
        code = self.function.__code__
        return name in code.co_varnames or name in code.co_cellvars

    def visible_names(self) -> tuple[str, ...]:
        """Names in scope, for suggestions."""
        return (*_closure(self.plain()), *self.function.__globals__)


def is_free(function: FunctionType, name: str) -> bool:
    """Whether a name is a variable of an enclosing function."""
    return name in function.__code__.co_freevars


def lookup(function: FunctionType, name: str) -> Any:
    """The value of a non-local name in a function, by Python's lookup.

    Raises `NameError` if it is not defined.
    """
    if is_free(function, name):
        try:
            return _closure(function)[name]
        except KeyError:  # the enclosing function has not assigned it yet
            raise NameError(name) from None
    namespace = function.__globals__
    if name in namespace:
        return namespace[name]
    try:
        return getattr(builtins, name)
    except AttributeError:
        raise NameError(name) from None


def _closure(function: FunctionType) -> Mapping[str, Any]:
    """Values of the enclosing functions' variables that this one uses."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_set(cell)}


def source_file(function: FunctionType) -> SourceFile:
    """The text of the file that defines a function, without parsing it."""
    path = function.__code__.co_filename
    lines = linecache.getlines(path, function.__globals__)
    return SourceFile(path, tuple(line.rstrip("\n") for line in lines))


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def capture(function: FunctionType) -> SourceFunction:
    """The AST of a function, found in the file (or notebook cell) that defines it."""
    code = function.__code__
    linecache.checkcache(code.co_filename)  # a module may have been edited and loaded again
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__))
    if not lines or (code.co_filename == _SHARED and not _is_made_from(code, lines)):
        raise CompileError(
            f"the source of `{function.__qualname__}` is not available: kernels are compiled from "
            f"their source text, so put it in a file or a notebook cell (not `python -c` or `exec`)"
        )
    file = _parsed(code.co_filename, lines)
    found = file.functions_at(code.co_firstlineno, code.co_name)
    node = _meant(function, found) if len(found) > 1 else next(iter(found), None)
    if node is None or not _is_unchanged(function, lines):
        raise CompileError(
            f"`{function.__qualname__}` was not found at {code.co_filename}:{code.co_firstlineno}: "
            f"it is neither a plain `def` nor a lambda, or the file has changed since it was "
            f"imported; reload it"
        )
    return SourceFunction(function, node, file.source)


# The name of every text of `exec`, and of that of `python -c`, which Python keeps from 3.13 on.
_SHARED = "<string>"


class _ParsedFile:
    """The tree of a file, and the functions that were looked for in it."""

    def __init__(self, source: SourceFile, tree: ast.Module) -> None:
        self.source, self._tree = source, tree
        self._found: dict[tuple[int, str], tuple[ast.FunctionDef, ...]] = {}

    def functions_at(self, line: int, name: str) -> tuple[ast.FunctionDef, ...]:
        """The functions of a name whose code begins on a line; lambdas can share theirs."""
        found = self._found.get((line, name))
        if found is None:
            near = tuple(_functions(_nodes_at(self._tree, line), line, name))
            found = near or tuple(_functions(ast.walk(self._tree), line, name))
            found = self._found.setdefault((line, name), found)
        return found


def _functions(nodes: Iterator[ast.AST], line: int, name: str) -> Iterator[ast.FunctionDef]:
    for node in nodes:
        if isinstance(node, ast.Lambda) and name == _LAMBDA and node.lineno == line:
            yield _as_function(node)
        if isinstance(node, ast.FunctionDef) and name == node.name and _first_line(node) == line:
            yield node


def _nodes_at(tree: ast.Module, line: int) -> Iterator[ast.AST]:
    """The nodes that reach over a line, and those without a place, in the order of `ast.walk`.

    The statements of a file stand in the order of their lines.
    """
    first = bisect_left(tree.body, line, key=lambda statement: statement.end_lineno or 0)
    behind = tree.body[first:]
    waiting = deque[ast.AST](takewhile(lambda statement: _first_line(statement) <= line, behind))
    while waiting:
        node = waiting.popleft()
        end = getattr(node, "end_lineno", None)
        if end is None or (line <= end and _first_line(node) <= line):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


@lru_cache(maxsize=256)
def _parsed(path: str, lines: tuple[str, ...]) -> _ParsedFile:
    try:
        tree = with_room(lambda: ast.parse("".join(lines), filename=path))
    except RecursionError:
        raise CompileError(
            f"{path} has an expression or a statement that is nested too deep to be read: give "
            "parts of it names"
        ) from None
    except (SyntaxError, ValueError) as error:
        raise CompileError(
            f"{path} is not Python any more ({error}): kernels are compiled from their source "
            f"text, so import the module again once the file is whole"
        ) from None
    return _ParsedFile(SourceFile(path, tuple(line.rstrip("\n") for line in lines)), tree)


_LAMBDA = "<lambda>"  # the name of a lambda's code


def _as_function(node: ast.Lambda) -> ast.FunctionDef:
    """A lambda as an equivalent `def`."""
    body = ast.copy_location(ast.Return(node.body), node.body)
    made = ast.FunctionDef(name="lambda", args=node.args, body=[body], decorator_list=[])
    return ast.copy_location(made, node)


def _meant(function: FunctionType, found: tuple[ast.FunctionDef, ...]) -> ast.FunctionDef:
    """The lambda of a function, among several on a line, by columns.

    Python keeps the position of each instruction: it is the innermost lambda whose body holds them
    all.
    """
    positions = [
        (line, column, end_line, end_column)
        for line, end_line, column, end_column in function.__code__.co_positions()
        if column is not None and end_column  # the first instructions have none
    ]
    fitting = [node for node in found if positions and _holds(node.body[0], positions)]
    if not fitting:
        raise CompileError(
            f"`{function.__qualname__}` stands on a line with other lambdas and cannot be told "
            f"from them: give it a line of its own, or a `def`"
        )
    return max(fitting, key=lambda node: (node.body[0].lineno, node.body[0].col_offset))


def _is_unchanged(function: FunctionType, lines: tuple[str, ...]) -> bool:
    """Whether the text is still the source of the function.

    Only for files that Python itself loaded: other loaders may compile another text.
    """
    if type(function.__globals__.get("__loader__")) is not SourceFileLoader:
        return True
    return _is_made_from(function.__code__, lines)


def _is_made_from(code: CodeType, lines: tuple[str, ...]) -> bool:
    return _essence(code) in _compiled_again(code.co_filename, lines)


@lru_cache(maxsize=256)
def _compiled_again(path: str, lines: tuple[str, ...]) -> frozenset[tuple[Any, ...]]:
    code = compile("".join(lines), path, "exec", dont_inherit=True)
    return frozenset(map(_essence, _codes_in(code)))


def _essence(code: CodeType) -> tuple[Any, ...]:
    """The key by which codes are equal; constants by their text, since NaN is unequal to itself."""
    constants = tuple(
        _essence(value) if isinstance(value, CodeType) else _constant_text(value)
        for value in code.co_consts
    )
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars)
    return (*names, code.co_firstlineno, code.co_code, code.co_linetable, constants)


def _constant_text(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"frozenset {sorted(map(repr, value))}"
    if isinstance(value, int):
        return f"{type(value).__name__} {value:x}"  # decimal text has a limit
    return repr(value)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes_in(inner)


def _holds(node: ast.stmt, positions: list[tuple[Any, ...]]) -> bool:
    start = (node.lineno, node.col_offset)
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    return all(start <= place[:2] and place[2:] <= end for place in positions)


def _first_line(node: Any) -> int:
    """The first line of a node, which is that of its code: its first decorator's, if it has one."""
    decorators = getattr(node, "decorator_list", None)
    first: int = decorators[0].lineno if decorators else node.lineno
    return first

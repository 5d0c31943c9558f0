"""A digest of the sources of kernels, by which a record detects that its kernel has changed.

It covers the text of each kernel and of the plain functions and constants it uses, without
comments, docstrings and layout, and is the same on every machine and Python: records are made on
one and checked on another. `jit.fingerprints` has the keys for compiled code.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from tilewright.dtypes import DType
from tilewright.errors import CompileError
from tilewright.frontend.source.capture import SourceFunction, capture, lookup
from tilewright.jit.cache.fingerprints import digest
from tilewright.kernel import Kernel

__all__ = ["source_digest"]

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}
_STRUCTURE = {tokenize.INDENT: "{", tokenize.DEDENT: "}"}


def source_digest(*kernels: Kernel) -> str:
    """Return a short digest of all these kernels."""
    seen: dict[str, str] = {}
    for kernel in kernels:
        _collect(kernel.source, seen)
    return digest(*(f"{name}\n{text}" for name, text in sorted(seen.items())))[:16]


def _collect(source: SourceFunction, seen: dict[str, str]) -> None:
    """Collect the text of a function and of all that it uses, by qualified name."""
    function = source.plain()
    name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
    if name in seen:
        return
    seen[name] = "".join(_tokens(source))
    for used in (*function.__code__.co_names, *function.__code__.co_freevars):
        try:
            value = lookup(function, used)
        except NameError:  # an attribute: names and attributes share one list
            continue
        if isinstance(value, FunctionType):
            _collect_helper(value, seen)
        elif _is_constant(value):
            seen[f"{name} uses {used}"] = repr(value)


def _collect_helper(function: FunctionType, seen: dict[str, str]) -> None:
    try:
        source = capture(function)
    except CompileError:  # a lambda or generated code, which has no text of its own
        return
    _collect(source, seen)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    is_dtype = isinstance(value, type) and issubclass(value, DType)
    return is_dtype or isinstance(value, bool | int | float | str)


def _tokens(source: SourceFunction) -> Iterator[str]:
    """Iterate over a function's tokens without layout, except for indentation."""
    node = source.node
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    lines = source.file.lines[first - 1 : node.end_lineno]
    documentation = _documentation(node, first)
    text = "\n".join((*lines, ""))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _STRUCTURE:
            yield _STRUCTURE[token.type]
        elif token.type not in _LAYOUT and token.start[0] not in documentation:
            # An f-string is one token or several, depending on Python: no space anywhere.
            yield "".join(token.string.split()) or ";"


def _documentation(node: ast.FunctionDef, first: int) -> range:
    """Return the lines of the function's docstring, counted from its first line."""
    if ast.get_docstring(node, clean=False) is None:
        return range(0)
    stated = node.body[0]
    return range(stated.lineno - first + 1, (stated.end_lineno or stated.lineno) - first + 2)

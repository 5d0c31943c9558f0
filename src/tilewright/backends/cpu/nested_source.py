"""Compiles Python text that is indented deeper than Python's tokenizer reads, 100 levels.

Each line is parsed by itself, and put into the block that its indentation says: the compiler has no
such limit. For the text that the emitter writes, where a statement is one line and a block begins
with `def`, `if`, `else`, `for` or `while`; not for Python at large.
"""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

__all__ = ["compile_nested"]

_INDENT = 4


def compile_nested(source: str, filename: str) -> CodeType:
    """The code of a module whose blocks may lie inside each other as deep as they like."""
    module = ast.Module(body=[], type_ignores=[])
    blocks: list[list[ast.stmt]] = [module.body]  # that a line of each depth goes to
    for number, line in enumerate(source.splitlines(), start=1):
        text = line.lstrip(" ")
        if not text:
            continue
        depth = (len(line) - len(text)) // _INDENT
        del blocks[depth + 1 :]
        if text == "else:":
            branch: Any = blocks[depth][-1]
            blocks.append(branch.orelse)
            continue
        statement = _parsed(text, number)
        blocks[depth].append(statement)
        if text.endswith(":"):
            opened: Any = statement
            opened.body.clear()
            blocks.append(opened.body)
    return compile(module, filename, "exec")


def _parsed(text: str, number: int) -> ast.stmt:
    (statement,) = ast.parse(f"{text} pass" if text.endswith(":") else text).body
    return ast.increment_lineno(statement, number - 1)

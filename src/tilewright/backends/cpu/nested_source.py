"""Compiles Python text that is indented deeper than the 100 levels that Python's tokenizer reads.

Each line is parsed by itself and appended to the block of its indentation: the compiler has no such
limit. The input is text of the emitter, in which a statement is one line and a block begins with
`def`, `if`, `else`, `for` or `while`; Python in general is not supported.
"""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

__all__ = ["compile_nested"]

_INDENT = 4


def compile_nested(source: str, filename: str) -> CodeType:
    """Return the code of a module whose blocks may be nested to any depth."""
    module = ast.Module(body=[], type_ignores=[])
    blocks: list[list[ast.stmt]] = [module.body]  # the open block of each depth
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

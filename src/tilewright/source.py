"""Source positions: files, spans and chains of inlined calls.

Columns are kept as the AST gives them, in UTF-8 bytes from 0; `SourceFile` turns them into
characters and terminal cells for output. Not for formatting errors: that is `diagnostics`.
"""

from __future__ import annotations

import ast
import unicodedata
from dataclasses import dataclass

__all__ = ["Location", "SourceFile", "Span", "UnseenFile"]


@dataclass(frozen=True, eq=False)
class SourceFile:
    """One file's text, with line numbers from 1."""

    path: str
    lines: tuple[str, ...]

    def line(self, number: int) -> str:
        """Text of line `number`; empty if the file has become shorter since."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def characters(self, number: int, byte_column: int) -> int:
        """Characters before a byte column."""
        encoded = self.line(number).encode()
        return len(encoded[:byte_column].decode(errors="replace"))

    def cells(self, number: int, byte_column: int) -> int:
        """Terminal cells before a byte column; wide characters take two, combining ones none."""
        text = self.line(number)[: self.characters(number, byte_column)]
        return sum(cell_width(character) for character in text.expandtabs(4))


class UnseenFile(SourceFile):
    """A file known by name only, from debug information: its columns already count characters."""

    def __init__(self, path: str) -> None:
        super().__init__(path, ())

    def characters(self, number: int, byte_column: int) -> int:
        return byte_column


def cell_width(character: str) -> int:
    """Number of terminal cells of a character."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


@dataclass(frozen=True)
class Span:
    """A span of source. Lines from 1, columns in bytes from 0, the end exclusive."""

    file: SourceFile
    line: int
    column: int
    end_line: int
    end_column: int

    @staticmethod
    def of(file: SourceFile, node: ast.AST) -> Span:
        """The span of an AST node whose line numbers are already those of the file."""
        line = int(getattr(node, "lineno", 1))
        column = int(getattr(node, "col_offset", 0))
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None)
        return Span(file, line, column, end_line, column + 1 if end_column is None else end_column)

    def __str__(self) -> str:
        column = self.file.characters(self.line, self.column) + 1
        return f"{self.file.path}:{self.line}:{column}"


@dataclass(frozen=True)
class Location:
    """A span with the calls that were inlined to reach it, innermost call first."""

    span: Span
    calls: tuple[Span, ...] = ()

    def __str__(self) -> str:
        return str(self.span)

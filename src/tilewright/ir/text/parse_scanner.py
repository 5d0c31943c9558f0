"""A scanner: a position in a text, and the reads at it. It has no separate lexer, because the
meaning of a run of characters depends on its context (`4x8xf32`, `0x10`).

White space and comments may separate any two tokens.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import NoReturn

from tilewright.errors import MalformedTextError

__all__ = ["DIALECT", "IDENTIFIER", "INTEGER", "STRING", "WHOLE", "Scanner", "unquoted"]

IDENTIFIER = re.compile(r"[A-Za-z_][\w$.]*")  # a name without quotes, or a keyword
WHOLE = re.compile(r"-?(?:0x[0-9A-Fa-f]{1,16}(?![0-9A-Fa-f])|\d{1,40}(?!\d))")  # or hexadecimal
DIALECT = "cuda_tile."  # optional prefix of every keyword, with `!` before a type
INTEGER = re.compile(r"-?\d{1,40}(?!\d)")  # decimal, with a bound on the digits
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')  # with its quotes; the first group is the content

_NEWLINE = re.compile(r"\n")
_BLANK = re.compile(r"(?:\s+|//[^\n]*)*")
_PIECE = re.compile(r"\w+|->|[^\w\s]")
_SHOWN = re.compile(r'[%@]?[\w$.#-]+|"[^"\n]*"?|->|\S')
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t"}


class Scanner:
    """Scans a text from start to end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._lines = [0, *(end.end() for end in _NEWLINE.finditer(text))]  # offset of each line
        self._skip()

    def _skip(self) -> None:
        blank = _BLANK.match(self.text, self.position)
        assert blank is not None
        self.position = blank.end()

    @property
    def at_end(self) -> bool:
        """Whether the whole text has been read."""
        return self.position >= len(self.text)

    def sees(self, expected: str) -> bool:
        """Whether the given tokens come next; reads nothing."""
        return self._behind(expected) is not None

    def accepts(self, expected: str) -> bool:
        """Read the given tokens if they come next."""
        end = self._behind(expected)
        if end is not None:
            self.position = end
        return end is not None

    def expect(self, expected: str) -> None:
        """Read the given tokens, or refuse the text."""
        for piece in _pieces(expected):
            if not self.accepts(piece):
                self.fail(f"`{piece}`")

    def _behind(self, expected: str) -> int | None:
        """Return the position after the given tokens, or None if they do not come next."""
        start, end = self.position, None
        for piece in _pieces(expected):
            after = self.position + len(piece)
            matches = self.text.startswith(piece, self.position)
            if not matches or (piece[-1].isalnum() and _goes_on(self.text, after)):
                self.position = start
                return None
            self.position = after
            self._skip()
        end, self.position = self.position, start
        return end

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """Whether a pattern matches next; reads nothing."""
        return pattern.match(self.text, self.position) is not None

    def accept(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read a match of a pattern if one comes next."""
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
            self._skip()
        return found

    def read(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Read a match of a pattern, or refuse the text."""
        found = self.accept(pattern)
        if found is None:
            self.fail(what)
        return found

    def word(self, what: str = "a word") -> str:
        """Read a keyword or identifier."""
        return self.read(IDENTIFIER, what)[0]

    def integer(self, what: str = "a number") -> int:
        """Read a decimal number."""
        return int(self.read(INTEGER, what)[0])

    def whole(self, what: str = "a number") -> int:
        """Read a decimal or hexadecimal number."""
        text = self.read(WHOLE, what)[0]
        return int(text, 16 if "x" in text else 10)

    def string(self, what: str = "a string in quotes") -> str:
        """Read a quoted string and return its content."""
        start = self.position
        held = unquoted(self.read(STRING, what)[1])
        if held is None:
            self.refuse("a string is not UTF-8", start)
        return held

    def symbol(self, what: str) -> str:
        """Read the name of a function or a global, with its `@`."""
        self.expect("@")
        return self.string(what) if self.sees('"') else self.word(what)

    def fail(self, expected: str) -> NoReturn:
        """Refuse the next token, naming the expected one."""
        found = _SHOWN.match(self.text, self.position)
        shown = f"`{found[0]}`" if found else "the end of the text"
        self.refuse(f"expected {expected}, found {shown}", self.position)

    def refuse(self, reason: str, position: int) -> NoReturn:
        """Refuse the text at a position."""
        line, column = self.place(position)
        raise MalformedTextError(reason, line, column + 1)

    def place(self, position: int) -> tuple[int, int]:
        """Return the line, from 1, and the column, from 0, of a position."""
        line = bisect_right(self._lines, position)
        return line, position - self._lines[line - 1]


def unquoted(held: str) -> str | None:
    """Return the content of a quoted string without escapes, or None if it is not UTF-8."""
    try:
        return _ESCAPE.sub(_unescaped, held.encode()).decode()
    except UnicodeDecodeError:
        return None


def _unescaped(found: re.Match[bytes]) -> bytes:
    escaped = found[1]
    return bytes([int(escaped, 16)]) if len(escaped) == 2 else _LETTERS.get(escaped, escaped)


def _goes_on(text: str, position: int) -> bool:
    """Whether the word at a position continues."""
    return position < len(text) and (text[position].isalnum() or text[position] in "_$")


@cache
def _pieces(expected: str) -> tuple[str, ...]:
    return tuple(_PIECE.findall(expected))

"""A place in a text, and what may be read there. The parser reads characters, not tokens: what a
run of them means depends on where it stands (`4x8xf32`, `0x10`).

White space and comments stand between any two words and signs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import NoReturn

from tilewright.errors import MalformedTextError

__all__ = ["DIALECT", "IDENTIFIER", "INTEGER", "STRING", "WHOLE", "Scanner", "unquoted"]

IDENTIFIER = re.compile(r"[A-Za-z_][\w$.]*")  # a name without quotes, or a word of the language
WHOLE = re.compile(r"-?(?:0x[0-9A-Fa-f]{1,16}(?![0-9A-Fa-f])|\d{1,40}(?!\d))")  # or hexadecimal
DIALECT = "cuda_tile."  # may stand before every word of the language, with `!` before a type
INTEGER = re.compile(r"-?\d{1,40}(?!\d)")  # in decimal, of any size that something can have
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')  # with its quotes; the first group is what they hold

_NEWLINE = re.compile(r"\n")
_BLANK = re.compile(r"(?:\s+|//[^\n]*)*")
_PIECE = re.compile(r"\w+|->|[^\w\s]")
_SHOWN = re.compile(r'[%@]?[\w$.#-]+|"[^"\n]*"?|->|\S')
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t"}


class Scanner:
    """Reads a text from its start to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._lines = [0, *(end.end() for end in _NEWLINE.finditer(text))]  # where they start
        self._skip()

    def _skip(self) -> None:
        blank = _BLANK.match(self.text, self.position)
        assert blank is not None
        self.position = blank.end()

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.position >= len(self.text)

    def sees(self, expected: str) -> bool:
        """Whether certain words and signs come next; nothing is read."""
        return self._behind(expected) is not None

    def accepts(self, expected: str) -> bool:
        """Read certain words and signs if they come next."""
        end = self._behind(expected)
        if end is not None:
            self.position = end
        return end is not None

    def expect(self, expected: str) -> None:
        """Read certain words and signs; anything else is refused."""
        for piece in _pieces(expected):
            if not self.accepts(piece):
                self.fail(f"`{piece}`")

    def _behind(self, expected: str) -> int | None:
        """Where the text goes on behind certain words and signs, if they come next."""
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
        """Whether something of a pattern comes next; nothing is read."""
        return pattern.match(self.text, self.position) is not None

    def accept(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read something of a pattern if it comes next."""
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
            self._skip()
        return found

    def read(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Read something of a pattern; anything else is refused."""
        found = self.accept(pattern)
        if found is None:
            self.fail(what)
        return found

    def word(self, what: str = "a word") -> str:
        """A word of the language."""
        return self.read(IDENTIFIER, what)[0]

    def integer(self, what: str = "a number") -> int:
        """A number in decimal."""
        return int(self.read(INTEGER, what)[0])

    def whole(self, what: str = "a number") -> int:
        """A number in decimal or in hexadecimal."""
        text = self.read(WHOLE, what)[0]
        return int(text, 16 if "x" in text else 10)

    def string(self, what: str = "a string in quotes") -> str:
        """What stands in quotes."""
        start = self.position
        held = unquoted(self.read(STRING, what)[1])
        if held is None:
            self.refuse("a string is not UTF-8", start)
        return held

    def symbol(self, what: str) -> str:
        """The name of a function or a global, with `@` before it."""
        self.expect("@")
        return self.string(what) if self.sees('"') else self.word(what)

    def fail(self, expected: str) -> NoReturn:
        """Refuse what comes next, because something else was expected."""
        found = _SHOWN.match(self.text, self.position)
        shown = f"`{found[0]}`" if found else "the end of the text"
        self.refuse(f"expected {expected}, found {shown}", self.position)

    def refuse(self, reason: str, position: int) -> NoReturn:
        """Refuse the text because of what stands at a place."""
        line, column = self.place(position)
        raise MalformedTextError(reason, line, column + 1)

    def place(self, position: int) -> tuple[int, int]:
        """Line, from 1, and characters before a place in it."""
        line = bisect_right(self._lines, position)
        return line, position - self._lines[line - 1]


def unquoted(held: str) -> str | None:
    """The text between quotes without its escapes; None if its bytes are not UTF-8."""
    try:
        return _ESCAPE.sub(_unescaped, held.encode()).decode()
    except UnicodeDecodeError:
        return None


def _unescaped(found: re.Match[bytes]) -> bytes:
    escaped = found[1]
    return bytes([int(escaped, 16)]) if len(escaped) == 2 else _LETTERS.get(escaped, escaped)


def _goes_on(text: str, position: int) -> bool:
    """Whether a word does not end at a place."""
    return position < len(text) and (text[position].isalnum() or text[position] in "_$")


@cache
def _pieces(expected: str) -> tuple[str, ...]:
    return tuple(_PIECE.findall(expected))

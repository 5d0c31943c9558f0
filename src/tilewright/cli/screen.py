"""Terminal output of the commands: two consoles, a spinner, JSON, and coloured error texts.

rich omits colours where the output is no terminal or NO_COLOR is set; all output is readable
without colour. Commands take a `Screen` from click's context and create none.

Names, paths and texts come from files of any author: `visible` shows their control characters as
escapes, and every text on a console passes through it. Consoles interpret no markup, so brackets in
a name stay brackets; styles are given as `Text`.
"""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from tilewright.diagnostics import Problem
from tilewright.errors import CompileError

__all__ = [
    "BadInput",
    "ProgramFailed",
    "Screen",
    "VisibleStream",
    "answering_refusals",
    "code_lines",
    "error_text",
    "os_reason",
    "refusal",
    "visible",
]

_THEME = Theme(
    {
        "good": "green",
        "bad": "bold red",
        "soft": "dim",
        "title": "bold",
        "place": "cyan",
        "proved": "green",
        "launch": "cyan",
        "hoisted": "yellow",
        "in place": "red",
    }
)
_LOG_WIDTH = 100  # default width of a page without a terminal
_CODE_COLOURS = "ansi_dark"  # the terminal's own sixteen

_PARTS_OF_AN_ERROR = (
    (r"(?m)^error\[\w+\]:", "bad"),
    (r"(?m)^ *(-->|:::) .*$", "place"),
    (r"(?m)^ *\| +(\^+|-+)( .*)?$", "bad"),
    (r"(?m)^ *= (note|in|called from):?", "soft"),
    (r"(?m)^ *= help:", "good"),
)


# Unicode categories that a terminal acts upon or cannot show: control characters, marks that change
# the direction of a line, surrogates, line separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_KEPT = frozenset("\n\t")


def visible(text: str) -> str:
    """A text with every invisible character as an escape, `\\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if character not in _KEPT and unicodedata.category(character) in _UNSEEN
        else character
        for character in text
    )


class _Console(Console):
    """A console that shows every text verbatim: no markup, no emoji, no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(theme=_THEME, highlight=False, markup=False, emoji=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else visible(segment.text)
            yield segment if shown == segment.text else Segment(shown, segment.style)


class VisibleStream:
    """A stream for untrusted text; everything written to it passes through `visible`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; a closed stream ignores it."""
        if self._stream is not None:
            self._stream.write(visible(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        if self._stream is not None:
            self._stream.flush()


class BadInput(click.ClickException):
    """An impossible request: a message without a usage page."""

    exit_code = 2

    def format_message(self) -> str:
        """The message, made safe for a terminal: it may quote a user or a file."""
        return visible(self.message)


class ProgramFailed(BadInput):
    """An exception raised by the user's own program."""

    exit_code = 1


def os_reason(error: OSError | ValueError) -> str:
    """The reason why a file cannot be opened; its name may be invalid as well."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


@dataclass(frozen=True)
class Screen:
    """The output of a command: its answer on `out`, remarks and errors on `err`."""

    out: Console
    err: Console

    @staticmethod
    def of_process() -> Screen:
        """The screen of this process, as wide as its terminal."""
        width = shutil.get_terminal_size((_LOG_WIDTH, 24)).columns
        return Screen(
            _Console(width=width),
            _Console(width=width, stderr=True),
        )

    def page(self, *, is_shown: bool) -> Console:
        """The console for people; silent under `--json`."""
        return self.out if is_shown else _Console(quiet=True)

    def working(self, what: str) -> AbstractContextManager[Any]:
        """Show a spinner during work that may take a second or more."""
        return self.err.status(Text(what), spinner="dots")

    def answer(self, data: Any) -> None:
        """Write JSON."""
        click.echo(json.dumps(data, indent=2))

    def refuse(self, title: str, text: str) -> None:
        """Write an error: its kind, unless the text names it, and its text, lines unbroken."""
        says_so = text.startswith("error[")
        head = Text() if says_so else Text(f"{title}: ", "bad")
        self.err.print(head + error_text(text), soft_wrap=True)


@contextmanager
def answering_refusals(screen: Screen, as_json: bool) -> Iterator[None]:
    """Report a refused kernel as JSON under `--json`, where a refusal is an answer."""
    try:
        yield
    except CompileError as error:
        if as_json:
            screen.answer(refusal(error))
        raise


def refusal(error: CompileError) -> dict[str, Any]:
    """A refusal as plain data."""
    problems = [_plain(one) for one in error.problems if isinstance(one, Problem)]
    return {"error": str(error), "problems": problems}


def _plain(problem: Problem) -> dict[str, Any]:
    return {
        "code": problem.code,
        "title": problem.title,
        "location": str(problem.span),
        "notes": list(problem.notes),
        "helps": list(problem.helps),
    }


def error_text(text: str) -> Text:
    """The text of an exception with its parts coloured."""
    shown = Text(text)
    for pattern, style in _PARTS_OF_AN_ERROR:
        shown.highlight_regex(pattern, style)
    return shown


def code_lines(text: str) -> list[Text]:
    """Python source with syntax colours, one `Text` for each line."""
    coloured = Syntax("", "python", theme=_CODE_COLOURS).highlight(text)
    lines = list(coloured.split("\n", allow_blank=True))
    return lines[: len(text.splitlines())]

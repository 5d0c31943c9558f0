"""What the commands write with: two consoles, a spinner, JSON, and colour for error texts.

rich leaves colours away where the output is no terminal or NO_COLOR is set; nothing here needs
colour to be understood. Commands get a `Screen` from click's context and make none themselves.

Names, paths and texts come from files of any author: `visible` shows their control characters as
escapes, and every text that a console shows goes through it. Consoles read no markup, so that
brackets of a name are brackets; styles are given as `Text`.
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
_LOG_WIDTH = 100  # where nobody says how wide the page is
_CODE_COLOURS = "ansi_dark"  # the terminal's own sixteen

_PARTS_OF_AN_ERROR = (
    (r"(?m)^error\[\w+\]:", "bad"),
    (r"(?m)^ *(-->|:::) .*$", "place"),
    (r"(?m)^ *\| +(\^+|-+)( .*)?$", "bad"),
    (r"(?m)^ *= (note|in|called from):?", "soft"),
    (r"(?m)^ *= help:", "good"),
)


# Categories of Unicode that a terminal acts upon, or cannot show: control characters, marks that
# turn the direction of a line, halves of a pair, ends of a line.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_KEPT = frozenset("\n\t")


def visible(text: str) -> str:
    """A text with every character that is not there to be seen as its escape, `\\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if character not in _KEPT and unicodedata.category(character) in _UNSEEN
        else character
        for character in text
    )


class _Console(Console):
    """A console that shows every text as it is: no markup, no emoji, no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(theme=_THEME, highlight=False, markup=False, emoji=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else visible(segment.text)
            yield segment if shown == segment.text else Segment(shown, segment.style)


class VisibleStream:
    """A stream for texts of strangers: whatever is written to it is shown as `visible` has it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; a stream that is closed takes none."""
        if self._stream is not None:
            self._stream.write(visible(text))
        return len(text)

    def flush(self) -> None:
        """Hand on what is held back."""
        if self._stream is not None:
            self._stream.flush()


class BadInput(click.ClickException):
    """The command was asked for something it cannot do: a message without a usage page."""

    exit_code = 2

    def format_message(self) -> str:
        """The message as a terminal may show it: it names what a user or a file said."""
        return visible(self.message)


class ProgramFailed(BadInput):
    """A program of the user's raised an exception of its own."""

    exit_code = 1


def os_reason(error: OSError | ValueError) -> str:
    """Why a file cannot be opened; a name may also be none that any file can have."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


@dataclass(frozen=True)
class Screen:
    """Where a command writes: its answer to `out`, remarks and errors to `err`."""

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
        """Where people read; nothing is shown where a machine does."""
        return self.out if is_shown else _Console(quiet=True)

    def working(self, what: str) -> AbstractContextManager[Any]:
        """Show that something is going on that may take a second or more."""
        return self.err.status(Text(what), spinner="dots")

    def answer(self, data: Any) -> None:
        """Write data for a machine."""
        click.echo(json.dumps(data, indent=2))

    def refuse(self, title: str, text: str) -> None:
        """Write an error: what kind it is, unless it says so, and its text, lines unbroken."""
        says_so = text.startswith("error[")
        head = Text() if says_so else Text(f"{title}: ", "bad")
        self.err.print(head + error_text(text), soft_wrap=True)


@contextmanager
def answering_refusals(screen: Screen, as_json: bool) -> Iterator[None]:
    """Where a machine asked, a kernel that is refused is an answer as well."""
    try:
        yield
    except CompileError as error:
        if as_json:
            screen.answer(refusal(error))
        raise


def refusal(error: CompileError) -> dict[str, Any]:
    """Why a kernel is refused, as plain data."""
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
    """Python source with its syntax coloured, a line each."""
    coloured = Syntax("", "python", theme=_CODE_COLOURS).highlight(text)
    lines = list(coloured.split("\n", allow_blank=True))
    return lines[: len(text.splitlines())]

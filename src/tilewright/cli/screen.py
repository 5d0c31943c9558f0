"""What the commands write with: two consoles, a spinner, JSON, and colour for error texts.

rich leaves colours away where the output is no terminal or NO_COLOR is set; nothing here needs
colour to be understood. Commands get a `Screen` from click's context and make none themselves.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from tilewright.diagnostics import Problem
from tilewright.errors import CompileError

__all__ = ["BadInput", "Screen", "answering_refusals", "code_lines", "error_text", "refusal"]

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


class BadInput(click.ClickException):
    """The command was asked for something it cannot do: a message without a usage page."""

    exit_code = 2


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
            Console(theme=_THEME, highlight=False, width=width),
            Console(theme=_THEME, highlight=False, width=width, stderr=True),
        )

    def page(self, *, is_shown: bool) -> Console:
        """Where people read; nothing is shown where a machine does."""
        return self.out if is_shown else Console(theme=_THEME, quiet=True)

    def working(self, what: str) -> AbstractContextManager[Any]:
        """Show that something is going on that may take a second or more."""
        return self.err.status(Text(what), spinner="dots")

    def answer(self, data: Any) -> None:
        """Write data for a machine."""
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))

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

"""Markdown in the forms that the reference uses: tables, blocks of code, paragraphs, signatures."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "block", "call", "page", "prose", "sentence", "table"]

ROOT = Path(__file__).parents[2]
NOTICE = "<!-- Written by docs/generate/reference.py; change the declarations, not this page. -->"
WIDTH = 100


def page(title: str, *parts: str) -> str:
    """A whole page."""
    return "\n\n".join([f"# {title}", NOTICE, *(part.strip("\n") for part in parts)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; line breaks and bars in cells are made harmless."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def block(text: str, language: str = "") -> str:
    """A block of code; `py`, unlike `python`, is not run by the tests of the pages."""
    return f"```{language}\n{text.strip(chr(10))}\n```"


def prose(documented: Any) -> str:
    """A docstring, its lines joined to paragraphs and wrapped."""
    text = inspect.cleandoc(documented if isinstance(documented, str) else documented.__doc__)
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return "\n\n".join(textwrap.fill(one, WIDTH, break_long_words=False) for one in paragraphs)


def sentence(documented: Any) -> str:
    """The first sentence of a docstring."""
    first = " ".join(prose(documented).split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s(?=[A-Z`])", first)[0]


def call(name: str, signature: inspect.Signature) -> str:
    """A call with the names and defaults of its parameters, without their annotations."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    bare = inspect.Signature(parameters)
    return f"{name}{bare}".replace(", /", "").replace("'", '"')  # as ruff formats it

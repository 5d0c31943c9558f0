"""What is wrong with a kernel, as data, and the one place that turns it into text.

A mistake of the author is a frozen dataclass derived from `Problem`: it holds typed values and says
its title, label, notes and helps in terms of them. `render` shows problems with the source lines
they are about. Spans count bytes; the page counts terminal cells, and `SourceFile` converts. Not
for our own mistakes (`InternalError`) nor for errors of the host, which have no source to show.

    @dataclass(frozen=True)
    class StoreToRef(Problem):
        code = "ownership"
        name: str

        @property
        def title(self) -> str:
            return f"`{self.name}` is shared read-only"
"""

from __future__ import annotations

import textwrap
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar

from tilewright.errors import CompileError
from tilewright.source import SourceFile, Span

__all__ = ["Label", "Problem", "Rejected", "compile_error", "render"]

SHOWN_AT_MOST = 10
TAB_CELLS = 4  # as `SourceFile.cells` counts


@dataclass(frozen=True)
class Label:
    """A stretch of source with a few words about it."""

    span: Span
    text: str = ""


@dataclass(frozen=True)
class Problem(ABC):
    """One mistake in a kernel. Subclasses add what they know and override the words."""

    code: ClassVar[str]  # the family: ownership, bounds, types, syntax, names, target

    span: Span
    calls: tuple[Span, ...] = field(
        default=(), kw_only=True
    )  # inlined to get here, innermost first

    @property
    @abstractmethod
    def title(self) -> str:
        """What is wrong, in one line without a full stop."""

    @property
    def label(self) -> str:
        """Words beside the caret; may be empty."""
        return ""

    @property
    def others(self) -> tuple[Label, ...]:
        """Further places that explain the problem."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it is wrong."""
        return ()

    @property
    def helps(self) -> tuple[str, ...]:
        """Ways out."""
        return ()


class Rejected(Exception):
    """Thrown by whoever finds a problem, caught where the next statement can still be looked at."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.title)
        self.problem = problem


def compile_error(problems: Sequence[Problem], context: str | None = None) -> CompileError:
    """The exception that refuses a kernel for these problems."""
    return CompileError(render(problems, context=context), tuple(problems))


def render(
    problems: Sequence[Problem], *, context: str | None = None, width: int | None = None
) -> str:
    """The problems as text, each with its source lines.

    `context` says which specialisation was compiled and for whom. Notes and helps are wrapped at
    `width` cells, if given; source lines never are. A problem that was found twice, as in a loop
    body that was looked at twice, is shown once.
    """
    distinct: dict[tuple[object, ...], Problem] = {}
    for problem in problems:
        distinct.setdefault((problem.code, problem.title, problem.span, problem.calls), problem)
    kept = list(distinct.values())
    parts = ["\n".join(_lines(problem, context, width)) for problem in kept[:SHOWN_AT_MOST]]
    if len(kept) > SHOWN_AT_MOST:
        parts.append(f"… and {len(kept) - SHOWN_AT_MOST} more")
    return "\n\n".join(parts)


@dataclass(frozen=True)
class _Mark:
    """One row of carets or dashes below a source line."""

    label: Label
    sign: str

    @property
    def order(self) -> tuple[int, int]:
        return self.label.span.line, self.label.span.column

    def row(self) -> str:
        """The signs with the label behind them, from the first cell of the source line."""
        span = self.label.span
        start = span.file.cells(span.line, span.column)
        if span.end_line == span.line:
            end = span.file.cells(span.line, span.end_column)
        else:  # only the first line of a longer span is shown
            end = span.file.cells(span.line, len(span.file.line(span.line).rstrip().encode()))
        signs = self.sign * max(end - start, 1)
        return f"{' ' * start}{signs} {self.label.text}".rstrip()


def _lines(problem: Problem, context: str | None, width: int | None) -> Iterator[str]:
    """All lines of one problem."""
    primary = _Mark(Label(problem.span, problem.label), "^")
    marks = [primary, *(_Mark(label, "-") for label in problem.others)]
    margin = len(str(max(mark.label.span.line for mark in marks)))
    yield f"error[{problem.code}]: {problem.title}"
    for number, file in enumerate(dict.fromkeys(mark.label.span.file for mark in marks)):
        here = sorted((m for m in marks if m.label.span.file is file), key=lambda m: m.order)
        start = primary if number == 0 else here[0]
        arrow = "-->" if number == 0 else ":::"
        yield f"{' ' * margin}{arrow} {start.label.span}"
        yield from _excerpt(file, here, margin)
    footer = list(_footer(problem, context))
    if footer:
        yield f"{' ' * margin} |"
    for kind, text in footer:
        yield from _remark(f"{' ' * margin} = {kind}", text, width)


def _excerpt(file: SourceFile, marks: Sequence[_Mark], margin: int) -> Iterator[str]:
    """The marked lines of one file, in order, with their marks below them.

    A line that the file does not have (any more) is left out.
    """
    blank = f"{' ' * margin} |"
    previous: int | None = None
    for line, group in groupby(marks, key=lambda mark: mark.label.span.line):
        if not file.line(line):
            continue
        if previous is None:
            yield blank
        else:
            yield from _gap(file, previous, line, margin)
        yield _source_line(file, line, margin)
        yield from (f"{blank} {mark.row()}" for mark in group)
        previous = line


def _gap(file: SourceFile, before: int, after: int, margin: int) -> Iterator[str]:
    """What stands between two marked lines: the line itself where there is only one."""
    if after == before + 2:
        yield _source_line(file, before + 1, margin)
    elif after > before + 2:
        yield f"{' ' * margin} ..."


def _source_line(file: SourceFile, line: int, margin: int) -> str:
    text = "".join(map(_visible, file.line(line).expandtabs(TAB_CELLS)))
    return f"{line:>{margin}} | {text}".rstrip()


def _visible(character: str) -> str:
    """A stand-in of one cell for what would move the cursor or turn the direction of writing."""
    match unicodedata.category(character):
        case "Cc" if ord(character) < 0x20:
            return chr(0x2400 + ord(character))
        case "Cc" | "Cf":
            return "�"
        case _:
            return character


def _footer(problem: Problem, context: str | None) -> Iterator[tuple[str, str]]:
    yield from (("note:", note) for note in problem.notes)
    yield from (("help:", text) for text in problem.helps)
    yield from (("called from", str(call)) for call in problem.calls)
    if context is not None:
        yield "in:", context


def _remark(head: str, text: str, width: int | None) -> Iterator[str]:
    """One remark; its further lines stand below the first word."""
    indent = " " * (len(head) + 1)
    for number, paragraph in enumerate(text.splitlines()):
        lead = indent if number else f"{head} "
        if width is None:
            yield lead + paragraph
        else:
            yield from textwrap.wrap(
                paragraph, width, initial_indent=lead, subsequent_indent=indent,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip

"""Problems of a kernel as data, and the one renderer that turns them into text.

A mistake of the author is a frozen dataclass derived from `Problem`: its fields are typed values,
and its title, label, notes and helps are written in terms of them. `render` shows problems with
their source lines. Spans count bytes, the output counts terminal cells, and `SourceFile` converts.
Not for internal errors (`InternalError`) nor for errors of the host, which have no source line.

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
    """A span of source with a short text."""

    span: Span
    text: str = ""


@dataclass(frozen=True)
class Problem(ABC):
    """One mistake in a kernel. Subclasses add fields and override the texts."""

    code: ClassVar[str]  # the family: ownership, bounds, types, syntax, names, target

    span: Span
    calls: tuple[Span, ...] = field(default=(), kw_only=True)  # the inlined calls, innermost first

    @property
    @abstractmethod
    def title(self) -> str:
        """The problem, in one line without a full stop."""

    @property
    def label(self) -> str:
        """Text beside the caret; may be empty."""
        return ""

    @property
    def others(self) -> tuple[Label, ...]:
        """Further spans that explain the problem."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Reasons why it is a problem."""
        return ()

    @property
    def helps(self) -> tuple[str, ...]:
        """Ways out."""
        return ()


class Rejected(Exception):
    """Raised at a problem, and caught where the next statement can still be lowered."""

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

    `context` names the specialisation and the call that needs it. Notes and helps are wrapped at
    `width` cells, if given; source lines never are. A problem found twice, as in a loop body that
    is lowered twice, is shown once.
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
        """The marks and the label after them, from the first cell of the source line."""
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

    A line that the file no longer has is left out.
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
    """The rows between two marked lines: the line itself if there is just one, otherwise dots."""
    if after == before + 2:
        yield _source_line(file, before + 1, margin)
    elif after > before + 2:
        yield f"{' ' * margin} ..."


def _source_line(file: SourceFile, line: int, margin: int) -> str:
    text = "".join(map(_visible, file.line(line).expandtabs(TAB_CELLS)))
    return f"{line:>{margin}} | {text}".rstrip()


def _visible(character: str) -> str:
    """A one-cell stand-in for a character that moves the cursor or sets the writing direction."""
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
    """One note or help; its continuation lines are indented to the first word."""
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

"""Display of a ledger: as a table, or below the source lines that its checks belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tilewright.check.launch import (
    AxisNotEmpty,
    BlockCondition,
    DivisorNotZero,
    IndexInRange,
    LaunchCheck,
    Precondition,
    StepAboveZero,
)
from tilewright.check.ledger import Ledger, LedgerEntry, Rung
from tilewright.cli.screen import code_lines
from tilewright.frontend.signature.signature import Signature
from tilewright.frontend.source.capture import SourceFunction
from tilewright.source import SourceFile

__all__ = [
    "annotated_source",
    "condition_of",
    "ledger_table",
    "plain_source",
    "shared_dims",
    "summary_of",
]


def summary_of(ledger: Ledger) -> str:
    """The number of checks and their placement, in one sentence."""
    total = len(ledger.entries)
    if not total:
        return "no index and no divisor needs a check"
    counts = ledger.counts
    inside = counts.hoisted + counts.in_place
    parts = [f"{counts.proved} proved", f"{counts.launch} settled by the launch"]
    parts.append(f"{inside} left in the kernel" if inside else "none left in the kernel")
    return f"{total} {'check' if total == 1 else 'checks'}: {', '.join(parts)}"


def ledger_table(ledger: Ledger) -> Table:
    """A row for each check."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("line", "check", "settled", "why"):
        table.add_column(heading, header_style="soft", overflow="fold")
    for entry in ledger.entries:
        line = "" if entry.location is None else str(entry.location.span.line)
        table.add_row(line, _subject(entry), _outcome(entry.outcome), _reason(entry))
    return table


def plain_source(source: SourceFunction) -> RenderableType:
    """The kernel with its line numbers."""
    return _annotated(source.file, _lines_of(source), ())


def annotated_source(source: SourceFunction, ledger: Ledger) -> RenderableType:
    """The kernel with its checks below the lines they belong to, then those of inlined calls."""
    parts: list[RenderableType] = [_annotated(source.file, _lines_of(source), ledger.entries)]
    others: dict[SourceFile, set[int]] = {}
    shown = _lines_of(source)
    for entry in ledger.entries:
        if entry.location is not None and not _is_in(entry, source.file, shown):
            span = entry.location.span
            others.setdefault(span.file, set()).add(span.line)
    for file, lines in others.items():
        parts += [Text(f"\nin {Path(file.path).name}, called from here", "soft")]
        parts += [_annotated(file, range(n, n + 1), ledger.entries) for n in sorted(lines)]
    return Group(*parts)


def _lines_of(source: SourceFunction) -> range:
    node = source.node
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _is_in(entry: LedgerEntry, file: SourceFile, lines: range) -> bool:
    return (
        entry.location is not None
        and entry.location.span.file is file
        and entry.location.span.line in lines
    )


def _annotated(file: SourceFile, lines: range, entries: tuple[LedgerEntry, ...]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", style="soft")
    table.add_column(overflow="fold")
    code = code_lines("\n".join(file.line(number) for number in lines))
    for number, text in zip(lines, code, strict=True):
        table.add_row(f"{number} │", text)
        indent = len(text.plain) - len(text.plain.lstrip())
        for entry in entries:
            if _is_in(entry, file, range(number, number + 1)):
                table.add_row("│", _remark(entry, indent))
    return table


def _remark(entry: LedgerEntry, indent: int) -> Table:
    """One check below its line; a long reason is indented to its own first word."""
    remark = Table.grid(padding=(0, 1))
    subject = _subject(entry).append(":")
    remark.add_row(f"{' ' * indent}↳", _outcome(entry.outcome), subject, _reason(entry))
    return remark


def _outcome(outcome: Rung) -> Text:
    return Text(outcome.value, outcome.value)


def _reason(entry: LedgerEntry) -> Text:
    return Text(entry.reason.removeprefix("at launch: "))


def _subject(entry: LedgerEntry) -> Text:
    return Text(entry.subject if entry.axis is None else f"{entry.subject}, axis {entry.axis}")


# --- launch checks --------------------------------------------------------------------------------


def condition_of(check: LaunchCheck) -> str:
    """The condition of a launch check, in symbols."""
    return _CONDITIONS[type(check)](check)


_CONDITIONS: dict[type[LaunchCheck], Callable[[Any], str]] = {
    IndexInRange: lambda check: (
        f"{check.site.subject}, axis {check.site.axis}: 0 <= {check.index} < {check.count}"
    ),
    AxisNotEmpty: lambda check: (
        f"{check.site.subject}, axis {check.site.axis}: not empty ({check.count} > 0)"
    ),
    DivisorNotZero: lambda check: f"{check.divisor} is not zero",
    StepAboveZero: lambda check: f"{check.step} is above zero",
    Precondition: lambda check: f"required by the kernel: {check.text}",
    BlockCondition: lambda check: f"required by the kernel: {check.text}",
}


def shared_dims(signature: Signature) -> Iterator[str]:
    """The extents that the signature ties together, which every launch compares."""
    for param, axis, dim in signature.named_axes():
        here = f"{param.name}.shape[{axis}]"
        if isinstance(dim, int) or dim in signature.static_dims:
            yield f"{here} == {dim}"
        elif signature.homes[dim] != (param.name, axis):
            home, home_axis = signature.homes[dim]
            yield f"{here} == {home}.shape[{home_axis}]  ({dim})"

"""`tilewright doctor`: the parts of this machine, the missing ones, and the commands that help."""

from __future__ import annotations

import os

import click
from rich.table import Table
from rich.text import Text

from tilewright.cli.options import json_option
from tilewright.cli.screen import Screen
from tilewright.cli.survey import Finding, PartState, survey

__all__ = ["doctor_command"]

_MARKS = {
    PartState.GOOD: Text("✓", "good"),
    PartState.ABSENT: Text("–", "soft"),
    PartState.WRONG: Text("✗", "bad"),
}


@click.command("doctor")
@json_option
@click.pass_context
def doctor_command(ctx: click.Context, as_json: bool) -> None:
    """Report the missing parts of this machine, and how to install them."""
    screen: Screen = ctx.obj
    with screen.working("inspecting this machine …"):
        findings = list(survey(os.environ))
    is_well = all(finding.state is not PartState.WRONG for finding in findings)
    if as_json:
        screen.answer({"ok": is_well, "findings": [finding.to_json() for finding in findings]})
    else:
        _show(screen, findings, is_well)
    ctx.exit(0 if is_well else 1)


def _show(screen: Screen, findings: list[Finding], is_well: bool) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(_MARKS[finding.state], finding.name, Text(finding.detail))
    screen.out.print(table)
    screen.out.print()
    for fix in dict.fromkeys(finding.fix for finding in findings if finding.fix):
        names = ", ".join(finding.name for finding in findings if finding.fix == fix)
        screen.out.print(Text.assemble((f"for {names}: ", "soft"), (fix, "title")), soft_wrap=True)
    screen.out.print(Text(_verdict(findings, is_well), "good" if is_well else "bad"))


def _verdict(findings: list[Finding], is_well: bool) -> str:
    if not is_well:
        return "something is missing here"
    has_gpu = any(finding.name == "a kernel on cuda:0" for finding in findings)
    return "kernels run on the GPU and on the CPU" if has_gpu else "kernels run on the CPU"

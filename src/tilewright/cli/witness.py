"""`tilewright witness FILE::kernel`: the search for a counter-example, in a child process.

`explain` runs it as a command because a suspicious kernel may never end. The command is hidden from
the list of commands.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from tilewright.cli.loading import load_kernel
from tilewright.cli.options import read_settings
from tilewright.cli.screen import Screen
from tilewright.witness.search import Suspects, find_witness

__all__ = ["search_elsewhere", "show_witness", "witness_command"]

_PATIENCE = 60.0  # seconds


@click.command("witness", hidden=True)
@click.argument("address", metavar="FILE::KERNEL")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE")
@click.option("--line", "lines", multiple=True, type=int, help="Only failures on this line.")
@click.option("--refused", is_flag=True, help="The kernel is refused without changes.")
@click.pass_obj
def witness_command(
    screen: Screen,
    address: str,
    settings: tuple[str, ...],
    lines: tuple[int, ...],
    refused: bool,
) -> None:
    """Search for a launch on which a kernel races or leaves its bounds, and print JSON."""
    kernel = load_kernel(address)
    suspects = Suspects(frozenset(lines), refused)
    witness = find_witness(kernel, read_settings(kernel.signature, settings), suspects)
    screen.answer(None if witness is None else witness.to_json())


def search_elsewhere(
    address: str, settings: Sequence[str], lines: Iterable[int], *, refused: bool
) -> dict[str, Any] | None:
    """Search in a child process; a process that does not end has found nothing."""
    command = [sys.executable, "-m", "tilewright", "witness", address]
    command += [part for setting in settings for part in ("--set", setting)]
    command += [part for line in sorted(set(lines)) for part in ("--line", str(line))]
    command += ["--refused"] if refused else []
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return found


def show_witness(out: Console, witness: dict[str, Any] | None) -> None:
    """A counter-example as text, or the remark that none was found."""
    if witness is None:
        out.print(Text("no small launch was found that fails", "soft"))
        return
    out.print(Text("counter-example: ", "bad") + Text(witness["kind"], "title"))
    for argument in witness["arguments"]:
        out.print(Text(f"  {argument}"), soft_wrap=True)
    for line in witness["failure"].splitlines():
        out.print(Text(f"  → {line.strip()}"), soft_wrap=True)

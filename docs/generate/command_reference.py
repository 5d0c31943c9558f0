"""Pages about the command line and the environment variables."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields

import click
from page_text import block, page, prose, table

import tilewright.cli
from tilewright.settings import Settings

__all__ = ["commands_page", "environment_page"]


def commands_page() -> str:
    """Every command with its arguments and options."""
    parts = list(_commands(tilewright.cli.main, "tilewright"))
    exits = prose(tilewright.cli).split("\n\n", 1)[1].partition(" `ending` ")[0]
    return page("Commands", *parts, "## Exit codes", exits)


def _commands(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, terminal_width=90)
    usage = " ".join(command.collect_usage_pieces(context))
    if " " in name:
        yield f"{'#' * (name.count(' ') + 1)} {name}"
    yield block(f"{name} {usage}", "sh")
    if command.help:
        yield _help(command.help)
    rows = [row for parameter in command.params if (row := _option(parameter, context))]
    if rows:
        yield table(("option", "meaning"), rows)
    if isinstance(command, click.Group):
        for child in sorted(command.commands):
            yield from _commands(command.commands[child], f"{name} {child}")


def _help(text: str) -> str:
    """The help of a command; `\\b` marks a block whose lines stay."""
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        block(part.replace("\b", "").strip("\n")) if part.startswith("\b") else prose(part)
        for part in parts
    )


def _option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    record = parameter.get_help_record(context)
    return (f"`{record[0]}`", record[1]) if record and record[1] else None


def environment_page() -> str:
    """Every environment variable, from the settings that read them."""
    rows = []
    for setting in fields(Settings):
        variable = setting.metadata["variable"]
        default = setting.default
        shown = "" if default in (None, "", ()) else f"{default:,}"
        rows.append((f"`{variable.name}`", variable.doc, shown))
    return page(
        "Environment variables",
        "Tilewright reads these variables once, when a process first needs them. An empty variable "
        "counts as absent, and an unreadable one is an error that names it.",
        table(("variable", "meaning", "default"), rows),
        "`~` at the beginning of a folder is your home. `tilewright doctor` shows the parts of the "
        "machine that are found with them.",
    )

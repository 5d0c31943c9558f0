"""`tilewright cache`: list, measure and clear the folder of compiled kernels."""

from __future__ import annotations

import time

import click
from rich.table import Table
from rich.text import Text

from tilewright.cli.options import json_option
from tilewright.cli.screen import BadInput, Screen
from tilewright.files.private_files import Unusable, check_root, is_absent, is_homeless
from tilewright.jit.cache.disk import Kept, kept_kernels, store_of
from tilewright.jit.cache.store import FileStore
from tilewright.runtime.memory.pool import in_units
from tilewright.settings import current_settings

__all__ = ["cache_command"]

_SPANS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


@click.group("cache")
def cache_command() -> None:
    """Manage the compiled kernels on disk."""


@cache_command.command("ls")
@json_option
@click.pass_context
def ls_command(ctx: click.Context, as_json: bool) -> None:
    """List the kernels, the most recently used first."""
    kernels = sorted(kept_kernels(_store()), key=lambda kept: kept.last_used, reverse=True)
    screen: Screen = ctx.obj
    if as_json:
        screen.answer([vars(kept) for kept in kernels])
        return
    table = Table("kernel", "made for", "code", "last used", box=None)
    for kept in kernels:
        cells = kept.kernel, _without_name(kept), in_units(kept.nbytes), _ago(kept.last_used)
        table.add_row(*map(Text, cells))
    screen.out.print(table if kernels else Text(f"no kernels in {_store().root}"))
    _tell_reason(screen)


@cache_command.command("stats")
@json_option
@click.pass_context
def stats_command(ctx: click.Context, as_json: bool) -> None:
    """Show the path of the folder and its size."""
    store = _store()
    used = sum(file.nbytes for file in store.files())
    numbers = {
        "folder": str(store.root),
        "kernels": sum(1 for _ in kept_kernels(store)),
        "bytes": used,
        "limit": store.limit,
    }
    screen: Screen = ctx.obj
    if as_json:
        screen.answer(numbers)
        return
    kernels = f"{numbers['kernels']} kernel{'' if numbers['kernels'] == 1 else 's'}"
    screen.out.print(Text(f"{kernels} in {store.root}"), soft_wrap=True)
    screen.out.print(f"{in_units(used)} of {in_units(store.limit)}")
    _tell_reason(screen)


@cache_command.command("clear")
@click.pass_context
def clear_command(ctx: click.Context) -> None:
    """Remove every compiled kernel; the next use compiles it again."""
    store = _store()
    screen: Screen = ctx.obj
    screen.out.print(Text(f"{store.clear()} files removed from {store.root}"), soft_wrap=True)
    _tell_reason(screen)


def _tell_reason(screen: Screen) -> None:
    """The reason why an existing folder is not used, if any."""
    store = _store()
    try:
        if is_homeless(store.root) or not is_absent(store.root):
            check_root(store.root)
        if not is_absent(store.folder):
            store.check()
    except Unusable as error:
        screen.err.print(Text(f"kernels are not kept: {error}"), soft_wrap=True)


def _store() -> FileStore:
    store = store_of(current_settings())
    if store is None:
        raise BadInput("kernels are not kept: TILEWRIGHT_CACHE is `off`")
    return store


def _without_name(kept: Kept) -> str:
    return kept.made_for.removeprefix(f"`{kept.kernel}` specialised for ")


def _ago(moment: float) -> str:
    seconds = max(0, int(time.time() - moment))
    for name, length in _SPANS:
        if seconds >= length:
            count = seconds // length
            return f"{count} {name}{'' if count == 1 else 's'} ago"
    return "now"

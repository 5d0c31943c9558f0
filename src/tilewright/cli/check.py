"""`tilewright check FILE…`: unsafe code and remaining checks in kernels, mistakes in host code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tilewright.cli.check_host import HostReview, review_host_code
from tilewright.cli.check_kernel import ExternalReview, Review, review
from tilewright.cli.loading import FileDeclarations, load_declared
from tilewright.cli.options import TARGETS, json_option, read_settings, sample_text
from tilewright.cli.screen import BadInput, Screen, error_text
from tilewright.errors import TilewrightError
from tilewright.frontend.signature.samples import settable_names
from tilewright.kernel import Kernel
from tilewright.source import SourceFile

__all__ = ["check_command"]


@click.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--target", type=click.Choice(TARGETS), metavar="sm_NN", help="The GPU to check for.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Choose a static dim, a constant or a dtype, in every kernel that has it: --set BM=64.",
)
@click.option("--host", "only_host", is_flag=True, help="Check host code alone; no file is run.")
@click.option("--deny-unsafe", is_flag=True, help="Fail if anything is unsafe.")
@click.option("--deny-checks", is_flag=True, help="Fail if a check is left in a kernel.")
@json_option
@click.pass_obj
@click.pass_context
def check_command(
    ctx: click.Context,
    screen: Screen,
    /,
    files: tuple[Path, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """List unsafe code, with its reasons, and the remaining checks in the kernels of some files.

    Host code is followed without being run: an operation that is built and never run, a tensor that
    is used while a built operation holds it or after it was moved, one launch that writes a tensor
    and uses it twice. Files are imported for their kernels afterwards, except with --host.

    Kernels of other compilers (`tw.external`) are unsafe as a whole.

    The exit code is 0 if every kernel compiles and nothing wrong or denied was found, else 1. A
    kernel that was not compiled, such as one with a constant without a default, counts as unknown.
    """
    with screen.working("checking host code"):
        hosts = [review_host_code(path) for path in files]
    try:
        declared = [] if options["only_host"] else _load_all(screen, files)
    except (BadInput, TilewrightError):
        _show_host(screen.err, hosts)  # perhaps the reason
        raise
    with screen.working("checking kernels"):
        kernels = [(k, path) for path, found in declared for k in found.kernels]
        target, settings = options["target"], options["settings"]
        _refuse_unknown(settings, [kernel for kernel, _ in kernels])
        reviews = [review(k, path, target, _chosen(k, settings)) for k, path in kernels]
        externals = [ExternalReview(k, path) for path, found in declared for k in found.externals]
    deny_unsafe = options["deny_unsafe"]
    faults = [*_faults(reviews, deny_unsafe=deny_unsafe, deny_checks=options["deny_checks"])]
    if deny_unsafe:
        faults += [
            f"{one.path}::{one.kernel.__name__} is external (--deny-unsafe)" for one in externals
        ]
    faults += [fault for one in hosts for fault in one.faults]
    if as_json:
        answer = {"kernels": [one.to_json() for one in reviews], "faults": faults}
        answer |= {"host": [entry for one in hosts for entry in one.to_json()]}
        screen.answer(answer | {"external_kernels": [one.to_json() for one in externals]})
    else:
        _show_host(screen.out, hosts)
        if not options["only_host"]:
            _show(screen.out, reviews, externals)
        for fault in faults:
            screen.err.print(Text(fault, "bad"), soft_wrap=True)
    ctx.exit(1 if faults else 0)


def _load_all(screen: Screen, files: Sequence[Path]) -> list[tuple[Path, FileDeclarations]]:
    with screen.working("loading kernels"):
        return [(path, load_declared(path)) for path in files]


def _chosen(kernel: Kernel, settings: Sequence[str]) -> dict[str, Any]:
    """The settings that concern this kernel; others concern other kernels."""
    names = settable_names(kernel.signature)
    mine = [one for one in settings if one.partition("=")[0] in names or "=" not in one]
    return read_settings(kernel.signature, mine)


def _refuse_unknown(settings: Sequence[str], kernels: Sequence[Kernel]) -> None:
    known = {name for kernel in kernels for name in settable_names(kernel.signature)}
    for setting in settings:
        name = setting.partition("=")[0]
        if name not in known:
            names = ", ".join(sorted(known)) or "nothing to choose"
            raise BadInput(f"--set {setting}: no kernel here has {name}; there are {names}")


def _faults(reviews: Sequence[Review], *, deny_unsafe: bool, deny_checks: bool) -> Iterator[str]:
    """The reasons for a failure, one line for each kernel."""
    for one in reviews:
        name = f"{one.path}::{one.kernel.__name__}"
        if one.refused:
            yield f"{name} is refused"
        if one.left_out:
            yield f"{name} was not compiled: {one.left_out}, with --set NAME=VALUE"
        if deny_unsafe and one.is_unsafe:
            yield f"{name} is unsafe (--deny-unsafe)"
        if deny_checks and one.checks:
            yield f"{name} has {_counted(len(one.checks), 'check')} left in it (--deny-checks)"


def _counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


# --- text output ----------------------------------------------------------------------------------


def _show(out: Console, reviews: Sequence[Review], externals: Sequence[ExternalReview]) -> None:
    paths = [*(one.path for one in reviews), *(one.path for one in externals)]
    for path in dict.fromkeys(paths):
        out.print(Text(str(path), "title"))
        for one in (one for one in reviews if one.path == path):
            _show_one(out, one)
        for external in (one for one in externals if one.path == path):
            _show_external(out, external)
        out.print()
    unsafe = sum(one.is_unsafe for one in reviews)
    safe = sum(one.verdict == "safe" for one in reviews)
    unknown = len(reviews) - safe - unsafe
    blocks = sum(len(one.blocks) for one in reviews)
    checks = sum(len(one.checks) for one in reviews)
    parts = [
        f"{_counted(len(reviews), 'kernel')}: {safe} safe, {unsafe} unsafe"
        + (f", {unknown} not compiled" if unknown else ""),
        _counted(blocks, "unsafe block"),
        f"{_counted(checks, 'check')} left in kernels",
    ]
    if externals:
        parts.insert(1, _counted(len(externals), "external kernel"))
    out.print(Text("; ".join(parts)))


def _show_host(out: Console, hosts: Sequence[HostReview]) -> None:
    for one in hosts:
        if one.findings:
            out.print(error_text(one.text), soft_wrap=True)
            out.print()


def _show_one(out: Console, one: Review) -> None:
    head = Text(f"  {one.kernel.__name__}  ")
    style = "good" if one.verdict == "safe" else "bad"
    out.print(head + Text(one.verdict, style), soft_wrap=True)
    rows = Table.grid(padding=(0, 2, 0, 0))
    here = one.kernel.source.file
    for block in one.blocks:
        place = _place(here, block.span.file, block.span.line)
        rows.add_row("   ", place, Text("unsafe", "bad"), Text(block.reason))
    for entry in one.checks:
        subject = entry.subject if entry.axis is None else f"{entry.subject}, axis {entry.axis}"
        span = None if entry.location is None else entry.location.span
        place = "" if span is None else _place(here, span.file, span.line)
        style = entry.outcome.value
        rows.add_row("   ", place, Text("check", style), Text(f"{subject}: {entry.reason}"))
    if rows.row_count:
        out.print(rows)
    if one.samples:
        out.print(Text(f"    {sample_text(one.samples)}", "soft"), soft_wrap=True)
    if one.left_out:
        out.print(Text(f"    not compiled: {one.left_out}", "soft"), soft_wrap=True)
    if one.refused:
        out.print(error_text(one.refused), soft_wrap=True)


def _show_external(out: Console, one: ExternalReview) -> None:
    out.print(Text(f"  {one.kernel.__name__}  ") + Text("external kernel", "bad"), soft_wrap=True)
    rows = Table.grid(padding=(0, 2, 0, 0))
    place = f"line {one.kernel.site.line}"
    rows.add_row("   ", place, Text("unsafe", "bad"), Text(one.kernel.reason))
    out.print(rows)


def _place(here: SourceFile, file: SourceFile, line: int) -> str:
    """A line number in the kernel's own file, or with the name of another file."""
    return f"line {line}" if file.path == here.path else f"{Path(file.path).name}:{line}"

"""`tilewright repro BUNDLE`: replay a failed compilation, and reduce it.

The assembler gets the bytecode of the bundle, which is read and verified first. The front end needs
the kernel's source, which is Python code of the bundle's author: it runs with --run-source alone.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from tilewright.backends.cuda.toolchain import OPT_LEVEL, find_toolchain
from tilewright.bytecode import decode
from tilewright.check.placement import Placement
from tilewright.cli.loading import load_kernel
from tilewright.cli.options import json_option
from tilewright.cli.screen import BadInput, Screen
from tilewright.errors import TilewrightError, ToolchainError
from tilewright.ir.text import module_text
from tilewright.ir.verify.verifier import verify
from tilewright.jit.compile.bundles import (
    ASSEMBLER,
    SOURCE,
    BadBundle,
    Bundle,
    read_bundle,
)
from tilewright.jit.compile.reducing import ReducedModule, reduce_bytecode
from tilewright.jit.compile.specialization_data import Unwritten, read_specialization
from tilewright.version import VERSION

__all__ = ["repro_command"]

_REDUCED = "reduced.tilebc"


@click.command("repro")
@click.argument("path", type=click.Path(path_type=Path), metavar="BUNDLE")
@click.option("--run-source", is_flag=True, help="Run the Python source of the bundle.")
@click.option("--reduce", "reduces", is_flag=True, help="Look for a smaller module that fails.")
@click.option(
    "--tries", type=click.IntRange(1), default=200, show_default=True, help="Modules to try."
)
@json_option
@click.pass_obj
@click.pass_context
def repro_command(ctx: click.Context, screen: Screen, /, path: Path, **options: Any) -> None:
    """Replay the bundle of a failed compilation.

    A bundle whose assembler failed is assembled again. One of a failure in the front end needs its
    source, which is Python code: read it, and allow it with --run-source. With --reduce, ops are
    removed as long as the assembler fails, and the result is written beside the bundle's files.

    The exit code is 1 if the failure is reproduced, and 0 if the kernel compiles here.
    """
    try:
        bundle = read_bundle(path)
    except BadBundle as error:
        raise BadInput(str(error)) from None
    if options["reduces"] and bundle.fields.stage != ASSEMBLER:
        raise BadInput("--reduce is for bundles whose assembler failed: this one has no bytecode")
    with screen.working("replaying"):
        failure = _replay(bundle, run_source=options["run_source"])
    answer = _told(bundle, failure)
    if failure is not None and options["reduces"]:
        with screen.working("reducing"):
            answer |= _reduced(bundle, options["tries"])
    if options["as_json"]:
        screen.answer(answer)
    else:
        _show(screen, answer)
    ctx.exit(0 if failure is None else 1)


def _replay(bundle: Bundle, *, run_source: bool) -> str | None:
    """The failure of a bundle in this checkout, with its kind; None if there is none."""
    if bundle.fields.stage == ASSEMBLER:
        return _failure_of(bundle, _bytecode_of(bundle))
    if not run_source:
        raise BadInput(
            f"the front end compiles {bundle.path / SOURCE}, which is Python code and runs when it"
            " is loaded: read it, and give --run-source if you trust it"
        )
    return _compile_source(bundle)


def _bytecode_of(bundle: Bundle) -> bytes:
    """The bytecode of a bundle, read and verified."""
    if bundle.bytecode is None:
        raise BadInput(f"{bundle.path} has no bytecode, which a bundle of the assembler has")
    try:
        verify(decode(bundle.bytecode).module, bundle.fields.target)
    except TilewrightError as error:
        raise BadInput(f"the bytecode of {bundle.path} is no valid Tile IR: {error}") from None
    return bundle.bytecode


def _failure_of(bundle: Bundle, data: bytes) -> str | None:
    level = bundle.fields.opt_level
    try:
        tools = find_toolchain()
    except ToolchainError as error:
        raise BadInput(str(error)) from None
    try:
        level = OPT_LEVEL if level is None else level
        tools.assemble(data, bundle.fields.target, opt_level=level)
    except ToolchainError as error:
        return f"{type(error).__name__}: {error}"
    return None


def _compile_source(bundle: Bundle) -> str | None:
    try:
        made_for = read_specialization(bundle.fields.specialisation)
        placement = Placement[bundle.fields.placement]
    except (Unwritten, KeyError) as error:
        raise BadInput(f"{bundle.path} has no specialisation to compile for: {error}") from None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / SOURCE
        source.write_text(bundle.source, encoding="utf-8")
        kernel = load_kernel(f"{source}::{bundle.fields.kernel}")
        try:
            kernel.specialized(made_for, placement)
        except Exception as error:  # noqa: BLE001 (an internal error is any exception)
            return f"{type(error).__name__}: {error}"
    return None


def _told(bundle: Bundle, failure: str | None) -> dict[str, Any]:
    """The answer as plain data."""
    fields = bundle.fields
    tools = "none"
    with suppress(ToolchainError):
        tools = find_toolchain().version
    return {
        "bundle": str(bundle.path),
        "kernel": fields.described,
        "stage": fields.stage,
        "then": {
            "failure": f"{fields.error_kind}: {fields.error}",
            "package": fields.package,
            "tools": fields.tools,
        },
        "here": {"failure": failure, "package": VERSION, "tools": tools},
    }


def _reduced(bundle: Bundle, tries: int) -> dict[str, Any]:
    """Reduce the bytecode of a bundle and write the result beside it."""
    target = bundle.fields.target

    def still_fails(data: bytes) -> bool:
        return _failure_of(bundle, data) is not None

    found: ReducedModule = reduce_bytecode(_bytecode_of(bundle), target, still_fails, tries)
    path = bundle.path / _REDUCED
    text = path.with_suffix(".tileir")
    path.write_bytes(found.bytecode)
    text.write_text(module_text(decode(found.bytecode).module), encoding="utf-8")
    return {
        "reduced": {
            "bytecode": str(path),
            "text": str(text),
            "ops": found.ops,
            "ops_before": found.ops_before,
            "tries": found.tries,
        }
    }


def _show(screen: Screen, answer: dict[str, Any]) -> None:
    then, here = answer["then"], answer["here"]
    screen.out.print(Text(answer["kernel"], "title"), soft_wrap=True)
    screen.out.print(Text(f"then  {json.dumps(then['failure'])[1:-1]}"), soft_wrap=True)
    shown = here["failure"]
    verdict = Text("it compiles", "good") if shown is None else Text(shown, "bad")
    screen.out.print(Text("here  ") + verdict, soft_wrap=True)
    for name in ("package", "tools"):
        if then[name] != here[name]:
            screen.out.print(Text(f"{name} {then[name]} then, {here[name]} here", "soft"))
    if "reduced" in answer:
        found = answer["reduced"]
        screen.out.print(
            Text(f"{found['ops']} of {found['ops_before']} ops still fail: {found['text']}"),
            soft_wrap=True,
        )

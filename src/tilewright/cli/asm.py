"""`tilewright asm FILE`: assemble Tile IR text to bytecode."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.bytecode import VERSIONS, encode, required_version
from tilewright.cli.screen import BadInput, Screen
from tilewright.cli.tile_ir_files import check_rules, read_text, write_bytes
from tilewright.errors import CompileError

__all__ = ["asm_command"]

_SUFFIX = ".tileirbc"
_VERSIONS = {".".join(map(str, version)): version for version in VERSIONS}


@click.command("asm")
@click.argument("source", metavar="FILE.tileir", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"Output file (default: beside the text, ending in {_SUFFIX}).",
)
@click.option(
    "--bytecode",
    "wanted",
    type=click.Choice(list(_VERSIONS)),
    help="Bytecode version (default: the oldest supported one that can encode the module).",
)
@click.option("--debug-info/--no-debug-info", help="Map ops to the lines of the text.")
@click.pass_obj
def asm_command(
    screen: Screen, source: Path, output: Path | None, wanted: str | None, debug_info: bool
) -> None:
    """Assemble Tile IR text, written or edited by hand, to bytecode.

    The text format is that of `tilewright disasm` and NVIDIA's tileirdisasm. The module is verified
    like a compiled one; a violation is reported with its line.
    """
    module = read_text(source)
    check_rules(source, module)
    version = required_version(module) if wanted is None else _VERSIONS[wanted]
    try:
        encoded = encode(module, version, locations=debug_info)
    except CompileError as error:
        raise BadInput(f"{source}: {error}") from None
    path = source.with_suffix(_SUFFIX) if output is None else output
    write_bytes(path, encoded.data)
    entries = ", ".join(function.name for function in module.functions) or "none"
    dotted = ".".join(map(str, version))
    screen.out.print(
        f"{path}, {len(encoded.data):,} bytes, bytecode {dotted}, entries: {entries}",
        soft_wrap=True,
    )

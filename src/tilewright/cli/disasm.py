"""`tilewright disasm`: Tile IR text of a kernel or of a bytecode file."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.backends.cuda.explain import AssemblyError
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.cli.loading import SEPARATOR, load_kernel
from tilewright.cli.options import kernel_options, specialization_for
from tilewright.cli.screen import BadInput, Screen
from tilewright.cli.tile_ir_files import check_rules, read_bytecode, read_bytes, text_of
from tilewright.ir.text import module_text

__all__ = ["disasm_command"]


@click.command("disasm")
@click.argument("source", metavar="FILE.tileirbc | FILE::KERNEL")
@kernel_options
@click.option(
    "-g",
    "--debug-info",
    is_flag=True,
    help="Show source locations of a file, as NVIDIA's tileirdisasm prints them.",
)
@click.pass_obj
def disasm_command(
    screen: Screen, source: str, settings: tuple[str, ...], target: str | None, debug_info: bool
) -> None:
    """Print Tile IR as text.

    A kernel is compiled and printed. A bytecode file, of any producer, is read, verified and
    printed in the format of NVIDIA's tileirdisasm, which need not be installed.
    """
    if SEPARATOR in source or source.endswith(".py"):
        kernel = load_kernel(source)
        compiled = kernel.specialized(specialization_for(kernel, settings, target))
        click.echo(module_text(compiled.module), nl=False)
        return
    if settings or target:
        raise BadInput("--set and --target are for a kernel; a file is printed as it is")
    path = Path(source)
    if debug_info:
        with screen.working("tileirdisasm …"):
            text = _with_locations(path)
    else:
        decoded = read_bytecode(path)
        check_rules(path, decoded.module, decoded.version)
        text = text_of(path, decoded.module)
    click.echo(text, nl=False)


def _with_locations(path: Path) -> str:
    data = read_bytes(path)
    try:
        return find_toolchain().disassemble(data, debug_info=True)
    except AssemblyError as error:
        reason = f": {error.reasons[0]}" if error.reasons else ""
        raise BadInput(f"{path} is no Tile IR bytecode that can be read{reason}") from None

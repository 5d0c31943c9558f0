"""`tilewright disasm`: Tile IR as text, of a kernel or of a file with bytecode."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.backends.cuda.explain import AssemblyError
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.cli.loading import SEPARATOR, load_kernel
from tilewright.cli.options import kernel_options, specialization_for
from tilewright.cli.screen import BadInput, Screen
from tilewright.ir.text import module_text

__all__ = ["disasm_command"]

_ELF = b"\x7fELF"


@click.command("disasm")
@click.argument("source", metavar="FILE.tileirbc | FILE::KERNEL")
@kernel_options
@click.option("-g", "--debug-info", is_flag=True, help="Show source locations, of a file.")
@click.pass_obj
def disasm_command(
    screen: Screen, source: str, settings: tuple[str, ...], target: str | None, debug_info: bool
) -> None:
    """Print Tile IR as text.

    A kernel is compiled and printed; a file with bytecode is read by NVIDIA's tileirdisasm.
    """
    if SEPARATOR in source or source.endswith(".py"):
        kernel = load_kernel(source)
        compiled = kernel.specialized(specialization_for(kernel, settings, target))
        click.echo(module_text(compiled.module), nl=False)
        return
    if settings or target:
        raise BadInput("--set and --target are for a kernel; a file is printed as it is")
    data = _read(Path(source))
    with screen.working("tileirdisasm …"):
        text = _disassembled(source, data, debug_info)
    click.echo(text, nl=False)


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if data.startswith(_ELF):
        raise BadInput(f"{path} is machine code, not Tile IR: nvdisasm or cuobjdump print it")
    return data


def _disassembled(source: str, data: bytes, debug_info: bool) -> str:
    try:
        return find_toolchain().disassemble(data, debug_info=debug_info)
    except AssemblyError as error:
        reason = f": {error.reasons[0]}" if error.reasons else ""
        raise BadInput(f"{source} is no Tile IR bytecode that can be read{reason}") from None

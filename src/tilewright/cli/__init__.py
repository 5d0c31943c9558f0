"""The command line, `tilewright`: a group of commands and what their exit codes mean.

0: all is well. 1: a kernel was refused, a result was wrong, or something is missing here. 2: the
command was asked for something it cannot do, or a tool that it needs is not installed.
"""

from __future__ import annotations

from typing import Any

import click

from tilewright.backends.cuda.explain import AssemblyError
from tilewright.cli.assembling import asm_command
from tilewright.cli.benching import bench_command
from tilewright.cli.caching import cache_command
from tilewright.cli.checking import check_command
from tilewright.cli.compiling import compile_command
from tilewright.cli.cutile_programs import cutile_command
from tilewright.cli.demo import demo_command
from tilewright.cli.disassembling import disasm_command
from tilewright.cli.doctor import doctor_command
from tilewright.cli.explain import explain_command
from tilewright.cli.running import run_bytecode_command
from tilewright.cli.screen import Screen
from tilewright.cli.tuning import tune_command
from tilewright.cli.witnessing import witness_command
from tilewright.errors import TilewrightError, ToolchainError
from tilewright.version import VERSION

__all__ = ["main"]

_EXIT_CODES: dict[type, int] = {TilewrightError: 1, ToolchainError: 2, AssemblyError: 1}


class _Commands(click.Group):
    """A group that tells our own exceptions without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TilewrightError as error:
            ctx.obj.refuse(type(error).__name__, str(error))
            ctx.exit(next(_EXIT_CODES[kind] for kind in type(error).__mro__ if kind in _EXIT_CODES))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="tilewright")
@click.pass_context
def main(ctx: click.Context) -> None:
    """GPU kernels in Python that cannot race and cannot touch memory they do not own."""
    ctx.obj = Screen.of_process()


for _command in (
    asm_command,
    bench_command,
    cache_command,
    check_command,
    compile_command,
    cutile_command,
    demo_command,
    disasm_command,
    doctor_command,
    explain_command,
    run_bytecode_command,
    tune_command,
    witness_command,
):
    main.add_command(_command)

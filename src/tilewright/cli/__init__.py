"""The command line, `tilewright`: the group of commands, and the exit codes.

0: success. 1: a refused kernel, a wrong result, or a missing part of the machine. 2: an impossible
request, or a tool that is not installed. 3: a bug in tilewright. 130: Ctrl-C. `ending` maps
exceptions to these codes.
"""

from __future__ import annotations

import click

from tilewright.cli.asm import asm_command
from tilewright.cli.bench import bench_command
from tilewright.cli.cache import cache_command
from tilewright.cli.check import check_command
from tilewright.cli.compile import compile_command
from tilewright.cli.cutile import cutile_command
from tilewright.cli.demo import demo_command
from tilewright.cli.disasm import disasm_command
from tilewright.cli.doctor import doctor_command
from tilewright.cli.ending import Commands
from tilewright.cli.explain import explain_command
from tilewright.cli.language import bench_llm_command, chat_command, generate_command
from tilewright.cli.repro import repro_command
from tilewright.cli.run_bytecode import run_bytecode_command
from tilewright.cli.screen import Screen
from tilewright.cli.tune import tune_command
from tilewright.cli.witness import witness_command
from tilewright.version import VERSION

__all__ = ["main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="tilewright")
@click.option("--traceback", is_flag=True, help="Show the traceback of any error.")
@click.pass_context
def main(ctx: click.Context, traceback: bool) -> None:
    """GPU kernels in Python that cannot race and cannot touch memory they do not own."""
    ctx.obj = Screen.of_process()


for _command in (
    asm_command,
    bench_command,
    bench_llm_command,
    cache_command,
    chat_command,
    check_command,
    compile_command,
    cutile_command,
    demo_command,
    disasm_command,
    doctor_command,
    explain_command,
    generate_command,
    repro_command,
    run_bytecode_command,
    tune_command,
    witness_command,
):
    main.add_command(_command)

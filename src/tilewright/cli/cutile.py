"""`tilewright cutile PROGRAM.py`: run an unmodified cuTile Python program on the CPU."""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
from pathlib import Path

import click

from tilewright.cli.loading import told
from tilewright.cli.screen import BadInput, ProgramFailed, Screen
from tilewright.errors import TilewrightError, ToolchainError

__all__ = ["cutile_command"]


@click.command("cutile", context_settings={"ignore_unknown_options": True})
@click.option("--race-check", is_flag=True, help="Detect races, between and within blocks.")
@click.option(
    "--strict", is_flag=True, help="Report everything Tile IR leaves undefined, even if GPUs agree."
)
@click.argument("program", metavar="PROGRAM.py")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.pass_obj
def cutile_command(
    screen: Screen, program: str, arguments: tuple[str, ...], race_check: bool, strict: bool
) -> None:
    """Run a cuTile Python program with its kernels on the CPU.

    `cuda.tile.launch` runs on the CPU, and torch tensors on "cuda" live there. A kernel that races,
    or whose behaviour Tile IR leaves undefined, ends the program with its line.
    """
    path = Path(program)
    if not path.is_file():
        raise BadInput(f"{program}: there is no such file")
    if importlib.util.find_spec("cuda.tile") is None:
        raise ToolchainError("cuTile Python is not installed: pip install cuda-tile")
    cutile = importlib.import_module("tilewright.cutile")
    if "torch" in path.read_text(encoding="utf-8", errors="replace"):
        importlib.import_module("torch")  # before "cuda" is redirected
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [program, *arguments], str(path.parent)
    try:
        with cutile.on_cpu(strict=strict, race_check=race_check):
            runpy.run_path(program, run_name="__main__")
    except (TilewrightError, click.ClickException):
        raise
    except Exception as error:
        raise ProgramFailed(told(path, error)) from error
    finally:
        sys.argv, sys.path[0] = before

"""Builds the extension with the compiler of this Python; imports nothing else of this package."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

__all__ = ["build"]

_FOLDER = Path(__file__).parent
# Options of the compiler; a slot is read as an object and as an offset, so aliases are not strict.
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing")


def build(checksum: int | None, folder: Path = _FOLDER, *, flags: tuple[str, ...] = ()) -> Path:
    """Compile the sources, with their checksum, into a folder; gives the path of the extension."""
    target = folder / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    # The compiler that links extensions of this Python, as setuptools has it.
    linking = os.environ.get("LDSHARED") or sysconfig.get_config_var("LDSHARED")
    if not linking:
        raise OSError("this Python names no compiler")
    include = sysconfig.get_paths()["include"]
    sources = [str(path) for path in sorted(_FOLDER.glob("*.c"))]
    options = [*_FLAGS, *flags, f"-DCHECKSUM={checksum}u", f"-I{include}"]
    subprocess.run([*shlex.split(linking), *options, *sources, "-o", str(target)], check=True)
    return target

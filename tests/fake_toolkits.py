"""Toolkits made of shell scripts, to try what goes wrong without breaking a real one."""

from __future__ import annotations

import stat
from pathlib import Path

LIBRARY = "lib/libnvvm.so.4"


def banner(version: str) -> str:
    """What the tools print for `--version`, and what libnvvm holds as text."""
    release = ".".join(version.split(".")[:2])
    return f"Cuda compilation tools, release {release}, V{version}"


def script(path: Path, text: str) -> None:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def program(path: Path, version: str, text: str = "exit 0") -> None:
    """A tool that tells its version and otherwise does what `text` says."""
    told = f'if [ "$1" = --version ]; then echo "{banner(version)}"; exit 0; fi'
    script(path, f"{told}\n{text}")


def toolkit(
    root: Path,
    version: str = "13.4.92",
    *,
    without: tuple[str, ...] = (),
    tileiras: str = "exit 0",
    **versions: str,
) -> Path:
    """A toolkit of one release, but for what is left out or given another version."""
    program(root / "bin/tileiras", versions.get("tileiras_version", version), tileiras)
    program(root / "bin/ptxas", versions.get("ptxas", version))
    library = root / LIBRARY
    library.parent.mkdir(parents=True)
    text = banner(versions.get("libnvvm", version))
    library.write_bytes(b"\x7fELF" + bytes(100) + text.encode() + b"\0" + bytes(100))
    for name in without:
        (root / name).unlink()
    return root

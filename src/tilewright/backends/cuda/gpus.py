"""The GPUs of this machine as nvidia-smi lists them, including those that CUDA cannot use.

This module needs no CUDA package and opens no device.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, fields

__all__ = ["Gpu", "list_gpus"]

_QUERY = "name,compute_cap,memory.total,driver_version,power.limit,clocks.max.sm"


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi describes it."""

    name: str
    target: str
    memory: str
    driver: str
    power_limit: str = ""
    highest_clock: str = ""


def list_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that nvidia-smi lists; none if it is missing or does not answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    rows = [line.split(", ") for line in answer.stdout.splitlines()]
    return tuple(
        Gpu(name, f"sm_{capability.replace('.', '')}", *rest)
        for name, capability, *rest in (row for row in rows if len(row) == len(fields(Gpu)))
    )

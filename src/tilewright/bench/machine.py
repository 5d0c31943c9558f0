"""Facts about the machine of a measurement, without which a figure is meaningless."""

from __future__ import annotations

import datetime
import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tilewright.backends.cuda.gpus import list_gpus
from tilewright.backends.cuda.toolchain import release_here
from tilewright.runtime.devices.process import usable_cores
from tilewright.version import VERSION

__all__ = ["machine_facts"]

_PACKAGES = ("numpy", "torch", "triton", "cuda-tile", "cuda-core", "cuda-bindings")


def machine_facts() -> dict[str, Any]:
    """Return the date, the GPUs, the processor, and the versions of all relevant software."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "gpus": [asdict(gpu) for gpu in list_gpus()],
        "processor": _processor(),
        "cores": usable_cores(),
        "system": platform.system(),
        "python": platform.python_version(),
        "tilewright": VERSION,
        "tileiras": release_here(),
        **{package: _version(package) for package in _PACKAGES},
    }


def _processor() -> str:
    """Return the processor's name where the system has it, else its kind."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            names = [
                line.partition(":")[2].strip() for line in file if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

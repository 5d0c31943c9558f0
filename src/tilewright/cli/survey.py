"""The survey of this machine for `tilewright doctor`: its parts, and the missing ones.

Each part is inspected by itself, so that a broken part does not hide the others. Parts that only a
GPU needs are no fault on a machine without one.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.backends.cuda.gpus import Gpu, list_gpus
from tilewright.backends.cuda.toolkits import Inspection, Toolkit, inspect_toolkits
from tilewright.cli.options import TARGETS
from tilewright.cli.tour_kernels import add
from tilewright.errors import TilewrightError
from tilewright.native import WHY_NOT
from tilewright.runtime.devices.backend import load_backend
from tilewright.settings import Settings

__all__ = ["Finding", "PartState", "survey"]

_PACKAGES = ("numpy", "ml_dtypes")
_DRIVER_PACKAGES = ("cuda-core", "cuda-bindings")
_TOOLKIT_PACKAGES = ("nvidia-cuda-tileiras", "nvidia-cuda-nvcc", "nvidia-nvvm")
_INSTALL = "pip install tilewright"
_INSTALL_CUDA = "pip install 'tilewright[cuda]'"
_OLDEST_DRIVER = 580  # the first one that runs CUDA 13 code


class PartState(Enum):
    """The state of a part."""

    GOOD = "good"
    ABSENT = "absent"  # and not needed here
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """One part of the machine."""

    name: str
    state: PartState
    detail: str
    fix: str = ""  # a command, for a wrong part

    def to_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "name": self.name,
            "state": self.state.value,
            "detail": self.detail,
            "fix": self.fix or None,
        }


def survey(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Inspect everything, cheapest first."""
    why_no_gpu = load_backend("cuda").missing()
    gpus = list_gpus()
    has_gpu = why_no_gpu is None or bool(gpus)
    yield Finding("Python", PartState.GOOD, f"{platform.python_version()}, {sys.executable}")
    yield _launches()
    yield from (_package(name, _INSTALL, is_needed=True) for name in _PACKAGES)
    yield from (_package(name, _INSTALL_CUDA, is_needed=has_gpu) for name in _DRIVER_PACKAGES)
    # A toolkit may come from elsewhere, so its findings decide whether a package is missing.
    yield from (_package(name, _INSTALL_CUDA, is_needed=False) for name in _TOOLKIT_PACKAGES)
    yield _driver(why_no_gpu, gpus)
    yield from map(_gpu, gpus)
    found = list(_toolkits(environment, is_needed=has_gpu))
    yield from found
    yield _works("cpu")
    if why_no_gpu is None and all(finding.state is not PartState.WRONG for finding in found):
        yield _works("cuda:0")


def _launches() -> Finding:
    """The code that launches run."""
    if not WHY_NOT:
        return Finding("launches", PartState.GOOD, "in C")
    return Finding("launches", PartState.ABSENT, f"in Python, since {WHY_NOT}")


def _package(name: str, fix: str, *, is_needed: bool) -> Finding:
    try:
        return Finding(name, PartState.GOOD, metadata.version(name))
    except metadata.PackageNotFoundError:
        return _lacking(name, "not installed", fix, is_needed=is_needed)


def _lacking(name: str, detail: str, fix: str, *, is_needed: bool) -> Finding:
    if is_needed:
        return Finding(name, PartState.WRONG, detail, fix)
    return Finding(name, PartState.ABSENT, f"{detail}; only a GPU needs it")


# --- the driver and its GPUs ----------------------------------------------------------------------


def _driver(why_no_gpu: str | None, gpus: tuple[Gpu, ...]) -> Finding:
    name = "NVIDIA driver"
    if gpus and int(gpus[0].driver.partition(".")[0]) < _OLDEST_DRIVER:
        detail = f"{gpus[0].driver} is too old for CUDA 13"
        return Finding(name, PartState.WRONG, detail, f"install driver {_OLDEST_DRIVER} or newer")
    if why_no_gpu is None:
        return Finding(name, PartState.GOOD, gpus[0].driver if gpus else "loads and sees a GPU")
    if gpus:
        return Finding(name, PartState.WRONG, why_no_gpu, _INSTALL_CUDA)
    return Finding(name, PartState.ABSENT, f"{why_no_gpu}; kernels run on the CPU")


def _gpu(gpu: Gpu) -> Finding:
    detail = f"{gpu.name}, {gpu.target}, {gpu.memory}"
    if gpu.target in TARGETS:
        return Finding("GPU", PartState.GOOD, detail)
    detail += f": tileiras compiles for {TARGETS[0]} to {TARGETS[-1]} and not for this one"
    return Finding("GPU", PartState.WRONG, detail, "export CUDA_VISIBLE_DEVICES=  # to use the CPU")


# --- the toolkit ----------------------------------------------------------------------------------


def _toolkits(environment: Mapping[str, str], *, is_needed: bool) -> Iterator[Finding]:
    try:
        inspections = list(inspect_toolkits(Settings.from_environment(environment)))
    except TilewrightError as error:
        variable = str(error).partition("=")[0]
        yield Finding("environment", PartState.WRONG, str(error), f"unset {variable}")
        return
    used = next((one.toolkit for one in inspections if one.toolkit is not None), None)
    if used is None:
        fix = _INSTALL_CUDA
        if "TILEWRIGHT_TOOLKIT" in environment:
            fix = "unset TILEWRIGHT_TOOLKIT"
        detail = "; ".join(map(_problem, inspections)) or "no tileiras, ptxas and libnvvm found"
        yield _lacking("CUDA toolkit", detail, fix, is_needed=is_needed)
        return
    yield from _tools(used)
    for one in inspections:
        if one.problems and one.place in environment:  # a variable that names a missing folder
            detail = f"{_problem(one)}; {used.root} is used instead"
            yield Finding(one.place, PartState.ABSENT, f"stale: {detail}", f"unset {one.place}")


def _problem(inspection: Inspection) -> str:
    if not inspection.root.is_dir():
        return f"{inspection.place} says {inspection.root}, which does not exist"
    return str(inspection)


def _tools(toolkit: Toolkit) -> Iterator[Finding]:
    release = ".".join(map(str, toolkit.release))
    yield Finding("tileiras", PartState.GOOD, f"{toolkit.version}, {toolkit.tileiras}")
    yield Finding("ptxas", PartState.GOOD, f"release {release}, {toolkit.ptxas}")
    yield Finding("libnvvm", PartState.GOOD, f"release {release}, {toolkit.libnvvm}")
    if toolkit.tileirdisasm is None:
        yield Finding(
            "tileirdisasm", PartState.ABSENT, "not installed; only `disasm FILE` needs it"
        )
    else:
        yield Finding("tileirdisasm", PartState.GOOD, f"release {release}, {toolkit.tileirdisasm}")


# --- test kernels ---------------------------------------------------------------------------------


def _works(device: str) -> Finding:
    """Compile and run a kernel."""
    name = f"a kernel on {device}"
    started = time.perf_counter()
    try:
        with tw.device(device):
            x, y = tw.arange(1000, tw.f32), tw.ones((1000,), tw.f32)
            z = tw.zeros((1000,), tw.f32)
            add(z.partition(128), x, y).sync()
            is_right = np.array_equal(z.numpy(), np.arange(1, 1001, dtype=np.float32))
    except TilewrightError as error:
        return Finding(name, PartState.WRONG, f"{type(error).__name__}: {error}")
    if not is_right:
        return Finding(name, PartState.WRONG, "gave a wrong result: please report this")
    elapsed = time.perf_counter() - started
    return Finding(name, PartState.GOOD, f"compiled, ran and was right, in {elapsed:.2f} s")

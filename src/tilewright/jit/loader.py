"""Lazy imports: the compiler at the first call of a kernel, a backend at its first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.errors import LaunchError
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.function import KernelFunction
from tilewright.runtime.loading import LazyModule

__all__ = [
    "Program",
    "bundles",
    "bytecode",
    "compiler",
    "cpu_program",
    "cuda_explain",
    "cuda_external",
    "cuda_program",
    "disk_cache",
    "dumping",
    "load_torch",
]


if TYPE_CHECKING:
    from tilewright import bytecode
    from tilewright.backends.cpu import program as cpu_program
    from tilewright.backends.cuda import explain as cuda_explain
    from tilewright.backends.cuda import external as cuda_external
    from tilewright.backends.cuda import program as cuda_program
    from tilewright.backends.cuda.cubin import Resources
    from tilewright.jit.cache import disk as disk_cache
    from tilewright.jit.compile import bundles, compiler, dumping
else:
    cpu_program = LazyModule("tilewright.backends.cpu.program")
    cuda_explain = LazyModule("tilewright.backends.cuda.explain")
    cuda_external = LazyModule("tilewright.backends.cuda.external")
    cuda_program = LazyModule("tilewright.backends.cuda.program")
    bytecode = LazyModule("tilewright.bytecode")
    disk_cache = LazyModule("tilewright.jit.cache.disk")
    compiler = LazyModule("tilewright.jit.compile.compiler")
    bundles = LazyModule("tilewright.jit.compile.bundles")
    dumping = LazyModule("tilewright.jit.compile.dumping")


class Program(Protocol):
    """A module in executable form, not yet loaded on a device."""

    def function(self, entry: str, device: Device) -> KernelFunction:
        """One entry, loaded on a device."""

    def resources(self) -> tuple[Resources, ...]:
        """The resources of each entry; empty if the assembler does not report them."""


def load_torch() -> Any:
    """Import torch, for operators of torch."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise LaunchError(
            f"torch cannot be imported ({error}), and an operator of torch needs it"
        ) from error

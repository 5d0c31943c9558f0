"""Modules for a GPU: encoded, assembled by tileiras, loaded once on each device."""

from __future__ import annotations

import threading
from typing import cast

from tilewright.backends.cuda.device import CudaBackend
from tilewright.backends.cuda.module import POINTER, CudaFunction, Kind
from tilewright.backends.cuda.toolchain import OPT_LEVEL, find_toolchain
from tilewright.bytecode.encode import encode
from tilewright.ir.arguments import Argument
from tilewright.ir.function import Module
from tilewright.ir.types import PtrType
from tilewright.ir.versions import required_version
from tilewright.runtime.device import Device
from tilewright.runtime.function import KernelFunction

__all__ = ["CudaProgram", "make_program"]


class CudaProgram:
    """A cubin and the functions that have been loaded from it."""

    def __init__(self, cubin: bytes, kinds: tuple[Kind, ...]) -> None:
        self.cubin = cubin
        self._kinds = kinds
        self._lock = threading.Lock()
        self._functions: dict[tuple[str, str], CudaFunction] = {}

    def function(self, entry: str, device: Device) -> KernelFunction:
        """One entry on one GPU, loaded on first use."""
        key = (entry, device.name)
        with self._lock:
            if key not in self._functions:
                driver = cast("CudaBackend", device.backend).driver
                self._functions[key] = CudaFunction(driver, self.cubin, entry, self._kinds)
            return self._functions[key]


def make_program(
    module: Module, arguments: tuple[Argument, ...], target: str, opt_level: int | None = None
) -> CudaProgram:
    """Assemble a module for a target such as `sm_90`."""
    encoded = encode(module, required_version(module))
    level = OPT_LEVEL if opt_level is None else opt_level
    cubin = find_toolchain().assemble(encoded, target, opt_level=level)
    return CudaProgram(cubin, tuple(_kind(argument) for argument in arguments))


def _kind(argument: Argument) -> Kind:
    element = argument.type.element
    return POINTER if isinstance(element, PtrType) else element

"""Modules for the CPU: every entry compiled to NumPy code."""

from __future__ import annotations

from tilewright.backends.cpu.device import CpuFunction
from tilewright.backends.cpu.executor import compile_module
from tilewright.ir.function import Module
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.function import KernelFunction

__all__ = ["CpuProgram", "make_program"]


class CpuProgram:
    """The entries of a module, ready to run on any CPU device."""

    def __init__(self, module: Module) -> None:
        self._kernels = {
            name: CpuFunction(kernel) for name, kernel in compile_module(module).items()
        }

    def function(self, entry: str, device: Device) -> KernelFunction:
        """Return one entry."""
        assert device.kind == "cpu", "a program runs on the kind of device it was made for"
        return self._kernels[entry]

    def resources(self) -> tuple[()]:
        """Return nothing: the CPU has no assembler report."""
        return ()


def make_program(module: Module) -> CpuProgram:
    """Compile every entry of a module."""
    return CpuProgram(module)

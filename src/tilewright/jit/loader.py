"""Heavy parts by name: the compiler on the first call of a kernel, a backend on its first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

from tilewright.ir.arguments import Argument
from tilewright.ir.function import Module
from tilewright.runtime.device import Device
from tilewright.runtime.function import KernelFunction

if TYPE_CHECKING:
    from tilewright.check.placement import Placement
    from tilewright.frontend.capture import SourceFunction
    from tilewright.frontend.signature import Signature
    from tilewright.frontend.specialization import Specialization
    from tilewright.jit.compiled import CompiledKernel, Options

__all__ = [
    "Compiler",
    "Program",
    "ProgramMaker",
    "load_compiler",
    "load_program_maker",
]


class Program(Protocol):
    """A module in the form that a backend runs; assembled, and not yet on a device."""

    def function(self, entry: str, device: Device) -> KernelFunction:
        """One entry, ready to be launched on a device."""


class ProgramMaker(Protocol):
    """What `tilewright.backends.<kind>.program` provides."""

    def make_program(
        self, module: Module, arguments: tuple[Argument, ...], target: str, opt_level: int | None
    ) -> Program:
        """Assemble a module. Takes long on CUDA; any thread may call it."""


def load_program_maker(kind: str) -> ProgramMaker:
    """The part of a backend that turns Tile IR into something runnable."""
    return cast("ProgramMaker", importlib.import_module(f"tilewright.backends.{kind}.program"))


class Compiler(Protocol):
    """What `tilewright.jit.compiler` provides."""

    def compile_kernel(
        self,
        source: SourceFunction,
        signature: Signature,
        specialization: Specialization,
        options: Options,
        placement: Placement,
    ) -> CompiledKernel:
        """One specialisation, compiled."""


def load_compiler() -> Compiler:
    """The compiler; loading it takes longer than the rest of the package."""
    return cast("Compiler", importlib.import_module("tilewright.jit.compiler"))

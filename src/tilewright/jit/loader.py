"""Backends by name: a CUDA library is loaded only when something is compiled for CUDA."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from tilewright.ir.arguments import Argument
from tilewright.ir.function import Module
from tilewright.runtime.device import Device
from tilewright.runtime.function import KernelFunction

__all__ = ["Program", "ProgramMaker", "load_program_maker"]


class Program(Protocol):
    """A module in the form that a backend runs; assembled, and not yet on a device."""

    def function(self, entry: str, device: Device) -> KernelFunction:
        """One entry, ready to be launched on a device."""


class ProgramMaker(Protocol):
    """What `tilewright.backends.<kind>.program` provides."""

    def make_program(self, module: Module, arguments: tuple[Argument, ...], target: str) -> Program:
        """Assemble a module. Takes long on CUDA; any thread may call it."""


def load_program_maker(kind: str) -> ProgramMaker:
    """The part of a backend that turns Tile IR into something runnable."""
    return cast("ProgramMaker", importlib.import_module(f"tilewright.backends.{kind}.program"))

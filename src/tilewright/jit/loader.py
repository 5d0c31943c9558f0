"""Lazy imports: the compiler at the first call of a kernel, a backend at its first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

from tilewright.dtypes import Element
from tilewright.errors import LaunchError
from tilewright.ir.function import Module
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.function import KernelFunction, KernelLimits, LaunchShape
from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.loading import load_module

if TYPE_CHECKING:
    from tilewright.backends.cuda.cubin import Resources
    from tilewright.check.placement import Placement
    from tilewright.frontend.signature.signature import Signature
    from tilewright.frontend.signature.specialization import Specialization
    from tilewright.frontend.source.capture import SourceFunction
    from tilewright.jit.cache.disk import DiskCache
    from tilewright.jit.cache.store import FileStore
    from tilewright.jit.compile.compiled import CompiledKernel, LaunchFacts, Options
    from tilewright.settings import Settings

__all__ = [
    "Assembler",
    "Compiler",
    "ExternalCode",
    "ExternalFunction",
    "Program",
    "ProgramMaker",
    "load_assembler",
    "load_compiler",
    "load_disk_cache",
    "load_external_code",
    "load_program_maker",
    "load_torch",
]


class Program(Protocol):
    """A module in executable form, not yet loaded on a device."""

    def function(self, entry: str, device: Device) -> KernelFunction:
        """One entry, loaded on a device."""

    def resources(self) -> tuple[Resources, ...]:
        """The resources of each entry; empty if the assembler does not report them."""


class ProgramMaker(Protocol):
    """The interface of `tilewright.backends.cpu.program`, which runs Tile IR itself."""

    def make_program(self, module: Module) -> Program:
        """Make the program of a module, in milliseconds."""


class Assembler(Protocol):
    """The interface of `tilewright.backends.cuda.program`."""

    def assemble(self, module: Module, target: str, opt_level: int | None) -> bytes:
        """Assemble a module to a cubin; slow, and safe on any thread."""

    def load_program(
        self,
        cubin: bytes,
        facts: LaunchFacts,
        renew: Callable[[], bytes] | None,
    ) -> Program:
        """Make the program of a cubin; `renew` assembles it again if a driver rejects it."""

    def tools_signature(self) -> str:
        """A string that changes with the tools; it runs none of them."""

    def tools_version(self) -> str:
        """The release of the tools."""


def load_program_maker() -> ProgramMaker:
    """Import the part of the CPU backend that makes programs."""
    return cast("ProgramMaker", load_module("tilewright.backends.cpu.program"))


def load_assembler() -> Assembler:
    """Import the part of the CUDA backend that assembles Tile IR."""
    return cast("Assembler", load_module("tilewright.backends.cuda.program"))


class DiskCaches(Protocol):
    """The interface of `tilewright.jit.cache.disk`."""

    def open_cache(self, assembler: Assembler) -> DiskCache | None:
        """The disk cache of this process, if it has one."""

    def store_of(self, settings: Settings) -> FileStore | None:
        """The store of the disk cache; None if the cache is off."""


def load_disk_cache() -> DiskCaches:
    """Import the disk cache, which only GPU kernels use."""
    return cast("DiskCaches", load_module("tilewright.jit.cache.disk"))


def load_torch() -> Any:
    """Import torch, for operators of torch."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise LaunchError(
            f"torch cannot be imported ({error}), and an operator of torch needs it"
        ) from error


class ExternalFunction(Protocol):
    """An external kernel, loaded on one GPU."""

    @property
    def limits(self) -> KernelLimits:
        """The limits of a launch."""

    @property
    def passed(self) -> tuple[int, ...]:
        """The packed size of each argument in bytes."""

    @property
    def taken(self) -> tuple[int, ...]:
        """The size of each parameter in bytes, from the driver."""

    def prepare(self, shape: LaunchShape) -> None:
        """Configure the function for launches of a shape within the limits."""

    def launch(
        self, stream: Stream, shape: LaunchShape, arguments: tuple[int | float, ...]
    ) -> None:
        """Put a launch on a stream. The device's lock is held."""


class ExternalCode(Protocol):
    """The interface of `tilewright.backends.cuda.external`."""

    def kernel_names(self, code: bytes) -> tuple[str, ...] | None:
        """The names of the kernels in an image; None if only the driver can read it."""

    def load_function(
        self, device: Device, code: bytes, name: str, kinds: tuple[Element | None, ...]
    ) -> ExternalFunction:
        """Load a kernel on a GPU, for arguments of these kinds; None stands for an address."""


def load_external_code() -> ExternalCode:
    """Import the part of the CUDA backend that loads external kernels."""
    return cast("ExternalCode", load_module("tilewright.backends.cuda.external"))


class Compiler(Protocol):
    """The interface of `tilewright.jit.compile.compiler`."""

    def compile_kernel(
        self,
        source: SourceFunction,
        signature: Signature,
        specialization: Specialization,
        options: Options,
        placement: Placement,
    ) -> CompiledKernel:
        """Compile one specialisation."""


def load_compiler() -> Compiler:
    """Import the compiler, which takes longer than the rest of the package."""
    return cast("Compiler", load_module("tilewright.jit.compile.compiler"))

"""Heavy parts by name: the compiler on the first call of a kernel, a backend on its first use."""

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
    """A module in the form that a backend runs; assembled, and not yet on a device."""

    def function(self, entry: str, device: Device) -> KernelFunction:
        """One entry, ready to be launched on a device."""

    def resources(self) -> tuple[Resources, ...]:
        """What each entry takes; nothing where the assembler does not say."""


class ProgramMaker(Protocol):
    """What `tilewright.backends.cpu.program` provides: Tile IR runs there as it is."""

    def make_program(self, module: Module) -> Program:
        """Make a module runnable. Takes milliseconds."""


class Assembler(Protocol):
    """What `tilewright.backends.cuda.program` provides."""

    def assemble(self, module: Module, target: str, opt_level: int | None) -> bytes:
        """The code of a module. Takes long; any thread may call it."""

    def load_program(
        self,
        cubin: bytes,
        facts: LaunchFacts,
        renew: Callable[[], bytes] | None,
    ) -> Program:
        """Code as something to launch; `renew` makes it anew if a driver does not take it."""

    def tools_signature(self) -> str:
        """What would change if the tools did; runs nothing."""

    def tools_version(self) -> str:
        """The release of the tools."""


def load_program_maker() -> ProgramMaker:
    """The part of the CPU backend that makes Tile IR runnable."""
    return cast("ProgramMaker", load_module("tilewright.backends.cpu.program"))


def load_assembler() -> Assembler:
    """The part of the CUDA backend that turns Tile IR into code."""
    return cast("Assembler", load_module("tilewright.backends.cuda.program"))


class DiskCaches(Protocol):
    """What `tilewright.jit.cache.disk` provides."""

    def open_cache(self, assembler: Assembler) -> DiskCache | None:
        """The kernels that other processes have compiled."""

    def store_of(self, settings: Settings) -> FileStore | None:
        """The folder of the cache; None if there is none."""


def load_disk_cache() -> DiskCaches:
    """The cache on disk, which only kernels for a GPU use."""
    return cast("DiskCaches", load_module("tilewright.jit.cache.disk"))


def load_torch() -> Any:
    """torch, for whoever makes an operator of it."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise LaunchError(
            f"torch cannot be imported ({error}), and an operator of torch needs it"
        ) from error


class ExternalFunction(Protocol):
    """A kernel that somebody else compiled, loaded on one GPU."""

    @property
    def limits(self) -> KernelLimits:
        """The most that a launch may ask for."""

    @property
    def passed(self) -> tuple[int, ...]:
        """Bytes of each argument, as they are packed."""

    @property
    def taken(self) -> tuple[int, ...]:
        """Bytes of each parameter, as the driver says."""

    def prepare(self, shape: LaunchShape) -> None:
        """Make launches of a shape possible that is within the limits."""

    def launch(
        self, stream: Stream, shape: LaunchShape, arguments: tuple[int | float, ...]
    ) -> None:
        """Put a launch on a stream. The device's lock is held."""


class ExternalCode(Protocol):
    """What `tilewright.backends.cuda.external` provides."""

    def kernel_names(self, code: bytes) -> tuple[str, ...] | None:
        """The kernels of some code; None where only the driver can tell."""

    def load_function(
        self, device: Device, code: bytes, name: str, kinds: tuple[Element | None, ...]
    ) -> ExternalFunction:
        """A kernel on a GPU, for arguments of these kinds; None is an address."""


def load_external_code() -> ExternalCode:
    """The part of the CUDA backend that reads what somebody else compiled."""
    return cast("ExternalCode", load_module("tilewright.backends.cuda.external"))


class Compiler(Protocol):
    """What `tilewright.jit.compile.compiler` provides."""

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
    return cast("Compiler", load_module("tilewright.jit.compile.compiler"))

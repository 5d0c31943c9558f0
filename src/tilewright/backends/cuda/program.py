"""Modules for a GPU: encoded, assembled by tileiras, loaded once on each device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from tilewright.backends.cuda.cubin import Resources, cubin_resources
from tilewright.backends.cuda.module import POINTER, CudaFunction, Kind
from tilewright.backends.cuda.toolkits import toolkit_signature
from tilewright.errors import DriverError
from tilewright.ir.arguments import Argument
from tilewright.ir.function import Module
from tilewright.ir.types import PtrType
from tilewright.runtime.devices.device import Device
from tilewright.runtime.devices.function import KernelFunction
from tilewright.runtime.loading import LazyModule
from tilewright.settings import current_settings

if TYPE_CHECKING:
    from tilewright import bytecode
    from tilewright.backends.cuda import toolchain
    from tilewright.backends.cuda.device import CudaBackend
else:  # only a kernel that is not in the disk cache is encoded and assembled
    bytecode = LazyModule("tilewright.bytecode")
    toolchain = LazyModule("tilewright.backends.cuda.toolchain")

__all__ = ["CudaProgram", "assemble", "load_program", "tools_signature", "tools_version"]

# Reassembles a cubin that the driver refuses.
Renewal = Callable[[], bytes]


class Facts(Protocol):
    """Facts about a kernel that a launch needs."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Arguments that the host passes."""

    @property
    def waits_for_grids(self) -> bool:
        """Whether the code itself waits for the grids before it."""


class CudaProgram:
    """A cubin and the functions that have been loaded from it."""

    def __init__(
        self,
        cubin: bytes,
        kinds: tuple[Kind, ...],
        renew: Renewal | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self.cubin = cubin
        self._kinds = kinds
        self._waits = waits  # whether the code waits for the grids before it itself
        self._renew = renew
        self._lock = threading.RLock()  # reentrant: a finaliser may run while it is held
        self._functions: dict[tuple[str, str], CudaFunction] = {}

    def function(self, entry: str, device: Device) -> KernelFunction:
        """Return one entry on one GPU, loaded on first use."""
        key = (entry, device.name)
        with self._lock:
            if key not in self._functions:
                self._functions[key] = self._load(entry, device)
            return self._functions[key]

    def resources(self) -> tuple[Resources, ...]:
        """Return registers, shared memory and spills of each entry, as the cubin states them."""
        return tuple(cubin_resources(self.cubin).values())

    def _load(self, entry: str, device: Device) -> CudaFunction:
        driver = cast("CudaBackend", device.backend).driver
        try:
            return CudaFunction(driver, self.cubin, entry, self._kinds, waits=self._waits)
        except DriverError:
            if self._renew is None:
                raise
            renew, self._renew = self._renew, None  # only once
            self.cubin = renew()
            return CudaFunction(driver, self.cubin, entry, self._kinds, waits=self._waits)


def assemble(module: Module, target: str, opt_level: int | None) -> bytes:
    """Return the cubin of a module for a target such as `sm_90`."""
    level = toolchain.OPT_LEVEL if opt_level is None else opt_level
    encoded = bytecode.encode_in_oldest(module)
    return toolchain.find_toolchain().assemble(encoded, target, opt_level=level)


def load_program(cubin: bytes, facts: Facts, renew: Renewal | None) -> CudaProgram:
    """Return a program of assembled code and the facts of its launches."""
    kinds = tuple(_kind(argument) for argument in facts.arguments)
    return CudaProgram(cubin, kinds, renew, waits=facts.waits_for_grids)


def tools_signature() -> str:
    """Return a string that changes with the tools, without running them."""
    return toolkit_signature(current_settings())


def tools_version() -> str:
    """Return the release of the tools, in full."""
    return toolchain.find_toolchain().version


def _kind(argument: Argument) -> Kind:
    element = argument.type.element
    return POINTER if isinstance(element, PtrType) else element

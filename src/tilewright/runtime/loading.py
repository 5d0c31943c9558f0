"""Heavy modules, loaded by name on first use: backends, the compiler, the kernels, the tuner.

A module that is still being loaded cannot be used: a finaliser or a signal handler that interrupts
the import is refused. `runtime` repeats an element and copies contiguous bytes by itself; every
other operation on a tensor is a kernel. Kernels are layers above this one and need the compiler.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from tilewright.errors import LaunchError

if TYPE_CHECKING:
    from tilewright.runtime.memory.tensor import Tensor
    from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["Copying", "Creation", "LazyModule", "load_copying", "load_creation", "load_module"]


def load_module(name: str) -> Any:
    """A module of ours, loaded completely."""
    module = sys.modules.get(name)
    if module is None:
        return importlib.import_module(name)
    if _is_half_loaded(module):
        # Waits for the import in another thread; one in this thread cannot end.
        module = importlib.import_module(name)
        if _is_half_loaded(module):
            raise LaunchError(
                f"{name} is being loaded by a call that this one has interrupted, as a signal"
                " handler does, and cannot be used yet: have the handler note the work, and do it"
                " when that call is over"
            )
    return module


class LazyModule:
    """A module that is loaded when one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(load_module(self._name), name)


def _is_half_loaded(module: Any) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


class Creation(Protocol):
    """The interface of `tilewright.kernels.elements.creation`: operations that write a tensor.

    A line is a contiguous part of a tensor; `first` is the number of its first element in there.
    """

    def count_up(self, line: Tensor, first: int) -> DeviceOp[Any]:
        """Store its number in each element."""

    def even_steps(
        self, line: Tensor, first: int, start: float, stop: float, number: int
    ) -> DeviceOp[Any]:
        """Store `number` numbers from `start` to `stop`, both included."""

    def unit_matrix(self, matrix: Tensor) -> DeviceOp[Any]:
        """Store ones on the diagonal, zeros elsewhere."""

    def uniform_numbers(self, line: Tensor, first: int, seed: int) -> DeviceOp[Any]:
        """Uniform in [0, 1); `first` and `seed` have 64 bits without a sign."""

    def normal_numbers(self, line: Tensor, first: int, seed: int) -> DeviceOp[Any]:
        """Normal with mean 0 and variance 1; `first` and `seed` have 64 bits without a sign."""


class Copying(Protocol):
    """The interface of `tilewright.kernels.elements.copying`, for tensors of rank 1 to 6."""

    def convert(self, dst: Tensor, src: Tensor) -> DeviceOp[Any]:
        """Copy each element, in the dtype of `dst`; the shapes are equal."""

    def repeat(self, dst: Tensor, value: int) -> DeviceOp[Any]:
        """Store an integer in each element of a tensor of unsigned integers."""


def load_creation() -> Creation:
    """The kernels that make contents."""
    return cast("Creation", load_module("tilewright.kernels.elements.creation"))


def load_copying() -> Copying:
    """The kernels that copy with strides and between dtypes."""
    return cast("Copying", load_module("tilewright.kernels.elements.copying"))

"""The library of kernels, as `runtime` uses it, and the one place where it is loaded.

`runtime` repeats an element and copies contiguous bytes by itself; every other operation on a
tensor is a kernel. Kernels are layers above this one and need the compiler, so their modules are
loaded by name, on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from tilewright.runtime.loading import load_module

if TYPE_CHECKING:
    from tilewright.runtime.memory.tensor import Tensor
    from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["Copying", "Creation", "load_copying", "load_creation"]


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

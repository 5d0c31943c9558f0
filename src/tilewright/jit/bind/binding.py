"""A binding: the arguments of one call as data, by the parameters of the signature.

`bind_launch` fills it in; each kind of argument has its own module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilewright.dtypes import DType
from tilewright.errors import LaunchError
from tilewright.frontend.signature.signature import Signature
from tilewright.given import shown
from tilewright.lang.hints import KernelHints
from tilewright.runtime.devices.device import Device, current_device
from tilewright.runtime.memory.partition import HostPartition, PersistentPartition
from tilewright.runtime.memory.tensor import Tensor

__all__ = ["Binding", "described", "refused"]


@dataclass
class Binding:
    """Tensors, tiles, constants and scalars of a call, and the grid that follows from them."""

    signature: Signature
    hints: KernelHints = field(default_factory=KernelHints)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    partitions: dict[str, HostPartition] = field(default_factory=dict)
    tiles: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    groups: dict[str, tuple[int, int]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    scalars: dict[str, int | float] = field(default_factory=dict)
    dtypes: dict[type[DType], type[DType]] = field(default_factory=dict)
    walked: dict[str, PersistentPartition] = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    descending: tuple[int, ...] = ()  # grid axes that are traversed from their end
    is_grid_given: bool = False  # by the call, because no output defines the grid
    blocks: int = 0

    @property
    def written(self) -> frozenset[str]:
        """Names of the tensors that the kernel may write."""
        outputs = {param.name for param in self.signature.outputs}
        return frozenset(outputs | {param.name for param in self.signature.pointers})

    @property
    def device(self) -> Device:
        """The device of the launch: that of its tensors; without tensors the current one."""
        tensor = next(iter(self.tensors.values()), None)
        return current_device() if tensor is None else tensor.device

    def dtype(self, declared: type[DType]) -> type[DType]:
        """Resolve a declared dtype, which may be a placeholder."""
        return self.dtypes.get(declared, declared)


def refused(binding: Binding, name: str, text: str) -> LaunchError:
    """Make the exception that refuses an argument."""
    return LaunchError(f"`{name}` of kernel `{binding.signature.kernel}` {text}")


def described(value: Any) -> str:
    """Describe an argument in a message."""
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype.label} with shape {value.shape}"
    if isinstance(value, HostPartition):
        return "a plain partition"
    if isinstance(value, (bool, int, float, str, type(None))):
        return shown(value)
    return f"an object of type {type(value).__name__}"

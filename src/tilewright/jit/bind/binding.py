"""What one call of a kernel says, as data: tensors, tiles, constants, scalars, the grid.

`bind_launch` fills it in, through a module for each subject.
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
    """What a call says: tensors, tiles, constants, scalars, and how many blocks run."""

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
    descending: tuple[int, ...] = ()  # axes of the grid along which the last place comes first
    is_grid_given: bool = False  # by the call, since no output has one
    blocks: int = 0

    @property
    def written(self) -> frozenset[str]:
        """The tensors that the kernel may write to."""
        outputs = {param.name for param in self.signature.outputs}
        return frozenset(outputs | {param.name for param in self.signature.pointers})

    @property
    def device(self) -> Device:
        """Where the launch runs: where its tensors are, or where new ones would be."""
        tensor = next(iter(self.tensors.values()), None)
        return current_device() if tensor is None else tensor.device

    def dtype(self, declared: type[DType]) -> type[DType]:
        """A declared dtype with placeholders filled in."""
        return self.dtypes.get(declared, declared)


def refused(binding: Binding, name: str, text: str) -> LaunchError:
    """The refusal of an argument."""
    return LaunchError(f"`{name}` of kernel `{binding.signature.kernel}` {text}")


def described(value: Any) -> str:
    """An argument, for people."""
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype.label} with shape {value.shape}"
    if isinstance(value, HostPartition):
        return "a plain partition"
    if isinstance(value, (bool, int, float, str, type(None))):
        return shown(value)
    return f"an object of type {type(value).__name__}"

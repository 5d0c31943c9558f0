"""The globals of a module in host memory: they live as long as the module's kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.backends.cpu import nibbles
from tilewright.backends.cpu.memory import KernelMemory, is_nibble, storage_dtype
from tilewright.backends.cpu.room import Room
from tilewright.dtypes import Element
from tilewright.ir.function import Global

__all__ = ["CpuGlobals"]


class CpuGlobals:
    """Address and memory of each global; the memory of a constant one is read-only."""

    def __init__(self, globals: Sequence[Global] = (), limit: int | None = None) -> None:
        room = Room("the memory of the module's globals", limit)
        for one in globals:
            room.take(one.type.size * _element(one).numpy.itemsize + one.alignment)
        self.nbytes = room.taken
        placed = {one.name: _memory(one) for one in globals}
        self.memories = tuple(placed.values())
        self.addresses = {name: memory.address for name, memory in placed.items()}


def _memory(one: Global) -> KernelMemory:
    element = _element(one)
    tile = np.broadcast_to(np.asarray(one.value), one.type.shape).astype(element.numpy).reshape(-1)
    if is_nibble(element):
        data = nibbles.join(tile.view(np.uint8))
    else:
        data = tile.astype(storage_dtype(element)) if element is Element.I1 else tile
    held = data.view(np.uint8)
    memory = KernelMemory.aligned(held.size, max(one.alignment, storage_dtype(element).itemsize))
    memory.array[:] = held
    memory.array.flags.writeable = not one.constant
    return memory


def _element(one: Global) -> Element:
    element = one.type.element
    assert isinstance(element, Element), "a global holds numbers"
    return element

"""Host memory that a kernel may access, and the tensors in it.

Addresses are those of NumPy buffers. No byte outside the given memories is ever read or written: a
tensor that would leave its memory is reported instead. `views` has the tiles cut from tensors,
`pointers` the accesses through single addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tilewright.backends.cpu import nibbles
from tilewright.backends.cpu.faults import report
from tilewright.dtypes import Element

__all__ = [
    "AddressSpace",
    "BlockSpace",
    "KernelMemory",
    "NibbleTensor",
    "TensorView",
    "is_nibble",
    "storage_dtype",
]

Array = np.ndarray[Any, Any]
_MOST_BITS = (1 << 63) - 8  # of an array, counted as if no two elements shared a byte
Places = tuple[Array, ...]  # one for each axis, as `np.ix_` makes them


@dataclass(frozen=True, eq=False)
class KernelMemory:
    """Bytes that a kernel may access: a one-dimensional array of uint8, and its address."""

    address: int
    array: Array

    @staticmethod
    def of(array: Array) -> KernelMemory:
        """Return the memory of a contiguous NumPy array."""
        flat = array.reshape(-1)
        assert array.size == 0 or np.shares_memory(flat, array), "the array is not contiguous"
        return KernelMemory(array.ctypes.data, flat.view(np.uint8))

    @staticmethod
    def aligned(nbytes: int, alignment: int) -> KernelMemory:
        """Return fresh memory at a multiple of an alignment, full of zeros."""
        buffer = np.zeros(nbytes + alignment, np.uint8)
        start = -buffer.ctypes.data % alignment
        return KernelMemory(buffer.ctypes.data + start, buffer[start : start + nbytes])

    @staticmethod
    def uninitialised(nbytes: int, alignment: int) -> KernelMemory:
        """Return fresh, uninitialised memory at a multiple of an alignment."""
        buffer = np.empty(nbytes + alignment, np.uint8)
        start = -buffer.ctypes.data % alignment
        return KernelMemory(buffer.ctypes.data + start, buffer[start : start + nbytes])

    @staticmethod
    def at(address: int, nbytes: int, *, read_only: bool) -> KernelMemory:
        """Return memory that another library owns and keeps alive."""
        if not nbytes:  # NumPy before 2.4 refuses a null address, which an empty array may have
            return KernelMemory(address, np.empty(0, np.uint8))
        return KernelMemory(address, np.asarray(_AddressWindow(address, nbytes, read_only)))

    @property
    def end(self) -> int:
        """First address after the memory."""
        return self.address + self.array.size


class _AddressWindow:
    """Bytes at an address, through NumPy's array interface."""

    def __init__(self, address: int, nbytes: int, read_only: bool) -> None:
        data = (address, read_only)
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (nbytes,),
            "data": data,
        }


def is_nibble(element: Element) -> bool:
    """Whether two elements share a byte of memory."""
    return element.bits == 4


@cache
def storage_dtype(element: Element) -> np.dtype[Any]:
    """Return the NumPy type of an element in memory.

    Truth values are bytes, of which any but 0 is true. Two 4-bit elements share a byte.
    """
    as_bytes = element is Element.I1 or is_nibble(element)
    return np.dtype(np.uint8) if as_bytes else element.numpy


@dataclass(frozen=True, eq=False)
class TensorView:
    """A tensor: a strided array over one memory, or over none if it has no elements."""

    array: Array
    shape: tuple[int, ...]
    element: Element
    name: str = ""  # the author's name of the tensor

    @property
    def is_writable(self) -> bool:
        """Whether the memory may be written."""
        return bool(self.array.flags.writeable)

    def read(self, places: Places) -> Array:
        """Return elements by their indices along each axis, as memory holds them."""
        found: Array = self.array[places]
        return found

    def write(self, places: Places, elements: Array) -> None:
        """Write elements by their indices along each axis; of equal indices the last one wins."""
        self.array[places] = elements

    def addresses(self, places: Places) -> Array:
        """Return the addresses of elements by their indices along each axis."""
        found: Array = np.array(self.array.ctypes.data, np.int64)
        for numbers, stride in zip(places, self.array.strides, strict=True):
            found = found + numbers * stride
        return found


@dataclass(frozen=True, eq=False)
class NibbleTensor:
    """A tensor whose elements share bytes."""

    memory: KernelMemory
    first: int  # offset of the first element in the memory, in nibbles
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: Element
    name: str = ""

    @property
    def is_writable(self) -> bool:
        """Whether the memory may be written."""
        return bool(self.memory.array.flags.writeable)

    def read(self, places: Places) -> Array:
        """Return elements by their indices along each axis, one for each byte."""
        return nibbles.read(self.memory.array, self._nibbles(places))

    def write(self, places: Places, elements: Array) -> None:
        """Write elements by their indices along each axis; of equal indices the last one wins."""
        nibbles.write(self.memory.array, self._nibbles(places), elements)

    def addresses(self, places: Places) -> Array:
        """Return the addresses of elements' bytes, by their indices along each axis."""
        return self.memory.address + self._nibbles(places) // 2

    def _nibbles(self, places: Places) -> Array:
        found: Array = np.array(self.first, np.int64)
        for numbers, stride in zip(places, self.strides, strict=True):
            found = found + numbers * stride
        return found


class AddressSpace:
    """All memories of one launch."""

    def __init__(self, memories: Sequence[KernelMemory], *, remembers: bool = False) -> None:
        self.memories = list(memories)
        self._remembers = remembers
        self._past: list[KernelMemory] = []

    def remember(self, memory: KernelMemory) -> None:
        """Keep a block's memory alive, so that its addresses are not reused before the end."""
        if self._remembers:
            self._past.append(memory)

    def all_memories(self) -> Sequence[KernelMemory]:
        """Return every memory that the launch has used so far."""
        return [*self.memories, *self._past]

    def of_block(self) -> BlockSpace:
        """Return the address space of one block, which can hold memories of its own."""
        return BlockSpace(self)

    def visible(self) -> Sequence[KernelMemory]:
        """Return every memory that may be accessed."""
        return self.memories

    def holding(self, first: int, end: int) -> KernelMemory | None:
        """Return the memory that holds the bytes `[first, end)`, if one does."""
        for memory in self.visible():
            if memory.address <= first and end <= memory.end:
                return memory
        return None

    def tensor(
        self,
        site: int,
        base: int,
        element: Element,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        name: str = "",
    ) -> TensorView | NibbleTensor:
        """Return a tensor view, with strides in elements; one memory must hold all of it."""
        if 0 in shape:
            nothing = np.empty((0,) * len(shape), storage_dtype(element))
            return TensorView(nothing, shape, element, name)
        dtype = storage_dtype(element)
        bits = 4 if is_nibble(element) else dtype.itemsize * 8
        reach = sum([(extent - 1) * step for extent, step in zip(shape, strides, strict=True)])
        end = base + (reach * bits + bits + 7) // 8
        memory = self.holding(base, end)
        if memory is None:
            report(
                site,
                f"spans the addresses [{base:#x}, {end:#x}), which do not lie in one memory of "
                f"this launch: base {base:#x}, shape {shape}, strides {strides}",
            )
        if prod(shape) * bits > _MOST_BITS:
            report(
                site,
                f"has more elements than an array of the CPU can: shape {shape}, strides {strides}",
            )
        _require_alignment(site, base, dtype)
        if is_nibble(element):
            first = (base - memory.address) * 2
            return NibbleTensor(memory, first, shape, strides, element, name)
        size = dtype.itemsize
        steps = tuple(
            [
                stride * size if extent > 1 else 0  # may be any number
                for extent, stride in zip(shape, strides, strict=True)
            ]
        )
        array: Array = np.ndarray(shape, dtype, memory.array.data, base - memory.address, steps)
        return TensorView(array, shape, element, name)


class BlockSpace(AddressSpace):
    """The memories of a launch, and those that one block has allocated."""

    def __init__(self, launch: AddressSpace) -> None:
        super().__init__(())
        self._launch = launch
        self._own: dict[int, KernelMemory] = {}
        self._shared: dict[int, KernelMemory] = {}

    def visible(self) -> Sequence[KernelMemory]:
        """Return the memories of the launch, then the block's own."""
        return [*self._launch.memories, *self._own.values()]

    def allocate(self, site: int, nbytes: int, alignment: int, shared: bool) -> int:
        """Return the address of fresh memory; it ends the life of the op's previous memory."""
        memory = KernelMemory.aligned(nbytes, alignment)
        self._launch.remember(memory)
        if not shared:
            self._own[site] = memory
            return memory.address
        if site in self._shared:
            self._launch.memories.remove(self._shared[site])
        self._shared[site] = memory
        self._launch.memories.append(memory)
        return memory.address


def _require_alignment(site: int, address: int, dtype: np.dtype[Any]) -> None:
    if address % dtype.itemsize:
        report(site, f"has the address {address:#x}, not a multiple of {dtype.itemsize} bytes")

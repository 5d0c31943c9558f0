"""Host memory that a kernel may touch, and the views through which it does.

Addresses are real ones, of NumPy buffers. Nothing outside the given memories is ever read or
written: a view that would leave its memory, and a tile index that would leave its view, is reported
instead. Pointer tiles are in `pointers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.cpu.faults import report
from tilewright.dtypes import Element
from tilewright.ir.types import Padding, PartitionViewType

__all__ = ["AddressSpace", "Memory", "PartitionView", "TensorView", "storage_dtype"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Memory:
    """Bytes that a kernel may touch: a one-dimensional array of uint8, and where it lies."""

    address: int
    array: Array

    @staticmethod
    def of(array: Array) -> Memory:
        """The memory of a contiguous NumPy array."""
        flat = array.reshape(-1)
        assert array.size == 0 or np.shares_memory(flat, array), "the array is not contiguous"
        return Memory(array.ctypes.data, flat.view(np.uint8))

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.array.size


def storage_dtype(element: Element) -> np.dtype[Any]:
    """How an element lies in memory; truth values are bytes, of which any but 0 is true."""
    assert element.bits >= 8 or element is Element.I1, f"{element} lives in tiles only"
    return np.dtype(np.uint8) if element is Element.I1 else element.numpy


@dataclass(frozen=True, eq=False)
class TensorView:
    """A tensor: a strided array over one memory."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(self.array.shape)


class AddressSpace:
    """All memories of one launch."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self.memories = tuple(memories)

    def holding(self, first: int, end: int) -> Memory | None:
        """The memory that holds the bytes `[first, end)`."""
        for memory in self.memories:
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
    ) -> TensorView:
        """A tensor view, with strides in elements; reported unless one memory holds all of it."""
        dtype = storage_dtype(element)
        if any(extent < 0 for extent in shape):
            report(site, f"has a negative extent: shape {shape}")
        if 0 in shape:
            return TensorView(np.empty(shape, dtype))
        steps = tuple(stride * dtype.itemsize for stride in strides)
        reach = [(extent - 1) * step for extent, step in zip(shape, steps, strict=True)]
        first = base + sum(span for span in reach if span < 0)
        end = base + sum(span for span in reach if span > 0) + dtype.itemsize
        memory = self.holding(first, end)
        if memory is None:
            report(
                site,
                f"spans the addresses [{first:#x}, {end:#x}), which do not lie in one memory of "
                f"this launch: base {base:#x}, shape {shape}, strides {strides}",
            )
        _require_alignment(site, base, dtype)
        return TensorView(np.ndarray(shape, dtype, memory.array.data, base - memory.address, steps))


class PartitionView:
    """A tensor cut into tiles, axes in the order of the tile's.

    `array` and `whole` serve the generated code: a tile whose index lies below `whole` on every
    axis is a plain slice of `array`; any other goes through `load_edge` or `store_edge`.
    `writable` is `whole` for stores, and all zero where the memory is read-only.
    """

    __slots__ = ("array", "counts", "fill", "tile", "type", "whole", "writable")

    def __init__(self, tensor: TensorView, type: PartitionViewType) -> None:
        self.type = type
        self.tile = type.tile
        self.array = tensor.array.transpose(type.dim_map)
        extents = list(zip(self.array.shape, type.tile, strict=True))
        self.whole = tuple(extent // tile for extent, tile in extents)
        self.counts = tuple(-(-extent // tile) for extent, tile in extents)
        self.writable = self.whole if self.array.flags.writeable else (0,) * len(self.whole)
        self.fill = padding_value(type.padding, type.view.element)

    def load_edge(self, site: int, index: tuple[int, ...]) -> Array:
        """A tile of which part may lie outside the tensor: that part is padding."""
        self._require_inside(site, index)
        inside = self.array[self._slices(index)]
        tile = np.full(self.tile, self.fill, self.array.dtype)
        tile[tuple(slice(extent) for extent in inside.shape)] = inside
        return tile != 0 if self.type.view.element is Element.I1 else tile

    def store_edge(self, site: int, index: tuple[int, ...], tile: Array) -> None:
        """Write the part of a tile that lies inside the tensor."""
        self._require_inside(site, index)
        if not self.array.flags.writeable:
            report(site, f"writes tile {index} of memory that is read-only")
        inside = self.array[self._slices(index)]
        inside[...] = tile[tuple(slice(extent) for extent in inside.shape)]

    def _slices(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple(
            slice(i * tile, (i + 1) * tile) for i, tile in zip(index, self.tile, strict=True)
        )

    def _require_inside(self, site: int, index: tuple[int, ...]) -> None:
        for axis, (i, count) in enumerate(zip(index, self.counts, strict=True)):
            if not 0 <= i < count:
                report(
                    site,
                    f"has index {index}, outside the view on axis {axis}: "
                    f"{i} is not in [0, {count}) (index space {self.counts})",
                )


def padding_value(padding: Padding | None, element: Element) -> Any:
    """What lies outside a tensor; a view that names nothing has zeros there."""
    number = _PADDING_NUMBERS[padding or Padding.ZERO]
    return storage_dtype(element).type(number)


_PADDING_NUMBERS = {
    Padding.ZERO: 0,
    Padding.NEG_ZERO: -0.0,
    Padding.NAN: float("nan"),
    Padding.POS_INF: float("inf"),
    Padding.NEG_INF: float("-inf"),
}


def _require_alignment(site: int, address: int, dtype: np.dtype[Any]) -> None:
    if address % dtype.itemsize:
        report(site, f"has the address {address:#x}, not a multiple of {dtype.itemsize} bytes")

"""Pointer tiles: arrays of addresses, and the accesses through them.

Every address in use must lie in a memory of the launch and be a multiple of the element's size; any
other is reported before memory is accessed. Addresses under a false mask are ignored. Atomics run
under the launch's lock, element by element in order where two addresses are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tilewright.backends.cpu import nibbles
from tilewright.backends.cpu.faults import report_element
from tilewright.backends.cpu.integers import unsigned
from tilewright.backends.cpu.memory import AddressSpace, KernelMemory, is_nibble, storage_dtype
from tilewright.backends.cpu.scalars import FARTHEST
from tilewright.dtypes import Element
from tilewright.ir.attributes import AtomicMode

__all__ = [
    "COMBINE",
    "accumulate",
    "combine",
    "exchange",
    "exchange_equal",
    "load",
    "load_one",
    "moved",
    "moved_nibbles",
    "store",
    "unsigned_maximum",
    "unsigned_minimum",
]

_FEW_BINS = 1 << 12

Array = np.ndarray[Any, Any]
Combine = Callable[..., Any]


class Window(NamedTuple):
    """The part of an access that falls into one memory."""

    chosen: Array | None  # the elements of the tile; None for all of them
    elements: Array  # the memory, as a flat array of the element
    positions: Array  # index into `elements` of each chosen element, flat

    def of(self, tile: Array) -> Array:
        """Return the chosen elements of a tile, flat."""
        return tile.reshape(-1) if self.chosen is None else tile[self.chosen]

    def put(self, tile: Array, elements: Array) -> None:
        """Write the chosen elements of a tile."""
        if self.chosen is None:
            tile[...] = elements.reshape(tile.shape)
        else:
            tile[self.chosen] = elements


def moved(site: int, places: Any, offset: Any, size: int) -> Any:
    """Advance addresses by a number of elements; one that would wrap is reported."""
    steps = offset.astype(np.int64)
    if offset.dtype.itemsize == 8:
        wrong = np.abs(steps.astype(np.float64)) > FARTHEST / size
        if wrong.any():
            report_element(site, wrong, "moves a pointer by {} elements, which wraps", steps)
    if size > 1:
        steps <<= np.int64(size.bit_length() - 1)  # a private copy; sizes are powers of two
    if np.shape(places) in ((), np.shape(steps)):
        steps += places
        return steps
    return places + steps


def moved_nibbles(places: Any, offset: Any) -> Any:
    """Advance addresses by a number of elements of which two share a byte."""
    steps = offset.astype(np.int64)
    return places + np.where(steps < 0, -(-steps // 2), steps // 2)


def load(
    space: AddressSpace,
    site: int,
    element: Element,
    places: Array,
    mask: Array | None,
    padding: Any,
) -> Array:
    """Return the elements at the addresses; masked elements give the padding, or zero."""
    if mask is None and not is_nibble(element):
        window = _one_window(space, storage_dtype(element), places, None, writes=False)
        if window is not None:
            found: Array = window.elements.take(window.positions).reshape(places.shape)
            return found if found.dtype == element.numpy else found.astype(element.numpy)
    tile = np.zeros(places.shape, element.numpy)
    if padding is not None:
        tile[...] = padding
    for window in _windows(space, site, element, places, mask):
        if is_nibble(element):
            halves = window.elements[window.positions] >> window.of(_shifts(places)) & 15
            window.put(tile, halves.view(element.numpy))
        else:
            window.put(tile, window.elements[window.positions])
    return tile


def load_one(
    space: AddressSpace, site: int, element: Element, place: int, mask: bool, padding: Any
) -> Any:
    """Return the element at one address, as `load` does, as a scalar."""
    dtype = storage_dtype(element)
    memory = space.holding(place, place + dtype.itemsize) if mask else None
    if memory is None or dtype != element.numpy or is_nibble(element) or place % dtype.itemsize:
        places, flags = np.array(place), np.array(mask, np.bool_)
        return load(space, site, element, places, flags, padding)[()]
    offset = place - memory.address
    return memory.array[offset : offset + dtype.itemsize].view(dtype)[0]


def store(
    space: AddressSpace,
    site: int,
    element: Element,
    places: Array,
    tile: Array,
    mask: Array | None,
) -> None:
    """Write a tile to the addresses; of two equal addresses the later element wins."""
    for window in list(_windows(space, site, element, places, mask, writes=True)):
        if is_nibble(element):
            high = window.of(_shifts(places)) // 4
            where = window.positions * 2 + high
            nibbles.write(window.elements, where, window.of(tile).view(np.uint8))
        else:
            window.elements[window.positions] = window.of(tile)


def _shifts(places: Array) -> Array:
    """Return the bit offsets of elements in bytes that neighbours along the last axis share."""
    along = np.arange(places.shape[-1], dtype=np.uint8) % 2 * 4
    return np.broadcast_to(along, places.shape)


def combine(
    space: AddressSpace,
    site: int,
    element: Element,
    places: Array,
    mask: Array | None,
    function: Combine,
    *arguments: Array,
) -> Array:
    """Read, combine and write back; return the old elements."""
    before = np.zeros(places.shape, element.numpy)
    for window in list(_windows(space, site, element, places, mask, writes=True)):
        elements, positions = window.elements, window.positions
        operands = [window.of(argument) for argument in arguments]
        if np.unique(positions).size == positions.size:
            old = elements[positions]
            elements[positions] = function(old, *operands)
        else:
            old = np.empty(positions.shape, elements.dtype)
            for i, position in enumerate(positions):
                old[i] = elements[position]
                elements[position] = function(old[i], *(operand[i] for operand in operands))
        window.put(before, old)
    return before


def accumulate(
    space: AddressSpace,
    site: int,
    element: Element,
    places: Array,
    mask: Array | None,
    function: np.ufunc,
    argument: Array,
) -> None:
    """Do as `combine`, without the old elements; the argument may be one number for all."""
    counts = not argument.shape and function is np.add and argument.dtype.kind == "i"
    for window in list(_windows(space, site, element, places, mask, writes=True)):
        if counts and _are_dense(window.positions):
            first = window.positions.min()
            found = np.bincount(window.positions - first).astype(argument.dtype)
            window.elements[first : first + found.size] += found * argument
        else:
            each = window.of(np.broadcast_to(argument, places.shape))
            function.at(window.elements, window.positions, each)


def _are_dense(positions: Array) -> bool:
    """Whether counting positions takes no more room than the positions themselves."""
    return bool(np.ptp(positions) < max(positions.size, _FEW_BINS))


# --- atomic modes ----------------------------------------------------------------------------


def unsigned_maximum(old: Any, new: Any) -> Any:
    """Return the greater of the bits read as unsigned."""
    return np.where(unsigned(old) >= unsigned(new), old, new)


def unsigned_minimum(old: Any, new: Any) -> Any:
    """Return the lesser of the bits read as unsigned."""
    return np.where(unsigned(old) <= unsigned(new), old, new)


def exchange(old: Any, new: Any) -> Any:
    """Return the new value."""
    return new


def exchange_equal(old: Any, expected: Any, new: Any) -> Any:
    """Return the new value where the old bits equal the expected ones, else the old value."""
    bits = np.dtype(f"i{old.dtype.itemsize}")
    return np.where(old.view(bits) == expected.view(bits), new, old)


# The combination of the old value and the argument, by atomic mode.
COMBINE: dict[AtomicMode, Combine] = {
    AtomicMode.AND: np.bitwise_and,
    AtomicMode.OR: np.bitwise_or,
    AtomicMode.XOR: np.bitwise_xor,
    AtomicMode.ADD: np.add,
    AtomicMode.ADDF: np.add,
    AtomicMode.MAX: np.maximum,
    AtomicMode.MIN: np.minimum,
    AtomicMode.UMAX: unsigned_maximum,
    AtomicMode.UMIN: unsigned_minimum,
    AtomicMode.XCHG: exchange,
}

# --- windows ---------------------------------------------------------------------------------


def _windows(
    space: AddressSpace,
    site: int,
    element: Element,
    places: Array,
    mask: Array | None,
    *,
    writes: bool = False,
) -> Iterator[Window]:
    """Split an access by memory; nothing is yielded before every address is checked."""
    dtype = storage_dtype(element)
    window = _one_window(space, dtype, places, mask, writes=writes)
    if window is not None:
        return iter((window,) if window.positions.size else ())
    active = np.ones(places.shape, np.bool_) if mask is None else np.asarray(mask)
    _require_aligned(site, places, active, dtype.itemsize)
    found = []
    left = active
    for memory in space.visible():
        here = left & (places >= memory.address) & (places <= memory.end - dtype.itemsize)
        if here.any():
            if writes and not memory.array.flags.writeable:
                what = f"writes {dtype.itemsize} bytes at {{:#x}}, in memory that is read-only"
                report_element(site, here, what, places)
            found.append((memory, here))
            left = left & ~here
    if left.any():
        verb = "writes" if writes else "reads"
        what = f"{verb} {dtype.itemsize} bytes at {{:#x}}, outside the memories of this launch"
        report_element(site, left, what, places)
    return (_window(memory, dtype, places, here) for memory, here in found)


def _one_window(
    space: AddressSpace, dtype: np.dtype[Any], places: Array, mask: Array | None, *, writes: bool
) -> Window | None:
    """Return the whole access if it is valid and falls into one memory, the common case.

    The least and the greatest address decide this. None stands for any other access, which is
    checked element by element.
    """
    chosen = None if mask is None else np.asarray(mask)
    chosen = None if chosen is not None and chosen.all() else chosen
    flat = np.asarray(places).reshape(-1) if chosen is None else places[chosen]
    if not flat.size:
        return Window(chosen, _NOTHING, flat)
    size = dtype.itemsize
    memory = space.holding(int(flat.min()), int(flat.max()) + size)
    if memory is None or (writes and not memory.array.flags.writeable):
        return None
    skip = -memory.address % size
    positions = flat - (memory.address + skip)
    bitwise_or: Any = np.bitwise_or  # the stubs of NumPy 2.5 refuse a plain `reduce`
    if bitwise_or.reduce(positions) & (size - 1):  # sizes are powers of two
        return None
    positions >>= size.bit_length() - 1
    usable = (memory.array.size - skip) // size * size
    return Window(chosen, memory.array[skip : skip + usable].view(dtype), positions)


_NOTHING = np.empty(0, np.uint8)


def _window(memory: KernelMemory, dtype: np.dtype[Any], places: Array, here: Array) -> Window:
    skip = -memory.address % dtype.itemsize
    usable = (memory.array.size - skip) // dtype.itemsize * dtype.itemsize
    elements = memory.array[skip : skip + usable].view(dtype)
    positions = (places[here] - (memory.address + skip)) // dtype.itemsize
    return Window(here, elements, positions)


def _require_aligned(site: int, places: Array, active: Array, size: int) -> None:
    wrong = active & (places % size != 0)
    if wrong.any():
        report_element(site, wrong, f"uses address {{:#x}}, not a multiple of {size} bytes", places)

"""Finds races between blocks: two touch one element, and one of them writes it without an atomic.

A watched program notes every access while it runs; `find_race` looks at the notes afterwards.
Blocks of one launch have no order, so which of them ran first does not matter. Memory that nobody
writes without an atomic cannot be raced for. Where all accesses of a memory are tiles of one
partition, two tiles meet only if they have the same index; anything else is painted, element by
element.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from tilewright.backends.cpu.faults import Access, Site
from tilewright.backends.cpu.memory import AddressSpace, PartitionView, storage_dtype
from tilewright.dtypes import Element

__all__ = ["Note", "Places", "Race", "TileOf", "find_race"]

Array = np.ndarray[Any, Any]
BlockId = tuple[int, int, int]


class TileOf(NamedTuple):
    """What a load or store of a view touches."""

    view: PartitionView
    at: tuple[int, ...]  # its index

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return int(self.view.array.itemsize)

    def addresses(self) -> Array:
        """The addresses of the elements, of those that lie inside the tensor."""
        whole = self.view.array
        starts = [i * tile for i, tile in zip(self.at, self.view.tile, strict=True)]
        found = np.array(whole.ctypes.data, np.int64)
        for axis, start in enumerate(starts):
            end = min(start + self.view.tile[axis], whole.shape[axis])
            found = np.add.outer(found, np.arange(start, end) * whole.strides[axis])
        return found


class Places(NamedTuple):
    """What a load, store or atomic through pointers touches."""

    element: Element
    places: Array
    mask: Array | None

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return int(storage_dtype(self.element).itemsize)

    def addresses(self) -> Array:
        """The addresses of the elements, of those that are not masked."""
        places = np.asarray(self.places)
        return places.reshape(-1) if self.mask is None else places[np.asarray(self.mask)]


class Note(NamedTuple):
    """One access of one block."""

    block: BlockId
    site: int
    touched: TileOf | Places


@dataclass(frozen=True)
class Race:
    """Two accesses of one element by two blocks; the first one writes."""

    writer: Note
    other: Note
    address: int

    def describe(self, kernel: str, sites: Sequence[Site]) -> str:
        """What a reader of the kernel needs to find both accesses."""
        writes, touches = sites[self.writer.site], sites[self.other.site]
        verb = "writes it too" if touches.access is Access.WRITE else "touches it"
        return (
            f"race in kernel `{kernel}`: block {self.writer.block} writes {self._element()} "
            f"({writes}), and block {self.other.block} {verb} ({touches})"
        )

    def _element(self) -> str:
        touched = self.writer.touched
        if isinstance(touched, Places):
            return f"the element at {self.address:#x}"
        addresses = touched.addresses()
        at = np.unravel_index(int(np.argmax(addresses == self.address)), addresses.shape)
        inside = (
            i * tile + int(step)
            for i, tile, step in zip(touched.at, touched.view.tile, at, strict=True)
        )
        place: dict[int, int] = dict(zip(touched.view.type.dim_map, inside, strict=True))
        return f"element {tuple(place[axis] for axis in sorted(place))} of a tensor"


def find_race(notes: Iterable[Note], sites: Sequence[Site], space: AddressSpace) -> Race | None:
    """The first race that the notes of a run tell of."""
    for group in _by_region(notes, space):
        if any(sites[note.site].access is Access.WRITE for note in group):
            race = _same_index(group, sites) if _is_one_partition(group) else _painted(group, sites)
            if race is not None:
                return race
    return None


def _by_region(notes: Iterable[Note], space: AddressSpace) -> Iterator[list[Note]]:
    """Notes that may touch common bytes; memories that overlap are one region."""
    starts = np.array(_region_starts(space), np.int64)
    groups: dict[int, list[Note]] = defaultdict(list)
    of_view: dict[PartitionView, int] = {}
    for note in notes:
        touched = note.touched
        if isinstance(touched, Places):
            for region in np.unique(np.searchsorted(starts, touched.addresses(), "right")):
                groups[int(region)].append(note)
        else:
            view = touched.view
            if view not in of_view:
                of_view[view] = int(np.searchsorted(starts, view.array.ctypes.data, "right"))
            groups[of_view[view]].append(note)
    yield from groups.values()


def _region_starts(space: AddressSpace) -> list[int]:
    starts, end = [], -1
    for memory in sorted(space.memories, key=lambda memory: memory.address):
        if memory.address >= end:
            starts.append(memory.address)
        end = max(end, memory.end)
    return starts


# --- tiles of one partition ------------------------------------------------------------------


def _is_one_partition(notes: Sequence[Note]) -> bool:
    """Whether all accesses are tiles of one partition, which are equal or disjoint."""
    views = {None if isinstance(note.touched, Places) else note.touched.view for note in notes}
    partitions = set()
    for view in views:
        if view is None or not _is_injective(view.array):
            return False
        partitions.add((view.array.ctypes.data, view.array.shape, view.array.strides, view.tile))
    return len(partitions) == 1


def _is_injective(array: Array) -> bool:
    """Whether different indices are surely different elements."""
    reach = array.itemsize
    for stride, extent in sorted(
        (abs(stride), extent)
        for stride, extent in zip(array.strides, array.shape, strict=True)
        if extent > 1
    ):
        if stride < reach:
            return False
        reach = stride * (extent - 1) + reach
    return True


def _same_index(notes: Sequence[Note], sites: Sequence[Site]) -> Race | None:
    touched: dict[Any, Note] = {}
    written: dict[Any, Note] = {}
    shared: dict[Any, Note] = {}  # touched by a block that is not the first one
    for note in notes:
        assert isinstance(note.touched, TileOf)
        index = note.touched.at
        if note.block != touched.setdefault(index, note).block:
            shared.setdefault(index, note)
        if sites[note.site].access is Access.WRITE:
            written.setdefault(index, note)
    for index, second in shared.items():
        if (writer := written.get(index)) is not None:
            other = second if second.block != writer.block else touched[index]
            return Race(writer, other, int(writer.touched.addresses().flat[0]))
    return None


# --- anything else ---------------------------------------------------------------------------


def _painted(notes: Sequence[Note], sites: Sequence[Site]) -> Race | None:
    """Paint who wrote and who touched each granule of a region."""
    granule = gcd(*(note.touched.size for note in notes))
    stretches = [_granules(note.touched, granule) for note in notes]
    low = min(int(stretch.min()) for stretch in stretches if stretch.size)
    high = max(int(stretch.max()) for stretch in stretches if stretch.size)
    blocks = {block: number for number, block in enumerate({note.block for note in notes}, 1)}
    writer, first, second = (np.zeros(high - low + 1, np.int32) for _ in range(3))
    for note, stretch in zip(notes, stretches, strict=True):
        at, own = stretch - low, blocks[note.block]
        writes = sites[note.site].access is Access.WRITE
        for layer in (writer, first, second) if writes else (writer,):
            seen = layer[at]
            wrong = (seen != 0) & (seen != own)
            if wrong.any():
                place = (int(at[np.argmax(wrong)]) + low) * granule
                return _told(notes, sites, place)
        if writes:
            writer[at] = own
        else:
            earlier = first[at]
            second[at] = np.where((earlier != 0) & (earlier != own), own, second[at])
            first[at] = np.where(earlier == 0, own, earlier)
    return None


def _granules(touched: TileOf | Places, granule: int) -> Array:
    """The numbers of the granules that an access touches."""
    first = touched.addresses().reshape(-1, 1) // granule
    inside: Array = np.arange(touched.size // granule)
    return np.asarray(first + inside).reshape(-1)


def _told(notes: Sequence[Note], sites: Sequence[Site], address: int) -> Race:
    """The two accesses that meet at an address."""
    meeting = [note for note in notes if _touches(note.touched, address)]
    writer = next(note for note in meeting if sites[note.site].access is Access.WRITE)
    other = next(note for note in meeting if note.block != writer.block)
    return Race(writer, other, address)


def _touches(touched: TileOf | Places, address: int) -> bool:
    addresses = touched.addresses()
    return bool(((addresses <= address) & (address < addresses + touched.size)).any())

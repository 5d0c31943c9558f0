"""Footprints of accesses, as intervals of addresses.

A watched program records an access as a view with an index, a strided box, or as the `Spans` of a
tile of pointers. `stretches` converts either to intervals of addresses, `meet` tests whether two
share a byte; boxes of one tensor are compared as boxes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.backends.cpu.memory import storage_dtype
from tilewright.backends.cpu.views import IndexedView, TiledView, is_injective
from tilewright.dtypes import Element

__all__ = ["Event", "Spans", "element_at", "layout", "meet", "spans", "stretches"]

Array = np.ndarray[Any, Any]


class Spans(NamedTuple):
    """Sorted, disjoint intervals of addresses."""

    starts: Array
    ends: Array


class Event(NamedTuple):
    """One access of a block; generated code makes them as plain tuples."""

    site: int
    where: TiledView | IndexedView | Spans
    at: tuple[Any, ...]  # the index, for a view
    before: int  # events of the block that its token is ordered after, a bit each
    turn: int = -1  # rank among all releases and acquires, if it is one


def spans(element: Element, places: Any, mask: Any) -> Spans:
    """Return the addresses that a tile of pointers touches, masked elements excluded."""
    flat = np.asarray(places).reshape(-1) if mask is None else places[np.asarray(mask)]
    return _joined(flat, storage_dtype(element).itemsize)


def _joined(addresses: Array, length: int) -> Spans:
    """Merge intervals of one length."""
    if addresses.size == 0:
        return Spans(addresses, addresses)
    if addresses.size > 1 and (np.diff(addresses) == length).all():
        return Spans(addresses[:1], addresses[-1:] + length)
    starts = np.unique(addresses)
    gaps = np.flatnonzero(np.diff(starts) > length)
    first = np.concatenate(([0], gaps + 1))
    last = np.concatenate((gaps, [starts.size - 1]))
    return Spans(starts[first], starts[last] + length)


def stretches(where: TiledView | IndexedView | Spans, at: tuple[Any, ...]) -> Spans:
    """Return the intervals that an access touches, inside its tensor."""
    if isinstance(where, TiledView):
        return _box(where, at)
    if isinstance(where, IndexedView):
        addresses = where.tensor.addresses(where.places(at))
        return _joined(addresses.reshape(-1), storage_dtype(where.element).itemsize)
    return where


def _box(view: TiledView, at: tuple[int, ...]) -> Spans:
    inside = view.part(at)
    if inside.size == 0:
        return Spans(_NONE, _NONE)
    length, outer = inside.itemsize, []
    for stride, extent in sorted(zip(inside.strides, inside.shape, strict=True)):
        if extent > 1 and stride == length:
            length = stride * extent
        elif extent > 1:
            outer.append((stride, extent))
    starts: Array = np.array(inside.ctypes.data, np.int64)
    for stride, extent in reversed(outer):
        starts = np.add.outer(starts, np.arange(extent) * stride)
    return _joined(starts.reshape(-1), length)


_NONE = np.empty(0, np.int64)


def meet(first: Event, second: Event) -> int | None:
    """Return an address that two accesses share, if any."""
    if _apart(first, second):
        return None
    starts, ends = stretches(first.where, first.at)
    others = stretches(second.where, second.at)
    # The last interval that starts before each end is the only one that can overlap it.
    found = np.searchsorted(others.starts, ends) - 1
    reaches = found >= 0
    reaches[reaches] = others.ends[found[reaches]] > starts[reaches]
    if not reaches.any():
        return None
    i = int(np.argmax(reaches))
    return int(max(starts[i], _first_reaching(others, int(starts[i]))))


def _first_reaching(spans_: Spans, address: int) -> int:
    """Return the start of the first interval that ends after an address."""
    return int(spans_.starts[np.searchsorted(spans_.ends, address, "right")])


def _apart(first: Event, second: Event) -> bool:
    """Whether two accesses are different boxes of one tensor."""
    one, other = first.where, second.where
    if not (isinstance(one, TiledView) and isinstance(other, TiledView)):
        return False
    if layout(one) != layout(other) or not is_injective(one.array):
        return False
    sides = zip(one.box(first.at), other.box(second.at), strict=True)
    return any(a.stop <= b.start or b.stop <= a.start for a, b in sides)


def layout(view: TiledView) -> tuple[Any, ...]:
    """Return a key that is equal for views whose boxes can be compared."""
    return view.array.ctypes.data, view.array.shape, view.array.strides


def element_at(where: TiledView | IndexedView | Spans, at: tuple[Any, ...], address: int) -> str:
    """Describe the element at an address: by its index in a tensor, if there is one."""
    if isinstance(where, Spans):
        return ""
    if isinstance(where, TiledView):
        along: list[Array] = [np.empty(0)] * len(where.extents)
        for axis, side, extent in zip(where.dim_map, where.box(at), where.extents, strict=True):
            along[axis] = np.array(range(extent)[side], np.int64)
        places = np.ix_(*along)
    else:
        places = tuple(where.places(at))
    found = where.tensor.addresses(places) // storage_dtype(where.element).itemsize
    wanted = np.argwhere(found == address // storage_dtype(where.element).itemsize)
    if not len(wanted):
        return ""
    numbers = (int(np.broadcast_to(axis, found.shape)[tuple(wanted[0])]) for axis in places)
    name = f"`{where.tensor.name}`" if where.tensor.name else "a tensor"
    return f"element {tuple(numbers)} of {name}"

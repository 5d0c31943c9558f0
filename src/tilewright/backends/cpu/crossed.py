"""Loads of whole rows: the addresses are a column of row starts plus one row of steps.

    places = base + (rows[:, None] + columns[None, :]) * size

A gather of rows makes such addresses. Rows of consecutive elements are copied one by one, and the
tile of addresses is never made. Any access that this cannot serve is made with the tile, which
checks each address by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.backends.cpu import pointers
from tilewright.backends.cpu.memory import AddressSpace, is_nibble, storage_dtype
from tilewright.backends.cpu.scalars import FARTHEST
from tilewright.dtypes import Element

__all__ = ["Site", "load"]

Array = np.ndarray[Any, Any]


class Site(NamedTuple):
    """The static part of a load: its element and tile, and where faults are reported."""

    move: int  # of the addresses
    access: int
    element: Element
    shape: tuple[int, int]


def load(
    space: AddressSpace,
    site: Site,
    base: Any,
    steps: tuple[Array, Array],
    masks: tuple[Array | None, Array | None],
    padding: Any,
) -> Array:
    """Return the elements at `base` plus the sums of a column and a row of steps.

    An element is read where the column and the row of masks are true; others give the padding.
    """
    found = _rows(space, site, int(base), steps, masks, padding)
    if found is not None:
        return found
    size = storage_dtype(site.element).itemsize
    places = pointers.moved(site.move, base, steps[0] + steps[1], size)
    mask: Array | None = None
    for part in masks:
        if part is not None:
            mask = np.broadcast_to(part if mask is None else mask & part, site.shape)
    return pointers.load(space, site.access, site.element, places, mask, padding)


def _rows(
    space: AddressSpace,
    site: Site,
    base: int,
    steps: tuple[Array, Array],
    masks: tuple[Array | None, Array | None],
    padding: Any,
) -> Array | None:
    """Return the tile, or None if the rows are not consecutive elements of one memory."""
    starts, columns = steps[0].reshape(-1), steps[1].reshape(-1)
    dtype, width = storage_dtype(site.element), _width(columns, masks[1])
    if is_nibble(site.element) or dtype != site.element.numpy or not width:
        return None
    if columns.dtype.itemsize == 8 and not _may_move((starts, columns), dtype.itemsize):
        return None
    chosen = None if masks[0] is None else masks[0].reshape(-1)
    chosen = None if chosen is None or chosen.all() else chosen
    first = (starts if chosen is None else starts[chosen]).astype(np.int64)
    if not first.size:
        return None
    first += np.int64(columns[0])
    low, high = int(first.min()), int(first.max()) + width
    if not _fits(low, high, columns.dtype):
        return None
    memory = space.holding(base + low * dtype.itemsize, base + high * dtype.itemsize)
    if memory is None or base % dtype.itemsize:
        return None
    shape = (high - low - width + 1, width)
    offset = base + low * dtype.itemsize - memory.address
    rows: Array = np.ndarray(shape, dtype, memory.array.data, offset, (dtype.itemsize,) * 2)
    first -= low
    if chosen is None and width == site.shape[1]:
        return rows[first]
    tile: Array = np.empty(site.shape, dtype)
    fill = 0 if padding is None else padding
    if chosen is None:
        tile[:, width:] = fill
        tile[:, :width] = rows[first]
    else:
        tile[...] = fill
        tile[chosen, :width] = rows[first]
    return tile


def _width(columns: Array, mask: Array | None) -> int:
    """Return the number of columns read, or 0 if they are not consecutive from the first on."""
    width = columns.size
    if mask is not None:
        flags = np.broadcast_to(mask.reshape(-1), columns.shape)
        width = int(np.count_nonzero(flags))
        if not flags[:width].all():
            return 0
    return width if (np.diff(columns[:width]) == 1).all() else 0


def _may_move(steps: tuple[Array, Array], size: int) -> bool:
    """Whether no sum of steps, of elements that are not read included, can wrap an address."""
    reach = [max(abs(int(each.min())), abs(int(each.max()))) for each in steps]
    return sum(reach) <= FARTHEST // size


def _fits(low: int, high: int, dtype: np.dtype[Any]) -> bool:
    """Whether sums between these bounds do not wrap in the type of the steps."""
    limits = np.iinfo(dtype)
    return bool(limits.min <= low and high <= limits.max)

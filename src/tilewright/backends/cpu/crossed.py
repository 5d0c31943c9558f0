"""Accesses of whole rows: the addresses are a column of row starts plus one row of steps.

    places = base + (rows[:, None] + columns[None, :]) * size

A gather or scatter of rows makes such addresses. Rows of consecutive elements are copied one by
one, and the tile of addresses is never made. Any access that this cannot serve is made with the
tile, which checks each address by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.backends.cpu import pointers
from tilewright.backends.cpu.memory import AddressSpace, is_nibble, storage_dtype
from tilewright.backends.cpu.scalars import FARTHEST
from tilewright.dtypes import Element

__all__ = ["Site", "load", "store"]

Array = np.ndarray[Any, Any]


class Site(NamedTuple):
    """The static part of an access: its element and tile, and where faults are reported."""

    move: int  # of the addresses
    access: int
    element: Element
    shape: tuple[int, int]


class Masks(NamedTuple):
    """The elements of an access: those where the column and the row are true; None is all true."""

    column: Array | None
    row: Array | None

    def over(self, shape: tuple[int, int]) -> Array | None:
        """Return the mask of every element."""
        mask: Array | None = None
        for part in self:
            if part is not None:
                mask = np.broadcast_to(part if mask is None else mask & part, shape)
        return mask


class _Rows(NamedTuple):
    """An access of rows of consecutive elements."""

    windows: Array  # all rows of that width in the memory, which overlap
    places: Array  # the rows in use, among them
    chosen: Array | None  # which rows of the tile they are; None for all
    columns: slice  # which columns of the tile they have


def load(
    space: AddressSpace,
    site: Site,
    base: Any,
    steps: tuple[Array, Array],
    masks: tuple[Array | None, Array | None],
    padding: Any,
) -> Array:
    """Return the elements at `base` plus the sums of a column and a row of steps.

    Elements under a false mask give the padding, or zero; columns at the end may be missing.
    """
    both = Masks(*masks)
    rows = _rows(space, site, int(base), steps, both, writes=False)
    if rows is None:
        places = _places(site, base, steps)
        mask = both.over(site.shape)
        return pointers.load(space, site.access, site.element, places, mask, padding)
    found: Array = rows.windows[rows.places]
    if rows.chosen is None and rows.columns.start == 0:
        return found
    tile: Array = np.empty(site.shape, found.dtype)
    fill = 0 if padding is None else padding
    if rows.chosen is None:
        tile[:, : rows.columns.start] = fill
        tile[:, rows.columns.stop :] = fill
        tile[:, rows.columns] = found
    else:
        tile[...] = fill
        tile[rows.chosen, rows.columns] = found
    return tile


def store(
    space: AddressSpace,
    site: Site,
    base: Any,
    steps: tuple[Array, Array],
    masks: tuple[Array | None, Array | None],
    tile: Array,
) -> None:
    """Write a tile to the addresses of `load`; elements under a false mask are not written."""
    both = Masks(*masks)
    rows = _rows(space, site, int(base), steps, both, writes=True)
    if rows is None or not _are_apart(rows):
        places = _places(site, base, steps)
        mask = both.over(site.shape)
        pointers.store(space, site.access, site.element, places, tile, mask)
        return
    part = tile[:, rows.columns]
    rows.windows[rows.places] = part if rows.chosen is None else part[rows.chosen]


def _places(site: Site, base: Any, steps: tuple[Array, Array]) -> Array:
    size = storage_dtype(site.element).itemsize
    places: Array = pointers.moved(site.move, base, steps[0] + steps[1], size)
    return places


def _are_apart(rows: _Rows) -> bool:
    """Whether no two rows share an element; else their order decides."""
    return bool((np.diff(np.sort(rows.places)) >= rows.windows.shape[1]).all())


def _rows(
    space: AddressSpace,
    site: Site,
    base: int,
    steps: tuple[Array, Array],
    masks: Masks,
    *,
    writes: bool,
) -> _Rows | None:
    """Return an access of rows of one memory; None stands for any other access."""
    starts, columns = steps[0].reshape(-1), steps[1].reshape(-1)
    dtype, kept = storage_dtype(site.element), _consecutive(columns, masks.row)
    if not _is_simple(site.element) or kept is None or base % dtype.itemsize:
        return None
    if columns.dtype.itemsize == 8 and not _may_move((starts, columns), dtype.itemsize):
        return None
    chosen = None if masks.column is None else masks.column.reshape(-1)
    chosen = None if chosen is None or chosen.all() else chosen
    first = (starts if chosen is None else starts[chosen]).astype(np.int64)
    if not first.size:
        return None
    first += np.int64(columns[kept.start])
    width = kept.stop - kept.start
    low, high = int(first.min()), int(first.max()) + width
    if not _fits(low, high, columns.dtype):
        return None
    memory = space.holding(base + low * dtype.itemsize, base + high * dtype.itemsize)
    if memory is None or (writes and not memory.array.flags.writeable):
        return None
    shape = (high - low - width + 1, width)
    offset = base + low * dtype.itemsize - memory.address
    windows: Array = np.ndarray(shape, dtype, memory.array.data, offset, (dtype.itemsize,) * 2)
    first -= low
    return _Rows(windows, first, chosen, kept)


def _is_simple(element: Element) -> bool:
    """Whether memory holds the elements as a tile does."""
    return not is_nibble(element) and storage_dtype(element) == element.numpy


def _consecutive(columns: Array, mask: Array | None) -> slice | None:
    """Return the columns in use, if they are some and consecutive elements."""
    first, width = 0, columns.size
    if mask is not None:
        flags = np.broadcast_to(mask.reshape(-1), columns.shape)
        first, width = int(np.argmax(flags)), int(np.count_nonzero(flags))
        if not width or not flags[first : first + width].all():
            return None
    kept = slice(first, first + width)
    return kept if (np.diff(columns[kept]) == 1).all() else None


def _may_move(steps: tuple[Array, Array], size: int) -> bool:
    """Whether no sum of steps, of elements that are not read included, can wrap an address."""
    reach = [max(abs(int(each.min())), abs(int(each.max()))) for each in steps]
    return sum(reach) <= FARTHEST // size


def _fits(low: int, high: int, dtype: np.dtype[Any]) -> bool:
    """Whether sums between these bounds do not wrap in the type of the steps."""
    limits = np.iinfo(dtype)
    return bool(limits.min <= low and high <= limits.max)

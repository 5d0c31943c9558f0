"""Tiles cut from tensors, with the loads, stores and reductions through views.

A `TiledView` is a grid of tiles at a regular step, each a plain slice of an array; in a partition
the step is the tile. An `IndexedView` looks up every element by its indices: gathered rows, and
tensors whose elements share bytes. Indices are read unsigned, as in Tile IR; an index outside the
view's index space is reported before memory is accessed. With `as_gpus` such a tile is all padding,
as on a GPU, and a store of it writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.cpu import formats
from tilewright.backends.cpu.faults import report
from tilewright.backends.cpu.memory import (
    NibbleTensor,
    TensorView,
    is_nibble,
    storage_dtype,
)
from tilewright.dtypes import Element
from tilewright.ir.types import (
    GatherScatterViewType,
    Padding,
    PartitionViewType,
    StridedViewType,
    ViewType,
)

__all__ = [
    "PADDING_NUMBERS",
    "IndexedView",
    "TiledView",
    "View",
    "ViewForm",
    "is_injective",
    "is_sliced",
]

Array = np.ndarray[Any, Any]
Index = tuple[Any, ...]  # an int for each axis; an array for the axis of gathered rows
Widths = tuple[int, ...]  # the bits in which each index is read
Combine = Callable[[Any, Any], Any]


def is_sliced(type_: object) -> bool:
    """Whether the tiles of a view are plain slices of an array."""
    return isinstance(type_, PartitionViewType | StridedViewType) and not is_nibble(
        type_.view.element
    )


@dataclass(frozen=True, eq=False)
class ViewForm:
    """The static part of a view, made once for all launches."""

    type: ViewType
    fill: Any  # the padding as memory holds it
    # The tensor axis of each tile axis, and the step between tiles along it.
    dim_map: tuple[int, ...]
    steps: tuple[int, ...]
    as_gpus: bool

    @staticmethod
    def of(type: ViewType, *, as_gpus: bool) -> ViewForm:
        """Return the form of a type."""
        return ViewForm(type, _padding(type.padding, type.view.element), *_grid(type), as_gpus)


class View:
    """Base of both kinds of view: a tensor with its axes in the order of the tile's."""

    def __init__(self, tensor: TensorView | NibbleTensor, form: ViewForm) -> None:
        self.tensor = tensor
        self.as_gpus = form.as_gpus
        self.type = form.type
        self.tile = form.type.tile
        self.element = form.type.view.element
        self.fill = form.fill
        self.dim_map, self.steps = form.dim_map, form.steps
        # Comprehensions of lists are cheaper than generators; every launch makes its views anew.
        self.extents = tuple([tensor.shape[axis] for axis in self.dim_map])
        self.counts = tuple(
            [-(-extent // step) for extent, step in zip(self.extents, self.steps, strict=True)]
        )

    def _require_writable(self, site: int, index: Index) -> None:
        if not self.tensor.is_writable:
            report(site, f"writes tile {index} of memory that is read-only")

    def _require_inside(
        self, site: int, index: Index, at: tuple[int, ...], inbounds: tuple[bool, ...]
    ) -> None:
        """Report an index outside the index space, or a tile that breaks its `inbounds` promise."""
        for axis, (i, number, count) in enumerate(zip(index, at, self.counts, strict=True)):
            if not number < count and not self.as_gpus:
                report(
                    site,
                    f"has index {index}, outside the view on axis {axis}: "
                    f"{i} is not in [0, {count}) (index space {self.counts})",
                )
        for axis in (axis for axis, promised in enumerate(inbounds) if promised):
            end, extent = at[axis] * self.steps[axis] + self.tile[axis], self.extents[axis]
            if end > extent:
                report(
                    site,
                    f"promises that index {index} is in bounds on axis {axis}, and the tile ends "
                    f"at {end}, outside [0, {extent})",
                )


class TiledView(View):
    """A grid of tiles, each a slice of an array.

    `array` and `whole` serve generated code: a tile whose index is below `whole` on every axis is a
    plain slice of `array`; any other goes through `load_edge` or `store_edge`. `writable` is
    `whole` for stores, and all zero where the memory is read-only; so is `open`, for `counts`.
    """

    def __init__(self, tensor: TensorView | NibbleTensor, form: ViewForm) -> None:
        assert isinstance(tensor, TensorView)
        super().__init__(tensor, form)
        self.array = tensor.array.transpose(self.dim_map)
        self.whole = tuple(
            [
                max((extent - tile) // step + 1, 0)
                for extent, tile, step in zip(self.extents, self.tile, self.steps, strict=True)
            ]
        )
        self.writable = self.whole if tensor.is_writable else (0,) * len(self.whole)
        self.open = self.counts if tensor.is_writable else self.writable

    def load_edge(
        self, site: int, widths: Widths, index: tuple[int, ...], inbounds: tuple[bool, ...] = ()
    ) -> Array:
        """Return a tile that may lie partly outside the tensor; that part is padding."""
        inside = self._inside(site, widths, index, inbounds)
        tile: Array = np.empty(self.tile, self.array.dtype)
        part: tuple[slice, ...] = ()  # of the axes so far, inside the tensor
        for extent in inside.shape:
            tile[(*part, slice(extent, None))] = self.fill
            part = (*part, slice(extent))
        tile[part] = inside
        return tile != 0 if self.element is Element.I1 else tile

    def load_along(
        self,
        axis: int,
        site: int,
        widths: Widths,
        index: tuple[int, ...],
        inbounds: tuple[bool, ...] = (),
    ) -> Array:
        """Return a tile as a window on memory, without its padding along an axis.

        A tile with padding along another axis as well has all of it.
        """
        inside = self._inside(site, widths, index, inbounds)
        others = (extent == whole for extent, whole in zip(inside.shape, self.tile, strict=True))
        if all(is_whole or at == axis for at, is_whole in enumerate(others)) and inside.size:
            return inside
        return self.load_edge(site, widths, index, inbounds)

    def store_edge(
        self,
        site: int,
        widths: Widths,
        index: tuple[int, ...],
        tile: Array,
        inbounds: tuple[bool, ...] = (),
    ) -> None:
        """Write the part of a tile that lies inside the tensor."""
        inside = self._inside(site, widths, index, inbounds)
        self._require_writable(site, index)
        inside[...] = tile[tuple(slice(extent) for extent in inside.shape)]

    def combine(
        self, site: int, widths: Widths, index: tuple[int, ...], function: Combine, tile: Array
    ) -> None:
        """Combine the part of a tile that lies inside the tensor into memory."""
        inside = self._inside(site, widths, index, ())
        self._require_writable(site, index)
        part = tile[tuple(slice(extent) for extent in inside.shape)]
        if is_injective(inside):
            inside[...] = function(inside, part)
        else:
            for place in np.ndindex(inside.shape):
                inside[place] = function(inside[place], part[place])

    def box(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the tile's slice along each axis; NumPy clips it at the edge."""
        return tuple(
            slice(i * step, i * step + tile)
            for i, step, tile in zip(index, self.steps, self.tile, strict=True)
        )

    def _inside(
        self, site: int, widths: Widths, index: tuple[int, ...], inbounds: tuple[bool, ...]
    ) -> Array:
        at = tuple(i & (1 << bits) - 1 for i, bits in zip(index, widths, strict=True))
        self._require_inside(site, index, at, inbounds)
        return self.part(at)

    def part(self, index: tuple[int, ...]) -> Array:
        """Return the part of a tile that lies inside the tensor, as a window on memory."""
        window: Array = self.array[self.box(index)]
        return window


class IndexedView(View):
    """Tiles whose elements are looked up one by one."""

    def load(
        self, site: int, widths: Widths, index: Index, inbounds: tuple[bool, ...] = ()
    ) -> Array:
        """Return a tile; elements outside the tensor are padding."""
        places, chosen = self._places(site, widths, index, inbounds)
        tile = np.full(self.tile, self.fill, storage_dtype(self.element))
        tile[np.ix_(*chosen)] = self.tensor.read(places)
        return (
            tile.astype(np.bool_) if self.element is Element.I1 else tile.view(self.element.numpy)
        )

    def store(
        self, site: int, widths: Widths, index: Index, tile: Array, inbounds: tuple[bool, ...] = ()
    ) -> None:
        """Write the elements of a tile that lie inside the tensor."""
        places, chosen = self._places(site, widths, index, inbounds)
        self._require_writable(site, index)
        held = tile if self.element is Element.I1 else tile.view(storage_dtype(self.element))
        self.tensor.write(places, held[np.ix_(*chosen)])

    def places(self, index: Index) -> tuple[Array, ...]:
        """Return the elements that an access touches, by their indices along each axis."""
        return self._places(0, (64,) * len(index), index, ())[0]

    def _places(
        self, site: int, widths: Widths, index: Index, inbounds: tuple[bool, ...]
    ) -> tuple[tuple[Array, ...], list[Array]]:
        """Return the tensor indices along each axis, and the mask of those inside the tensor."""
        sparse = self.type.sparse_dim if isinstance(self.type, GatherScatterViewType) else -1
        starts = tuple(
            0 if axis == sparse else i & (1 << bits) - 1
            for axis, (i, bits) in enumerate(zip(index, widths, strict=True))
        )
        self._require_starts(site, index, starts, sparse, inbounds)
        starts = tuple(map(min, starts, self.counts))  # beyond the last one all tiles are equal
        along: list[Array] = [np.empty(0)] * len(self.tile)
        chosen: list[Array] = []
        for axis, (start, step, size) in enumerate(zip(starts, self.steps, self.tile, strict=True)):
            rows = _unsigned(index[axis]) if axis == sparse else start * step + np.arange(size)
            inside = rows < self.extents[axis]
            along[self.dim_map[axis]] = rows[inside].astype(np.int64)
            chosen.append(inside)
        return self._crossed(along), chosen

    def _crossed(self, along: list[Array]) -> tuple[Array, ...]:
        """Arrange indices along the tensor's axes so that their combination has the tile's axes."""
        rank = len(along)
        crossed = []
        for axis, numbers in enumerate(along):
            shape = [1] * rank
            shape[self.dim_map.index(axis)] = numbers.size
            crossed.append(numbers.reshape(shape))
        return tuple(crossed)

    def _require_starts(
        self,
        site: int,
        index: Index,
        starts: tuple[int, ...],
        sparse: int,
        inbounds: tuple[bool, ...],
    ) -> None:
        shown = tuple("rows" if axis == sparse else i for axis, i in enumerate(index))
        promised = tuple(yes and axis != sparse for axis, yes in enumerate(inbounds))
        if sparse >= 0 and self.counts[sparse] == 0:
            return
        self._require_inside(site, shown, starts, promised)
        if sparse >= 0 and any(inbounds[sparse : sparse + 1]):
            rows = _unsigned(index[sparse])
            if (rows >= self.extents[sparse]).any():
                report(site, f"promises rows in bounds, and has {index[sparse].tolist()}")


def _unsigned(rows: Array) -> Array:
    return rows.view(np.dtype(f"u{rows.dtype.itemsize}"))


def _grid(type_: ViewType) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(type_, GatherScatterViewType):
        rank = len(type_.tile)  # with gathered rows, an index counts elements
        return tuple(range(rank)), (1,) * rank
    if isinstance(type_, StridedViewType):
        return type_.dim_map, type_.traversal_strides
    return type_.dim_map, type_.tile


def is_injective(array: Array) -> bool:
    """Whether different indices certainly are different elements."""
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


def _padding(padding: Padding | None, element: Element) -> Any:
    """Return the padding as memory holds it; a view without a padding value has zeros."""
    number = PADDING_NUMBERS[padding or Padding.ZERO]
    if element is Element.I1:
        return np.uint8(number)
    return formats.held(np.float64(number), element).view(storage_dtype(element))


# The number that each padding stands for.
PADDING_NUMBERS = {
    Padding.ZERO: 0.0,
    Padding.NEG_ZERO: -0.0,
    Padding.NAN: float("nan"),
    Padding.POS_INF: float("inf"),
    Padding.NEG_INF: float("-inf"),
}

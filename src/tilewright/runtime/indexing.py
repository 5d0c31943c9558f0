"""Layouts: how the elements of a handle lie in its storage, and what slicing does to them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from operator import index as as_index
from typing import Any

from tilewright.errors import LaunchError
from tilewright.runtime.regions import Region, strides_are_disjoint

__all__ = ["MAX_EXTENT", "Layout", "check_shape"]

# Indices are 32-bit, so that is how far an axis reaches.
MAX_EXTENT = 2**31 - 1

_roots = itertools.count(1)


@dataclass(frozen=True)
class Layout:
    """Shape and strides in elements from an offset, and the box of the root that they came from."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    root: int
    box: tuple[tuple[int, int], ...]  # in the root's index space
    axes: tuple[int, ...]  # the axis of the root that each axis runs along

    @staticmethod
    def packed(shape: tuple[int, ...], offset: int = 0) -> Layout:
        """A new root whose elements lie one behind the other."""
        strides = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
        return Layout.strided(shape, tuple(strides), offset)

    @staticmethod
    def strided(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Layout:
        """A new root with given strides."""
        disjoint = strides_are_disjoint(shape, strides)
        box = tuple((0, extent) for extent in shape) if disjoint else ()
        return Layout(shape, strides, offset, next(_roots), box, tuple(range(len(shape))))

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one behind the other in row-major order."""
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return self.size == 0
            expected *= extent
        return True

    def region(self, itemsize: int) -> Region:
        """The bytes that it reaches."""
        low = self.offset * itemsize
        if not self.size:
            return Region(low, low, dense=True, disjoint=True, root=self.root, box=self.box)
        reach = sum((e - 1) * s for e, s in zip(self.shape, self.strides, strict=True))
        disjoint = strides_are_disjoint(self.shape, self.strides)
        dense = disjoint and reach + 1 == self.size
        return Region(low, low + (reach + 1) * itemsize, dense, disjoint, self.root, self.box)

    def reshape(self, shape: tuple[Any, ...]) -> Layout:
        """The same elements in another shape; one extent may be -1."""
        if not self.is_contiguous:
            raise LaunchError(
                f"a view of shape {self.shape} with strides {self.strides} has gaps and cannot be"
                " reshaped: reshape the whole tensor first, or copy the view"
            )
        wanted = tuple(as_index(extent) for extent in shape)
        known = prod(extent for extent in wanted if extent != -1)
        if wanted.count(-1) == 1 and known and self.size % known == 0:
            wanted = tuple(self.size // known if extent == -1 else extent for extent in wanted)
        wanted = check_shape(wanted)
        if prod(wanted) != self.size:
            raise LaunchError(f"{self.size} elements of shape {self.shape} do not fit {wanted}")
        return Layout.packed(wanted, self.offset)

    def select(self, index: Any) -> Layout:
        """The part that an index expression names."""
        entries = index if isinstance(index, tuple) else (index,)
        if len(entries) > len(self.shape):
            raise IndexError(f"{len(entries)} indices for a tensor of rank {len(self.shape)}")
        here = self
        for axis in reversed(range(len(entries))):
            entry = entries[axis]
            here = here._slice(axis, entry) if isinstance(entry, slice) else here._at(axis, entry)
        return here

    def _slice(self, axis: int, part: slice) -> Layout:
        start, stop, step = part.indices(self.shape[axis])
        if step != 1:
            raise IndexError(f"a tensor is sliced with step 1, not {step}")
        stop = max(start, stop)
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        offset = self.offset + start * self.strides[axis]
        return replace(self, shape=shape, offset=offset, box=self._cut(axis, start, stop))

    def _at(self, axis: int, position: Any) -> Layout:
        try:
            at = as_index(position)
        except TypeError:
            raise TypeError(
                f"a tensor is indexed by slices and integers, not {type(position).__name__}"
            ) from None
        extent = self.shape[axis]
        if not -extent <= at < extent:
            raise IndexError(f"index {at} is outside axis {axis}, which has {extent} elements")
        at %= extent
        return Layout(
            self.shape[:axis] + self.shape[axis + 1 :],
            self.strides[:axis] + self.strides[axis + 1 :],
            self.offset + at * self.strides[axis],
            self.root,
            self._cut(axis, at, at + 1),
            self.axes[:axis] + self.axes[axis + 1 :],
        )

    def _cut(self, axis: int, start: int, stop: int) -> tuple[tuple[int, int], ...]:
        if not self.box:
            return ()
        root_axis = self.axes[axis]
        first = self.box[root_axis][0]
        cut = (first + start, first + stop)
        return (*self.box[:root_axis], cut, *self.box[root_axis + 1 :])


def check_shape(shape: int | tuple[Any, ...]) -> tuple[int, ...]:
    """A shape as a tuple of extents that a tensor can have."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        checked = tuple(as_index(extent) for extent in extents)
    except TypeError:
        raise LaunchError(f"a shape is a tuple of integers, not {shape!r}") from None
    for axis, extent in enumerate(checked):
        if extent < 0:
            raise LaunchError(f"axis {axis} of shape {checked} has a negative extent")
        if extent > MAX_EXTENT:
            raise LaunchError(
                f"axis {axis} of shape {checked} has {extent} elements, and an axis can have at"
                f" most {MAX_EXTENT}: split it into two axes"
            )
    return checked

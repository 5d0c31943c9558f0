"""Layouts: shape, strides and offset of a handle's elements in its storage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from types import EllipsisType
from typing import Any, NamedTuple

from tilewright.errors import LaunchError
from tilewright.given import as_int, as_ints, shown
from tilewright.runtime.memory.regions import Region

__all__ = ["MAX_EXTENT", "Layout", "Place", "check_shape", "one_by_one", "packed_strides"]

# Indices have 32 bits, which bounds the extent of an axis.
MAX_EXTENT = 2**31 - 1


@dataclass(frozen=True)
class Layout:
    """Shape and strides in elements, from an offset in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @staticmethod
    def packed(shape: tuple[int, ...], offset: int = 0) -> Layout:
        """Contiguous elements in row-major order."""
        return Layout(shape, packed_strides(shape), offset)

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return self.size == 0
            expected *= extent
        return True

    def region(self, itemsize: int) -> Region:
        """The bytes of its elements."""
        return Region.of(self.shape, self.strides, self.offset * itemsize, itemsize)

    # --- indices ---

    def select(self, index: Any) -> Layout:
        """The part that an index expression selects."""
        entries = self._complete(index if isinstance(index, tuple) else (index,))
        shape: list[int] = []
        strides: list[int] = []
        offset, axis = self.offset, 0
        for entry in entries:
            if entry is None:
                shape.append(1)
                strides.append(self._span(axis))
                continue
            extent, stride = self.shape[axis], self.strides[axis]
            if isinstance(entry, slice):
                start, count, step = _steps(entry, extent)
                shape.append(count)
                strides.append(stride * step)
            else:
                start = _position(entry, axis, extent)
            offset += start * stride
            axis += 1
        return Layout((*shape, *self.shape[axis:]), (*strides, *self.strides[axis:]), offset)

    def _span(self, axis: int) -> int:
        """The stride of a new axis in front of this one."""
        return self.shape[axis] * self.strides[axis] if axis < len(self.shape) else 1

    def _complete(self, entries: tuple[Any, ...]) -> tuple[Any, ...]:
        """The entries with `...` replaced by the slices that it stands for."""
        named = sum(not (entry is None or isinstance(entry, EllipsisType)) for entry in entries)
        if named > len(self.shape):
            raise IndexError(f"{named} indices for a tensor of rank {len(self.shape)}")
        dots = [at for at, entry in enumerate(entries) if isinstance(entry, EllipsisType)]
        if not dots:
            return entries
        if len(dots) > 1:
            raise IndexError("an index has `...` once: it stands for all axes that are not named")
        at = dots[0]
        return (*entries[:at], *(slice(None),) * (len(self.shape) - named), *entries[at + 1 :])

    # --- the same elements in another order or shape ---

    def permute(self, axes: tuple[Any, ...]) -> Layout:
        """The axes in another order."""
        rank = len(self.shape)
        order = tuple(_axis(axis, rank) for axis in axes)
        if sorted(order) != list(range(rank)):
            raise LaunchError(
                f"permute{tuple(axes)} must name each axis of a tensor of rank {rank} once"
            )
        shape, strides = (tuple(of[axis] for axis in order) for of in (self.shape, self.strides))
        return Layout(shape, strides, self.offset)

    def squeeze(self, axis: Any) -> Layout:
        """Without an axis that has one element, or without all of those."""
        if axis is None:
            kept = [at for at, extent in enumerate(self.shape) if extent != 1]
        else:
            gone = _axis(axis, len(self.shape))
            if self.shape[gone] != 1:
                raise LaunchError(
                    f"axis {gone} of shape {self.shape} has {self.shape[gone]} elements: only an"
                    " axis with one can be squeezed out"
                )
            kept = [at for at in range(len(self.shape)) if at != gone]
        shape, strides = (tuple(of[at] for at in kept) for of in (self.shape, self.strides))
        return Layout(shape, strides, self.offset)

    def unsqueeze(self, axis: Any) -> Layout:
        """With one more axis, of one element, in front of `axis`."""
        at = _axis(axis, len(self.shape) + 1)
        return self.select((*(slice(None),) * at, None))

    def reshape(self, shape: tuple[Any, ...]) -> Layout:
        """The same elements, in row-major order, in another shape; one extent may be -1."""
        wanted = self._filled_in(shape)
        if self.is_contiguous:
            return Layout.packed(wanted, self.offset)
        strides = _strides_of(wanted, self.shape, self.strides)
        if strides is None:
            raise LaunchError(
                f"a view of shape {self.shape} with strides {self.strides} has gaps, or an order,"
                f" that strides of shape {wanted} cannot follow: reshape the whole tensor before it"
                f" is sliced or permuted, or copy the elements, `.clone().reshape({wanted})`"
            )
        return Layout(wanted, strides, self.offset)

    def _filled_in(self, shape: tuple[Any, ...]) -> tuple[int, ...]:
        """A shape with the same number of elements; -1 is replaced by the missing extent."""
        try:
            wanted = as_ints(shape)
        except TypeError:
            raise LaunchError(f"a shape is a tuple of integers, not {shown(shape)}") from None
        known = prod(extent for extent in wanted if extent != -1)
        if wanted.count(-1) > 1:
            raise LaunchError(f"one extent of a shape may be -1, and {wanted} has more")
        if -1 in wanted and known and self.size % known == 0:
            wanted = tuple(self.size // known if extent == -1 else extent for extent in wanted)
        wanted = check_shape(wanted)
        if prod(wanted) != self.size:
            raise LaunchError(f"{self.size} elements of shape {self.shape} do not fit {wanted}")
        return wanted

    def reinterpret(self, size: int, other: int, shape: tuple[int, ...] | None) -> Layout:
        """The same bytes as elements of `other` bytes instead of `size`.

        Without a shape the last axis gets longer or shorter.
        """
        if size == other:
            return self if shape is None else self.reshape(shape)
        if not self.is_contiguous:
            raise LaunchError(
                f"a view of shape {self.shape} with strides {self.strides} has gaps, and bytes are"
                " regrouped only where they lie one behind the other: reinterpret the whole tensor"
                " first, or copy the view, `.clone()`"
            )
        start, rest = divmod(self.offset * size, other)
        if rest:
            raise LaunchError(
                f"the first element begins at byte {self.offset * size} of its memory, and elements"
                f" of {other} bytes begin at multiples of {other}: begin the slice elsewhere"
            )
        wanted = self._regrouped(size, other) if shape is None else check_shape(shape)
        if prod(wanted) * other != self.size * size:
            raise LaunchError(
                f"{self.size} elements of {size} bytes are {self.size * size} bytes, and shape"
                f" {wanted} of elements of {other} has {prod(wanted) * other}"
            )
        return Layout.packed(wanted, start)

    def _regrouped(self, size: int, other: int) -> tuple[int, ...]:
        """The shape with a last axis of as many bytes."""
        last, rest = divmod((self.shape or (1,))[-1] * size, other)
        if rest or not self.shape:
            raise LaunchError(
                f"the last axis of shape {self.shape} cannot be cut into elements of {other} bytes"
                f" instead of {size}: give the shape, reinterpret(dtype, shape)"
            )
        return (*self.shape[:-1], last)


def packed_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of contiguous elements in row-major order."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


class Place(NamedTuple):
    """A part of a layout, relative to its first element."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    ahead: int  # elements between the first of the whole and the first of the part

    def within(self, whole: Layout) -> Layout:
        """The part of a given layout."""
        return Layout(self.shape, self.strides, whole.offset + self.ahead)


def one_by_one(extents: tuple[Any, ...]) -> tuple[Any, ...]:
    """Extents or axes, given one by one or as one tuple."""
    alone = len(extents) == 1 and isinstance(extents[0], (tuple, list))
    return tuple(extents[0]) if alone else extents


def check_shape(shape: int | tuple[Any, ...]) -> tuple[int, ...]:
    """A shape as a tuple of extents that a tensor can have."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        checked = as_ints(extents)
    except TypeError:
        raise LaunchError(f"a shape is a tuple of integers, not {shown(shape)}") from None
    _check_extents(checked)
    return checked


@lru_cache(maxsize=1024)
def _check_extents(extents: tuple[int, ...]) -> None:
    """Refuse a shape that no tensor can have; cached, since most shapes recur."""
    for axis, extent in enumerate(extents):
        if extent < 0:
            raise LaunchError(f"axis {axis} of shape {shown(extents)} has a negative extent")
        if extent > MAX_EXTENT:
            raise LaunchError(
                f"axis {axis} of shape {shown(extents)} has {shown(extent)} elements, and an axis"
                f" can have at most {MAX_EXTENT}: split it into two axes"
            )


def _steps(part: slice, extent: int) -> tuple[int, int, int]:
    """The start, the number of elements and the step of a slice of an axis."""
    start, stop, step = as_ints(part.indices(extent))
    if step < 0:
        raise IndexError(
            f"a tensor is sliced forwards, not with step {step}: a kernel can store in reverse"
            " order, and `.numpy()` has an array that can be reversed"
        )
    count = len(range(start, stop, step))
    # An empty slice reaches no element, but its offset must be inside the storage.
    return (start if count else 0), count, step


def _position(entry: Any, axis: int, extent: int) -> int:
    try:
        at = as_int(entry)
    except TypeError:
        raise TypeError(
            f"a tensor is indexed by slices and integers, not {type(entry).__name__}: a kernel can"
            " gather elements at positions that a tensor holds"
        ) from None
    if isinstance(entry, bool):
        raise TypeError("a tensor is indexed by slices and integers, not by truth values")
    if not -extent <= at < extent:
        raise IndexError(f"index {shown(at)} is outside axis {axis}, which has {extent} elements")
    return at % extent


def _axis(axis: Any, rank: int) -> int:
    """An axis by its number; negative ones count from the end."""
    try:
        at = as_int(axis)
    except TypeError:
        raise LaunchError(f"an axis is an integer, not {shown(axis)}") from None
    if not -rank <= at < rank:
        raise LaunchError(f"there is no axis {shown(at)} in a tensor of rank {rank}")
    return at % rank


def _strides_of(
    wanted: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides that give the same elements in another shape, or None if none do.

    The axes are merged into runs of evenly spaced elements; each run must be cut into whole axes of
    the wanted shape. No layout is empty here: an empty one is contiguous.
    """
    found: list[int] = []
    left = list(wanted)
    for stride, count in reversed(_runs(shape, strides)):
        here = 1
        while here < count:
            found.append(stride * here)
            here *= left.pop()
        if here > count:
            return None
    return (*(1 for _ in left), *reversed(found))  # the remaining axes have one element


def _runs(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Neighbouring axes of evenly spaced elements merged into one: its stride and its elements."""
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][0] == stride * extent:
            runs[-1] = stride, runs[-1][1] * extent
        else:
            runs.append((stride, extent))
    return runs

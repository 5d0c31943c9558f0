"""Regions: the bytes of a storage that a handle reaches, and whether two regions overlap.

A region is a set of byte positions: a first one, and axes that each repeat the pattern of the later
axes at a fixed distance. It depends on the layout alone, not on the slices, reshapes and dtypes
that led to it. Two regions are apart if their byte ranges are, or if, modulo some distance, each
stays within an interval of its own: this separates the columns of a matrix, the boxes of one index
space, even and odd elements. Regions not proved apart count as overlapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Region", "strides_are_disjoint"]

Axes = tuple[tuple[int, int], ...]  # distance in bytes and number of steps, the longest first


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes of a storage, all within `[low, high)`."""

    low: int
    high: int
    dense: bool  # every byte of the range belongs to the region
    disjoint: bool  # no two indices reach the same element
    axes: Axes  # without those of one step; the bytes of an element are the last

    @staticmethod
    def whole(nbytes: int) -> Region:
        """All bytes of a storage."""
        return Region.between(0, nbytes)

    @staticmethod
    def between(low: int, high: int) -> Region:
        """All bytes of a range."""
        return Region(low, high, dense=True, disjoint=True, axes=((1, high - low),))

    @staticmethod
    @lru_cache(maxsize=4096)  # most handles have the layout of earlier ones
    def of(shape: tuple[int, ...], strides: tuple[int, ...], low: int, itemsize: int) -> Region:
        """The bytes of a handle whose first element begins at byte `low`; strides in elements."""
        reach, axes, is_disjoint = _reach(shape, strides, itemsize)
        return Region(low, low + reach, len(axes) <= 1, is_disjoint, axes)

    def overlaps(self, other: Region) -> bool:
        """Whether a byte may belong to both."""
        if self.low >= other.high or other.low >= self.high:
            return False
        if self.low == self.high or other.low == other.high:
            return False
        if self is other or (self.dense and other.dense):
            return True
        periods = {distance for distance, _ in self.axes + other.axes if distance > 1}
        return not any(_apart_modulo(period, self, other) for period in periods)

    def covers(self, other: Region) -> bool:
        """Whether every byte of `other` is known to belong to this region."""
        if self is other or other.low == other.high:
            return True
        if other.low < self.low or other.high > self.high:
            return False
        if self.low == other.low and self.axes == other.axes:
            return True
        return self.dense or (self.disjoint and self._has(other))

    def _has(self, other: Region) -> bool:
        """Whether `other` lies on the grid of this region: its first byte and each of its steps.

        The axes of a disjoint region are nested, so they are digits: a byte has one digit per axis.
        """
        rest = other.low - self.low
        steps_along = list(other.axes)
        for distance, steps in self.axes:
            place, rest = divmod(rest, distance)
            for axis in [axis for axis in steps_along if axis[0] % distance == 0]:
                steps_along.remove(axis)
                place += axis[0] // distance * (axis[1] - 1)
            if place >= steps:
                return False
        return not steps_along and not rest


@lru_cache(maxsize=4096)
def _reach(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[int, Axes, bool]:
    """The number of bytes a handle spans, its axes, and whether its elements are apart."""
    if 0 in shape:
        return 0, (), True
    in_bytes = [
        (stride * itemsize, extent)
        for stride, extent in zip(strides, shape, strict=True)
        if extent > 1
    ]
    axes = _merged((*sorted(in_bytes, reverse=True), (1, itemsize)))
    reach = sum(distance * (steps - 1) for distance, steps in axes) + 1
    return reach, axes, strides_are_disjoint(shape, strides)


def _merged(axes: Axes) -> Axes:
    """The same bytes along fewer axes: an axis that begins where the next one ends continues it."""
    merged: list[tuple[int, int]] = []
    for distance, steps in reversed(axes):
        if merged and distance == merged[-1][0] * merged[-1][1]:
            merged[-1] = merged[-1][0], merged[-1][1] * steps
        else:
            merged.append((distance, steps))
    return tuple(reversed(merged))


def _apart_modulo(period: int, one: Region, other: Region) -> bool:
    """Whether two regions stay in different intervals of a circle of this length."""
    length, other_length = _length_modulo(period, one), _length_modulo(period, other)
    ahead = (other.low - one.low) % period
    return length <= ahead and ahead + other_length <= period


def _length_modulo(period: int, region: Region) -> int:
    """The span of a region from its first byte, leaving out steps of whole periods."""
    return 1 + sum(d * (steps - 1) for d, steps in region.axes if d % period)


def strides_are_disjoint(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether no two indices reach the same element (sufficient, not necessary)."""
    if 0 in shape:
        return True
    reach = 0
    for stride, extent in sorted(zip(strides, shape, strict=True)):
        if extent == 1:
            continue
        if stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True

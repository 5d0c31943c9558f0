"""Which bytes of a storage a handle reaches, and whether two handles can meet.

Two slices of one root are compared as boxes of its index space, anything else by byte range; what
is not known to be apart counts as overlapping. Assumes that the elements of a root do not overlap
each other: a root for which that is false gives regions without a box.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Region", "strides_are_disjoint"]


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes `[low, high)` of a storage, and the box of the root's index space they belong to."""

    low: int
    high: int
    dense: bool  # every byte of the range belongs to the region
    disjoint: bool  # no two indices reach the same element
    root: int
    box: tuple[tuple[int, int], ...]

    def overlaps(self, other: Region) -> bool:
        """Whether an element may belong to both."""
        if self.low >= other.high or other.low >= self.high:
            return False
        if self.low == self.high or other.low == other.high:
            return False
        if self.root != other.root:
            return True
        pairs = zip(self.box, other.box, strict=True)
        return all(a < d and c < b for (a, b), (c, d) in pairs)

    def covers(self, other: Region) -> bool:
        """Whether every element of `other` is known to belong to this region."""
        if self is other or other.low == other.high:
            return True
        if self.root == other.root and self.box:
            pairs = zip(self.box, other.box, strict=True)
            return all(a <= c and d <= b for (a, b), (c, d) in pairs)
        return self.dense and self.low <= other.low and other.high <= self.high


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

"""The rows that a block owns of an output cut by offsets, as a helper in the language itself.

Segment `s` is the rows `[max(offsets[0..s]), offsets[s + 1])`, both clipped to the tensor, and is
cut into pieces separately; pieces are numbered across all segments. Since no segment begins before
the end of an earlier one, they are disjoint for any offsets: decreasing, negative, beyond the end.
The front end inlines `find_piece` before the body of a kernel; it needs no check, because elements
outside the offsets read as zero.
"""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import i32
from tilewright.lang import functions as tw
from tilewright.lang.annotations import Ref

__all__ = ["find_piece"]

_LANES = 128  # segments of one chunk


def find_piece(
    offsets: Ref[Any, Any], number: int, rows: int, height: int
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Segment and piece with a number, the rows of the piece, and those of the segment.

    A number beyond the last piece gives a piece without rows. There is at least one segment: a
    launch without segments has no blocks.
    """
    segments = offsets.shape[0] - 1
    lanes = tw.arange(_LANES, dtype=i32)
    highest, passed = 0, 0  # of all segments before these
    segment, piece, low, high = 0, 0, 0, 0
    for chunk in range(tw.cdiv(segments, _LANES)):
        at = chunk * _LANES + lanes
        starts = _clipped(offsets, at, rows)
        ends = tw.where(at < segments, _clipped(offsets, at + 1, rows), 0)
        lows = tw.maximum(tw.scan(starts, lambda a, b: tw.maximum(a, b), 0), highest)
        lengths = ends - lows
        counts = tw.where(lengths > 0, (lengths - 1) // height + 1, 0)
        last = passed + tw.cumsum(counts)
        first = last - counts
        is_here = (first <= number) & (number < last)  # in one lane of one chunk at most
        segment += _picked(is_here, at)
        piece += _picked(is_here, number - first)
        low += _picked(is_here, lows)
        high += _picked(is_here, ends)
        highest = tw.maximum(highest, tw.max(starts).item())
        passed += tw.sum(counts).item()
    segment = min(max(segment, 0), segments - 1)
    high = min(max(high, 0), rows)
    low = min(max(low, 0), high)
    # The remaining rows are compared, since a product or a sum might not fit.
    skipped = min(max(piece, 0), (high - low) // height)
    begin = low + skipped * height
    end = begin + min(height, high - begin)
    return segment, piece, begin, end, low, high


def _clipped(offsets: Ref[Any, Any], at: Any, rows: int) -> Any:
    """Offsets clamped to the rows of the tensor."""
    found = offsets.gather(at)
    limit = i32(rows).astype(found.dtype)
    return tw.minimum(tw.maximum(found, 0), limit).astype(i32)


def _picked(is_here: Any, values: Any) -> Any:
    """The value in the matching lane, or zero."""
    return tw.sum(tw.where(is_here, values, 0)).item()

"""Panels: the tiles that a loop counter visits, as one slice of a tensor."""

from __future__ import annotations

from typing import Any

from tilewright.backends.cpu.views import TiledView

__all__ = ["fit", "panel"]


def panel(
    view: TiledView, axis: int, index: tuple[int, ...], bounds: tuple[int, int], may_be_short: bool
) -> Any | None:
    """Return the tiles between bounds along an axis as one slice, or None if it leaves the view.

    The last tile along the axis may be partial; the part outside is then omitted. So is the part
    outside along other axes, if the panel may be short.
    """
    slices = []
    others = view.counts if may_be_short else view.whole
    for at, (i, size) in enumerate(zip(index, view.tile, strict=True)):
        if at == axis:
            (first, end), limit = bounds, view.counts[at]
        else:
            first, end, limit = i, i + 1, others[at]
        if not 0 <= first < end <= limit:
            return None
        slices.append(slice(first * size, end * size))
    return view.array[tuple(slices)]


def fit(lhs: Any | None, rhs: Any | None, lhs_axis: int, rhs_axis: int) -> bool:
    """Whether both panels exist and have the same length."""
    return lhs is not None and rhs is not None and lhs.shape[lhs_axis] == rhs.shape[rhs_axis]

"""Panels: the tiles that a counter runs over, as one stretch of a tensor."""

from __future__ import annotations

from typing import Any

from tilewright.backends.cpu.views import TiledView

__all__ = ["fit", "panel"]


def panel(view: TiledView, axis: int, index: tuple[int, ...], lower: int, upper: int) -> Any | None:
    """Tiles `lower` to `upper` along an axis side by side, or None if not all of it is there.

    Along the axis the last tile may hang over the edge; what is outside is then left out.
    """
    slices = []
    for at, (i, size) in enumerate(zip(index, view.tile, strict=True)):
        if at == axis:
            first, end, limit = lower, upper, view.counts[at]
        else:
            first, end, limit = i, i + 1, view.whole[at]
        if not 0 <= first < end <= limit:
            return None
        slices.append(slice(first * size, end * size))
    return view.array[tuple(slices)]


def fit(lhs: Any | None, rhs: Any | None, lhs_axis: int, rhs_axis: int) -> bool:
    """Whether both panels are there, and as long as each other."""
    return lhs is not None and rhs is not None and lhs.shape[lhs_axis] == rhs.shape[rhs_axis]

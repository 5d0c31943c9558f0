"""cuTile Python kernels through its own launch. Needs `cuda-tile` and torch on the GPU host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import cutile_kernels

import tilewright as tw

__all__ = ["adder"]


def adder(z: Any, x: Any, y: Any, tile: int, stream: tw.Stream) -> Callable[[], None]:
    """A launch of z = x + y on one of our streams, passed as the driver's handle."""
    kernel = ct.kernel(cutile_kernels.add)
    grid = (-(-z.numel() // tile), 1, 1)
    number, arguments = stream.queue.number, (z, x, y, tile)
    return lambda: ct.launch(number, grid, kernel, arguments)

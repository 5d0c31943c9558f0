"""How memory-bound kernels are cut into tiles: what was measured, or else a rule of thumb.

A configuration has BM rows and PART columns of a tile (BK columns and PART rows where columns are
reduced), SPAN tiles that one block takes, and hints. Each is legal for every shape.
"""

from __future__ import annotations

import tilewright as tw
from tilewright.tune import Config, chosen, key_of

__all__ = [
    "column_config",
    "element_config",
    "gradient_config",
    "power_of_two",
    "row_config",
    "span_config",
    "square_config",
]

WIDEST = 8192  # columns of a row that is held in registers
SMALLEST = 1024  # elements of a tile: with fewer, rows share one
TILE = 2048  # elements of a tile where any number would do
EDGE = 64  # of a tile that is read along one axis and written along another
ENOUGH = 1024  # blocks, so that a large GPU has work for all of its multiprocessors


def power_of_two(extent: int) -> int:
    """The least that is enough."""
    return 1 << max(extent - 1, 0).bit_length()


def _measured(name: str, x: tw.Tensor) -> Config | None:
    return chosen(name, key_of(x.dtype, x.shape), x.device.target)


def row_config(name: str, x: tw.Tensor) -> Config:
    """BM and PART of a kernel that needs all of a row before it writes any of it."""
    return _measured(name, x) or _whole_rows(*x.shape)


def _whole_rows(rows: int, columns: int) -> Config:
    part = power_of_two(columns)
    if part > WIDEST:
        return Config.of(BM=1, PART=WIDEST // 2)
    return Config.of(BM=_together(rows, part, SMALLEST), PART=part)


def gradient_config(name: str, x: tw.Tensor) -> Config:
    """ROWS, STEP and PART of a kernel that adds up what its rows give."""
    return _measured(name, x) or _gradients(*x.shape)


def _gradients(rows: int, columns: int) -> Config:
    part = min(power_of_two(columns), WIDEST // 2)
    step = _together(rows, part, SMALLEST)
    return Config.of(ROWS=max(power_of_two(rows) // ENOUGH, step), STEP=step, PART=part)


def element_config(name: str, x: tw.Tensor) -> Config:
    """BM and PART of a kernel that treats every element by itself."""
    return _measured(name, x) or _elements(*x.shape)


def _elements(rows: int, columns: int) -> Config:
    part = min(power_of_two(columns), TILE)
    return Config.of(BM=_together(rows, part, TILE), PART=part)


def span_config(name: str, x: tw.Tensor) -> Config:
    """BM, PART and SPAN of a kernel along rows that may be cut between blocks."""
    return _measured(name, x) or _spans(*x.shape)


def _spans(rows: int, columns: int) -> Config:
    part = min(power_of_two(columns), TILE)
    together = _together(rows, part, TILE)
    return Config.of(BM=together, PART=part, SPAN=_span(-(-rows // together), -(-columns // part)))


def column_config(name: str, x: tw.Tensor) -> Config:
    """BK, PART and SPAN of a kernel along the second of three axes."""
    return _measured(name, x) or _columns(*x.shape)


def _columns(outer: int, rows: int, columns: int) -> Config:
    width = min(power_of_two(columns), 128)
    part = min(power_of_two(rows), max(TILE // width, 1))
    span = _span(outer * -(-columns // width), -(-rows // part))
    return Config.of(BK=width, PART=part, SPAN=span)


def square_config(name: str, x: tw.Tensor) -> Config:
    """BM rows and BN columns of a tile that is read along one axis and written along the other."""
    rows, columns = x.shape[-2:]
    default = Config.of(BM=min(EDGE, power_of_two(rows)), BN=min(EDGE, power_of_two(columns)))
    return _measured(name, x) or default


def _together(rows: int, part: int, elements: int) -> int:
    """Rows that share a tile."""
    return min(max(elements // part, 1), power_of_two(rows))


def _span(blocks: int, parts: int) -> int:
    """Tiles of a block, a power of two: all of them, unless that leaves too few blocks."""
    wanted = max(ENOUGH // blocks, 1)
    return power_of_two(max(-(-parts // wanted), min(4, parts)))

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
    "scan_config",
    "span_config",
    "square_config",
]

WIDEST = 16384  # columns of a row that is held in registers
HELD = 8192  # elements of a tile of whole rows
LONG_PART = 4096  # columns of a row that is read in parts
TILE = 4096  # elements of a tile where any number would do
SPAN_TILE = 1024  # of a tile that is one of many in a row, each added to what came before
ENOUGH = 512  # blocks, so that a large GPU has work for all of its multiprocessors


def power_of_two(extent: int) -> int:
    """The least that is enough."""
    return 1 << max(extent - 1, 0).bit_length()


def _measured(name: str, x: tw.Tensor) -> Config | None:
    return chosen(name, key_of(x.dtype, x.shape), x.device.target)


def row_config(name: str, x: tw.Tensor) -> Config:
    """BM and PART of a kernel that needs all of a row before it writes any of it."""
    return _measured(name, x) or _whole_rows(*x.shape)


def _whole_rows(rows: int, columns: int) -> Config:
    """A few large blocks on a multiprocessor, with about 64 registers for each thread."""
    part = power_of_two(columns)
    if part > WIDEST:
        return Config.of(BM=1, PART=LONG_PART, num_worker_warps=8, occupancy=4)
    if part > HELD:
        return Config.of(BM=1, PART=part, num_worker_warps=8, occupancy=2)
    together = _together(rows, part, HELD)
    return Config.of(BM=together, PART=part, num_worker_warps=4, occupancy=4)


def gradient_config(name: str, x: tw.Tensor) -> Config:
    """ROWS, STEP and PART of a kernel that adds up what its rows give."""
    return _measured(name, x) or _gradients(*x.shape)


def _gradients(rows: int, columns: int) -> Config:
    part = min(power_of_two(columns), HELD)
    step = min(_together(rows, part, SPAN_TILE), 64)
    height = max(min(power_of_two(-(-rows // ENOUGH)), 64), step)
    return Config.of(ROWS=height, STEP=step, PART=part, num_worker_warps=8, occupancy=1)


def element_config(name: str, x: tw.Tensor) -> Config:
    """BM and PART of a kernel that treats every element by itself."""
    return _measured(name, x) or _elements(*x.shape)


def _elements(rows: int, columns: int) -> Config:
    part = min(power_of_two(columns), TILE)
    together = _together(rows, part, TILE)
    return Config.of(BM=together, PART=part, num_worker_warps=4, occupancy=8)


def span_config(name: str, x: tw.Tensor) -> Config:
    """BM, PART and SPAN of a kernel along rows that may be cut between blocks."""
    return _measured(name, x) or _spans(*x.shape)


def _spans(rows: int, columns: int) -> Config:
    part = min(power_of_two(columns), SPAN_TILE if rows >= ENOUGH else TILE)
    together = _together(rows, part, SPAN_TILE)
    span = _span(-(-rows // together), -(-columns // part))
    return Config.of(BM=together, PART=part, SPAN=span, num_worker_warps=4, occupancy=8)


def scan_config(name: str, x: tw.Tensor) -> Config:
    """The same of a kernel that combines within a tile, which is better done for all of a row."""
    return _measured(name, x) or _scans(*x.shape)


def _scans(rows: int, columns: int) -> Config:
    part = min(power_of_two(columns), HELD)
    together = _together(rows, part, SPAN_TILE)
    span = _span(-(-rows // together), -(-columns // part))
    return Config.of(BM=together, PART=part, SPAN=span, num_worker_warps=4, occupancy=4)


def column_config(name: str, x: tw.Tensor) -> Config:
    """BK, PART and SPAN of a kernel along the second of three axes."""
    return _measured(name, x) or _columns(*x.shape)


def _columns(outer: int, rows: int, columns: int) -> Config:
    width = min(power_of_two(columns), 128)
    part = min(power_of_two(rows), max(TILE // width, 1))
    span = _span(outer * -(-columns // width), -(-rows // part))
    return Config.of(BK=width, PART=part, SPAN=span, num_worker_warps=8, occupancy=8)


def square_config(name: str, x: tw.Tensor) -> Config:
    """BM rows and BN columns of a tile that is read along one axis and written along the other."""
    return _measured(name, x) or _squares(*x.shape[-2:], x.itemsize)


def _squares(rows: int, columns: int, itemsize: int) -> Config:
    height, width = (64, 64) if itemsize >= 4 else (32, 128)
    return Config.of(
        BM=min(height, power_of_two(rows)),
        BN=min(width, power_of_two(columns)),
        num_worker_warps=8,
        occupancy=8,
    )


def _together(rows: int, part: int, elements: int) -> int:
    """Rows that share a tile: as many as it has room for, if enough blocks are left."""
    return max(min(elements // part, power_of_two(-(-rows // ENOUGH))), 1)


def _span(blocks: int, parts: int) -> int:
    """Tiles of a block, a power of two: all of them, unless that leaves too few blocks."""
    wanted = max(ENOUGH // blocks, 1)
    return power_of_two(max(-(-parts // wanted), min(4, parts)))

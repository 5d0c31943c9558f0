"""How rows are cut into tiles: the one place that chooses, for every kernel that works on rows."""

from __future__ import annotations

from dataclasses import dataclass

import tilewright as tw

__all__ = [
    "Cut",
    "SpanCut",
    "cut_pairs",
    "cut_reduced_columns",
    "cut_reduced_rows",
    "cut_rows",
    "cut_scanned_rows",
    "power_of_two",
]

WIDEST = 8192  # columns of a row that is held in registers
SMALLEST = 1024  # elements of a tile: with fewer, rows share one
ENOUGH = 1024  # blocks, so that a large GPU has work for all of its multiprocessors


@dataclass(frozen=True)
class Cut:
    """Rows of a block, columns of a tile, and advice on the kernel."""

    rows: int
    part: int
    whole: bool  # one part has all columns
    warps: int | None = None
    occupancy: int | None = None


def power_of_two(extent: int) -> int:
    """The least that is enough."""
    return 1 << max(extent - 1, 0).bit_length()


def cut_rows(x: tw.Tensor, widest: int = WIDEST) -> Cut:
    """For kernels that need all of a row before they write any of it."""
    rows, columns = x.shape
    whole = power_of_two(columns)
    if whole > widest:
        return Cut(1, 4096, whole=False)
    together = min(max(SMALLEST // whole, 1), power_of_two(rows))
    return Cut(together, whole, whole=True)


def cut_pairs(x: tw.Tensor) -> Cut:
    """For kernels that treat every element by itself."""
    rows, columns = x.shape
    part = min(power_of_two(columns), 2048)
    return Cut(min(max(2048 // part, 1), power_of_two(rows)), part, whole=part >= columns)


@dataclass(frozen=True)
class SpanCut:
    """Rows (or columns) of a block, and the tiles along the reduced axis that it takes."""

    rows: int
    part: int
    span: int
    warps: int | None = None


def cut_reduced_rows(rows: int, columns: int) -> SpanCut:
    """For kernels that leave one number of a row, or of a span of it."""
    part = min(power_of_two(columns), 2048)
    together = min(max(2048 // part, 1), power_of_two(rows))
    return SpanCut(together, part, _span(-(-rows // together), -(-columns // part)))


def cut_reduced_columns(outer: int, rows: int, columns: int) -> SpanCut:
    """The same, along the second of three axes."""
    width = min(power_of_two(columns), 128)
    part = min(power_of_two(rows), max(2048 // width, 1))
    return SpanCut(width, part, _span(outer * -(-columns // width), -(-rows // part)))


def _span(blocks: int, parts: int) -> int:
    """Tiles of a block, a power of two: all of them, unless that leaves too few blocks."""
    wanted = max(ENOUGH // blocks, 1)
    return power_of_two(max(-(-parts // wanted), min(4, parts)))


def cut_scanned_rows(rows: int, columns: int) -> SpanCut:
    """For running sums: as many columns of a block as leave enough blocks."""
    part = min(power_of_two(columns), 2048)
    together = min(max(1024 // part, 1), power_of_two(rows))
    return SpanCut(together, part, _span(-(-rows // together), -(-columns // part)))

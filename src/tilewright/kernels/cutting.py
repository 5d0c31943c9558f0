"""Tile configurations of memory-bound kernels: a tuned record, or else a heuristic.

A configuration has BM rows and PART columns of a tile (BK columns and PART rows for reductions of
columns), SPAN tiles for each block, and hints. Every configuration is legal for every shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import NamedTuple

import tilewright as tw
from tilewright import bf16, f16
from tilewright.kernels import large_tiles
from tilewright.kernels.large_tiles import CPU, on_cpu, power_of_two
from tilewright.tune import Config, chosen, key_of, remembered

__all__ = [
    "are_exact",
    "column_config",
    "element_config",
    "gradient_config",
    "in_parts",
    "keeps_wide",
    "lanes_of",
    "line_config",
    "logits_config",
    "power_of_two",
    "rank_config",
    "row_config",
    "rows_at_once",
    "scan_config",
    "span_config",
    "square_config",
]

ALIKE = 2.0  # octaves between row widths of logits that share a record
NEAR = 1.0  # octaves between shapes that share a record of spans
MEASURED = 4096  # rows in the key of a record; the number of rows matters little
WIDEST_BYTES = 65536  # bytes of rows that a block holds in registers
SHORT = 1024  # columns of a row that shares its tile with other rows
GRADED = 8192  # columns of a tile in norm gradients and in running sums
LONG_PART = 8192  # columns of a part of a row that exceeds the registers
REGISTERS, MOST_WARPS = 65536, 64  # of one multiprocessor
THREADS = 32  # of one warp
HELD, HELD_WIDE, OTHERS = 1.2, 2.0, 23  # registers for an element, narrow or wide; others
MANY = 32  # elements of a row for each thread
HELD_BYTES = 16384  # bytes of a row part in rankings, where each thread compares its own elements
TILE = 4096  # elements of a tile by default
SPAN_TILE = 1024  # elements of a tile in a loop along a row
ENOUGH = 512  # blocks that occupy every multiprocessor of a large GPU
FEW = 128  # blocks where each adds a partial result to the final sum
MOST_ROWS = 64  # rows of such a block
WORD, LOAD = 4, 16  # bytes
ELEMENTS = Config.of(BM=1, PART=TILE, num_worker_warps=4, occupancy=8)
# One 16-byte load for each thread, and many blocks.
LINE = Config.of(BM=1, PART=1024, num_worker_warps=4, occupancy=8, allow_tma=False)
WIDE_LINE = LINE.updated(num_worker_warps=8)


class RowWay(NamedTuple):
    """Tiling of rows held in registers, from sweeps on an H200."""

    loads: tuple[int, int, int] = (1, 2, 2)  # of a thread and part, for rows by MANY; 0: all
    shared: int = 2 * SHORT  # elements of short rows that share a tile
    by_four: int = TILE // 2  # columns of a row up to which four warps suffice
    wide: int = 0  # columns, rounded up, of a row that is converted to f32 once and kept


# Parts of a single load read the weights before the sums are made, which takes registers.
ROW_WAYS = {
    "add_rms_norm": RowWay(loads=(0, 2, 2)),
    "layer_norm": RowWay(loads=(1, 2, 0), shared=TILE, by_four=TILE, wide=SHORT),
    "rms_norm": RowWay(loads=(1, 2, 0)),
    "softmax": RowWay(loads=(0, 2, 1)),
}


class Alike(NamedTuple):
    """Properties of a tensor that decide its configuration."""

    shape: tuple[int, ...]
    dtype: type[tw.DType]
    itemsize: int
    target: str


def _of_tensors(choose: Callable[[str, Alike], Config]) -> Callable[[str, tw.Tensor], Config]:
    """Apply a choice to tensors; results are cached, because every launch asks for one."""
    known = remembered(choose)

    @wraps(choose)
    def choice(name: str, x: tw.Tensor) -> Config:
        return known(name, Alike(x.shape, x.dtype, x.itemsize, x.device.target))

    return choice


def _measured(
    name: str, x: Alike, shape: tuple[int, ...], within: float = math.inf
) -> Config | None:
    """The tuned record of this shape, or of the nearest one within so many octaves.

    f16 and bf16 move the same bytes, so f16 stands for both.
    """
    dtype = f16 if x.dtype is bf16 else x.dtype
    return chosen(name, key_of(dtype, shape), x.target, within=within)


@_of_tensors
def row_config(name: str, x: Alike) -> Config:
    """BM and PART of a kernel that reads a whole row before it writes any of it.

    The width of the rows decides; their number matters little.
    """
    rows, columns = x.shape
    found = _measured(name, x, (MEASURED, columns), within=0.0)
    if found is None and x.target == CPU:
        return large_tiles.rows(rows, columns)
    return _of_rows(found or _rows(name, columns, x.itemsize), rows)


@_of_tensors
def logits_config(name: str, x: Alike) -> Config:
    """BM and PART of a kernel that writes no rows; records of similar widths count as well."""
    rows, columns = x.shape
    found = _measured(name, x, (MEASURED, columns), ALIKE)
    if found is None and x.target == CPU:
        return large_tiles.rows(rows, columns)
    return _of_rows(found or _rows(name, columns, x.itemsize), rows)


def _of_rows(config: Config, rows: int) -> Config:
    """Reduce BM until there are enough blocks and BM divides the number of rows."""
    together = _together(rows, config["PART"], _elements(config))
    return _cut(config, min(together, rows & -rows), config["PART"])


def in_parts(config: Config, x: tw.Tensor) -> dict[str, int]:
    """PART, KEPT and EXACT of a kernel that reads rows in parts.

    KEPT is the number of parts in a row if registers hold all of them, else 0. The CPU keeps one.
    """
    height, part = config["BM"], config["PART"]
    count = -(-x.shape[1] // part)
    held = WIDEST_BYTES * (config["num_ctas"] or 1)
    is_held = count == 1 if on_cpu(x) else _elements(config) * count * x.itemsize <= held
    kept = count if is_held else 0
    return {"PART": part, "KEPT": kept, "EXACT": are_exact(x, height, part)}


def rows_at_once(x: tw.Tensor, rows: int, part: int) -> int:
    """Rows of a tile with so many columns, for a kernel that takes single rows on a GPU."""
    return large_tiles.row_parts(rows, part)[0] if on_cpu(x) else 1


def keeps_wide(config: Config) -> bool:
    """Whether rows held in registers are widened once; otherwise each use widens them."""
    return bool(config.values.get("WIDE"))


def are_exact(x: tw.Tensor, height: int, part: int) -> bool:
    """Whether tiles cover a matrix exactly; then no access needs a mask."""
    rows, columns = x.shape
    return rows % height == 0 and columns % part == 0


def lanes_of(config: Config, x: tw.Tensor) -> int:
    """Threads that share a row of a tile, each with a 16-byte load where possible."""
    if on_cpu(x):
        return 1
    threads: int = THREADS * (config["num_worker_warps"] or 4)
    each = max(min(LOAD // x.itemsize, _elements(config) // threads), 1)
    lanes: int = min(threads, config["PART"] // each)
    return max(lanes, 1)


def _elements(config: Config) -> int:
    elements: int = config["BM"] * config["PART"]
    return elements


@lru_cache(maxsize=1024)
def _rows(name: str, columns: int, itemsize: int) -> Config:
    """Parts that cover a row exactly, or with little left over."""
    whole, divisor = power_of_two(columns), columns & -columns
    if whole * itemsize > WIDEST_BYTES:
        part = min(divisor, LONG_PART) if divisor >= SHORT else LONG_PART
        return Config.of(BM=1, PART=part, num_worker_warps=8, occupancy=2, allow_tma=False)
    way = ROW_WAYS.get(name, RowWay())
    together = max(way.shared // whole, 1)
    warps = 4 if whole <= way.by_four or columns < whole <= TILE else 8
    is_divided = divisor >= THREADS and 8 * divisor >= whole
    part = divisor if is_divided else max(whole // 4, min(whole, SHORT))
    each = together * columns / (THREADS * warps)
    loads = way.loads[0 if each <= MANY else 1 if each <= 2 * MANY else 2]
    if loads or together > 1:
        most = max(loads, 1) * THREADS * warps * LOAD // itemsize
        part = min(part, max(most // together, 1))
    is_wide = whole == way.wide
    registers = (HELD_WIDE if is_wide or itemsize >= WORD else HELD) * each + OTHERS
    blocks = int(REGISTERS / (THREADS * warps * registers))
    occupancy = max(min(blocks, MOST_WARPS // warps), 1)
    cut = {"BM": together, "PART": part} | ({"WIDE": True} if is_wide else {})
    return Config.of(**cut, num_worker_warps=warps, occupancy=occupancy, allow_tma=False)


@_of_tensors
def gradient_config(name: str, x: Alike) -> Config:
    """ROWS, STEP and PART of a kernel that accumulates over its rows."""
    rule = large_tiles.gradients if x.target == CPU else _gradients
    return _measured(name, x, x.shape) or rule(*x.shape)


@lru_cache(maxsize=1024)
def _gradients(rows: int, columns: int) -> Config:
    part = min(power_of_two(columns), GRADED)
    step = _together(rows, part, SPAN_TILE)
    height = max(min(power_of_two(-(-rows // FEW)), MOST_ROWS), step)
    warps, blocks = (8, 1) if part == GRADED else (4, 2)
    return Config.of(ROWS=height, STEP=step, PART=part, num_worker_warps=warps, occupancy=blocks)


@_of_tensors
def element_config(name: str, x: Alike) -> Config:
    """BM and PART of an element-wise kernel."""
    rows, columns = x.shape
    found = _measured(name, x, x.shape)
    if found is None and x.target == CPU:
        return large_tiles.elements(rows, columns)
    found = found or ELEMENTS
    return _fitted(found, rows, min(found["PART"], power_of_two(columns)))


@_of_tensors
def line_config(name: str, x: Alike) -> Config:
    """PART of an element-wise kernel on contiguous tensors."""
    (length,) = x.shape
    found = _measured(name, x, (1, length))
    if found is None and x.target == CPU:
        return large_tiles.line(length)
    found = found or (LINE if x.itemsize < WORD else WIDE_LINE)
    return _cut(found, 1, min(found["PART"], power_of_two(length)))


def _fitted(config: Config, rows: int, part: int) -> Config:
    """The configuration for rows of another width: a tile of as many elements, of more rows."""
    return _cut(config, _together(rows, part, _elements(config)), part)


@lru_cache(maxsize=1024)
def _cut(config: Config, together: int, part: int) -> Config:
    """The cached updated configuration; launches look kernels up by its identity."""
    return config.updated(BM=together, PART=part)


@_of_tensors
def span_config(name: str, x: Alike) -> Config:
    """BM, PART and SPAN of a reduction along rows that may be split between blocks."""
    rule = large_tiles.spans if x.target == CPU else _spans
    return _measured(name, x, x.shape, NEAR) or rule(*x.shape)


@lru_cache(maxsize=1024)
def _spans(rows: int, columns: int) -> Config:
    if rows < ENOUGH:
        return _long_spans(rows, columns, num_worker_warps=8, occupancy=8)
    part = min(power_of_two(columns), 2 * SPAN_TILE)
    return _whole_spans(rows, columns, part, num_worker_warps=8, occupancy=4)


@_of_tensors
def rank_config(name: str, x: Alike) -> Config:
    """BM, PART and SPAN of a ranking, which computes more with each element than a sum."""
    found = _measured(name, x, x.shape)
    if found is None and x.target == CPU:
        return large_tiles.spans(*x.shape)
    return found or _ranks(*x.shape, x.itemsize)


@lru_cache(maxsize=1024)
def _ranks(rows: int, columns: int, itemsize: int) -> Config:
    if rows < ENOUGH:
        return _long_spans(rows, columns, num_worker_warps=4, occupancy=4)
    most = HELD_BYTES // itemsize
    part = min(power_of_two(columns), most if columns <= most else most // 2)
    return _whole_spans(rows, columns, part, num_worker_warps=4, occupancy=6)


def _long_spans(rows: int, columns: int, **hints: int) -> Config:
    """Rows split between blocks, in tiles whose loads are issued far ahead."""
    part = min(power_of_two(columns), TILE)
    together = _together(rows, part, SPAN_TILE)
    span = _span(-(-rows // together), -(-columns // part))
    return Config.of(BM=together, PART=part, SPAN=span, **hints)


def _whole_spans(rows: int, columns: int, part: int, **hints: int) -> Config:
    """Whole rows for each block."""
    together = _together(rows, part, 2 * SPAN_TILE)
    span = power_of_two(-(-columns // part))
    return Config.of(BM=together, PART=part, SPAN=span, allow_tma=False, **hints)


@_of_tensors
def scan_config(name: str, x: Alike) -> Config:
    """BM, PART and SPAN of a scan; a scan within one tile is cheaper for whole rows."""
    rule = large_tiles.scans if x.target == CPU else _scans
    return _measured(name, x, x.shape, NEAR) or rule(*x.shape)


@lru_cache(maxsize=1024)
def _scans(rows: int, columns: int) -> Config:
    part = min(power_of_two(columns), GRADED)
    together = _together(rows, part, SPAN_TILE)
    span = _span(-(-rows // together), -(-columns // part))
    hints = {"num_worker_warps": 8 if part == GRADED else 4, "occupancy": 4, "allow_tma": False}
    return Config.of(BM=together, PART=part, SPAN=span, **hints)


@_of_tensors
def column_config(name: str, x: Alike) -> Config:
    """BK, PART and SPAN of a reduction along the second of three axes."""
    rule = large_tiles.columns if x.target == CPU else _columns
    return _measured(name, x, x.shape, NEAR) or rule(*x.shape)


@lru_cache(maxsize=1024)
def _columns(outer: int, rows: int, columns: int) -> Config:
    width = min(power_of_two(columns), 128)
    part = min(power_of_two(rows), max(TILE // width, 1))
    span = _span(outer * -(-columns // width), -(-rows // part))
    return Config.of(BK=width, PART=part, SPAN=span, num_worker_warps=8, occupancy=8)


@_of_tensors
def square_config(name: str, x: Alike) -> Config:
    """BM rows and BN columns of a tile that is read along one axis and written along the other."""
    rows, columns = x.shape[-2:]
    return _measured(name, x, x.shape) or _squares(rows, columns, x.itemsize)


@lru_cache(maxsize=1024)
def _squares(rows: int, columns: int, itemsize: int) -> Config:
    edge = 64 if itemsize >= WORD else 128
    return Config.of(
        BM=min(edge, power_of_two(rows)),
        BN=min(edge, power_of_two(columns)),
        num_worker_warps=8,
        occupancy=6,
        allow_tma=False,
    )


def _together(rows: int, part: int, elements: int) -> int:
    """Rows that share a tile: as many as fit, while enough blocks remain."""
    return max(min(elements // part, power_of_two(-(-rows // ENOUGH))), 1)


def _span(blocks: int, parts: int) -> int:
    """Tiles for each block, a power of two: all tiles, unless too few blocks would remain."""
    wanted = max(ENOUGH // blocks, 1)
    return power_of_two(max(-(-parts // wanted), min(4, parts)))

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
from tilewright.kernels.arithmetic import ALL, LAST, NONE
from tilewright.kernels.large_tiles import CPU, on_cpu, power_of_two
from tilewright.tune import Config, chosen, key_of, remembered

__all__ = [
    "are_exact",
    "column_config",
    "edges_of",
    "element_config",
    "in_parts",
    "keeps_wide",
    "lanes_of",
    "line_config",
    "loads_at_once",
    "logits_config",
    "power_of_two",
    "rank_config",
    "row_config",
    "row_spans",
    "rows_at_once",
    "scan_config",
    "span_config",
    "square_config",
    "strided_config",
    "vector_of",
    "weights_of",
]

ALIKE = 2.0  # octaves between row widths of logits that share a record
NEAR = 1.0  # octaves between shapes that share a record of spans
MEASURED = 4096  # rows in the key of a record; the number of rows matters little
WIDEST_BYTES = 65536  # bytes of rows that a block holds in registers
SHORT = 1024  # columns of a row that shares its tile with other rows
GRADED = 8192  # columns of a tile in running sums
LONG_PART = 8192  # columns of a part of a row that exceeds the registers
REGISTERS, MOST_WARPS = 65536, 64  # of one multiprocessor
THREADS = 32  # of one warp
HELD, HELD_WIDE, OTHERS = 1.2, 2.0, 23  # registers for an element, narrow or wide; others
MANY = 32  # elements of a row for each thread
EACH = 16  # elements of a ragged row for each thread
PARTS = 20  # most parts of a ragged row
BUSY = 1 << 17  # threads that occupy a large GPU
SPARE = 0.2  # registers beside each element
MOST_REGISTERS = 128  # of a thread that holds a ragged row
LONG_BLOCKS = 4  # blocks of long ragged rows on a multiprocessor
LONG_EACH = 16  # elements of a part of a long ragged row for each thread
NARROWEST = 32  # columns of a tile of ragged rows
SCATTERED = 2048  # elements of a tile of ragged rows, of two bytes
HELD_BYTES = 16384  # bytes of a row part in rankings, where each thread compares its own elements
TILE = 4096  # elements of a tile by default
SPAN_TILE = 1024  # elements of a tile in a loop along a row
ACROSS = 128  # columns of a tile of a reduction along the other axis
ENOUGH = 512  # blocks that occupy every multiprocessor of a large GPU
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
    operands: float = 2  # rows that a thread holds at once, weights included


# Parts of a single load read the weights before the sums are made, which takes registers.
ROW_WAYS = {
    "add_rms_norm": RowWay(loads=(0, 2, 2), operands=3),
    "cross_entropy": RowWay(operands=1),
    "layer_norm": RowWay(loads=(1, 2, 0), shared=TILE, by_four=TILE, wide=SHORT, operands=3),
    "layer_norm_gradient": RowWay(operands=4),
    "rms_norm": RowWay(loads=(1, 2, 0)),
    "rms_norm_gradient": RowWay(operands=4),
    "softmax": RowWay(loads=(0, 2, 1)),
}
READ = RowWay(operands=1)  # a row that is only read


class Alike(NamedTuple):
    """Properties of a tensor, and of others beside it, that decide its configuration."""

    shape: tuple[int, ...]
    dtype: type[tw.DType]
    itemsize: int
    target: str
    vector: int  # elements of one load

    @property
    def is_aligned(self) -> bool:
        """Whether every load has 16 bytes."""
        return self.vector * self.itemsize >= LOAD


def _of_tensors(choose: Callable[[str, Alike], Config]) -> Callable[..., Config]:
    """Apply a choice to tensors; results are cached, because every launch asks for one.

    The first tensor gives the shape, all of them the width of loads.
    """
    known = remembered(choose)

    @wraps(choose)
    def choice(name: str, x: tw.Tensor, *others: tw.Tensor) -> Config:
        vector = vector_of(x, *others)
        return known(name, Alike(x.shape, x.dtype, x.itemsize, x.device.target, vector))

    return choice


def _measured(
    name: str, x: Alike, shape: tuple[int, ...], within: float = math.inf
) -> Config | None:
    """The tuned record of this shape, or of the nearest one within so many octaves.

    f16 and bf16 move the same bytes, so f16 stands for both. Records are of contiguous tensors:
    narrower loads have none, and odd widths only their own.
    """
    if x.target != CPU and x.vector < math.gcd(LOAD // x.itemsize, x.shape[-1]):
        return None
    if not x.is_aligned:
        within = 0.0
    dtype = f16 if x.dtype is bf16 else x.dtype
    return chosen(name, key_of(dtype, shape), x.target, within=within)


@_of_tensors
def row_config(name: str, x: Alike) -> Config:
    """BM and PART of a kernel that reads a whole row before it writes any of it.

    The width of the rows decides; their number matters little.
    """
    *outer, rows, columns = x.shape
    found = _measured(name, x, (MEASURED, columns), within=0.0)
    if found is None and x.target == CPU:
        return large_tiles.rows(rows, columns)
    if found is not None or _is_even(x):
        found = found or _even_rows(name, columns, x.itemsize)
        return _of_rows(found, rows, math.prod(outer))
    return _fewer(_ragged_rows(name, math.prod(x.shape[:-1]), columns, x.itemsize, x.vector), rows)


@_of_tensors
def logits_config(name: str, x: Alike) -> Config:
    """BM and PART of a kernel that writes no rows; records of similar widths count as well."""
    rows, columns = x.shape
    found = _measured(name, x, (MEASURED, columns), ALIKE)
    if found is None and x.target == CPU:
        return large_tiles.rows(rows, columns)
    if found is not None or _is_even(x):
        return _of_rows(found or _even_rows(name, columns, x.itemsize), rows)
    return _fewer(_ragged_rows(name, rows, columns, x.itemsize, x.vector), rows)


def _is_even(x: Alike) -> bool:
    """Whether rows of 16-byte loads have parts, few of them, that divide them."""
    columns = x.shape[-1]
    return x.is_aligned and 8 * (columns & -columns) >= power_of_two(columns)


def _of_rows(config: Config, rows: int, outer: int = 1) -> Config:
    """Reduce BM until there are enough blocks."""
    enough = power_of_two(-(-rows * outer // ENOUGH))
    return _fewer(_cut(config, min(config["BM"], enough), config["PART"]), rows)


def _fewer(config: Config, rows: int) -> Config:
    """Reduce BM to the number of rows."""
    return _cut(config, min(config["BM"], _below(max(rows, 1))), config["PART"])


def row_spans(
    config: Config, *tensors: tw.Tensor
) -> tuple[tuple[Config, tuple[tw.Tensor, ...]], ...]:
    """Tensors of rows, the first one a matrix at least: those that tiles cover, and the rest.

    A tile that exceeded the rows would need a mask for every element. Rows lie along the last axis
    but one, or along the only one.
    """
    rows, height = tensors[0].shape[-2], config["BM"]
    covered, rest = rows // height * height, rows % height
    if not rest or on_cpu(tensors[0]):
        return ((config, tensors),)
    together = rest & -rest
    wider = min(config["PART"] * (height // together), power_of_two(tensors[0].shape[-1]))
    few = _cut(config, together, wider)
    return (
        (config, tuple(_rows_at(one, slice(0, covered)) for one in tensors)),
        (few, tuple(_rows_at(one, slice(covered, rows)) for one in tensors)),
    )


def _rows_at(x: tw.Tensor, span: slice) -> tw.Tensor:
    return x[(*(slice(None),) * (x.ndim - 2), span)]


def in_parts(config: Config, x: tw.Tensor) -> dict[str, int]:
    """PART, KEPT and EDGES of a kernel that reads rows in parts.

    KEPT is the number of parts in a row if registers hold all of them, else 0. The CPU keeps one.
    """
    height, part = config["BM"], config["PART"]
    count = -(-x.shape[-1] // part)
    held = WIDEST_BYTES * (config["num_ctas"] or 1)
    is_held = count == 1 if on_cpu(x) else _elements(config) * count * x.itemsize <= held
    kept = count if is_held and not config.values.get("AGAIN") else 0
    return {"PART": part, "KEPT": kept, "EDGES": edges_of(x, height, part)}


def loads_at_once(config: Config, x: tw.Tensor) -> float:
    """Bytes that each thread loads of the rows of a tile."""
    parts = -(-x.shape[-1] // config["PART"])
    if on_cpu(x):
        return 0.0 if parts == 1 else math.inf
    threads: int = THREADS * (config["num_worker_warps"] or 4)
    found: float = parts * _elements(config) * x.itemsize / threads
    return found


def weights_of(config: Config, _: tw.Tensor) -> dict[str, int]:
    """LATE of a kernel with weights: whether they are read after the row is summed."""
    return {"LATE": bool(config.values.get("LATE"))}


def rows_at_once(x: tw.Tensor, rows: int, part: int) -> int:
    """Rows of a tile with so many columns, for a kernel that takes single rows on a GPU."""
    return large_tiles.row_parts(rows, part)[0] if on_cpu(x) else 1


def keeps_wide(config: Config) -> bool:
    """Whether rows held in registers are widened once; otherwise each use widens them."""
    return bool(config.values.get("WIDE"))


def edges_of(x: tw.Tensor, height: int, part: int) -> int:
    """The parts of rows that need a mask."""
    rows, columns = x.shape[-2:]
    return ALL if rows % height else LAST if columns % part else NONE


def are_exact(x: tw.Tensor, height: int, part: int) -> bool:
    """Whether tiles cover a matrix exactly; then no access needs a mask."""
    rows, columns = x.shape
    return rows % height == 0 and columns % part == 0


def lanes_of(config: Config, x: tw.Tensor) -> dict[str, int]:
    """LANES, the threads that share a row of a tile, and NEIGHBOURS, the elements of one load."""
    if on_cpu(x):
        return {"LANES": 1, "NEIGHBOURS": 1}
    threads: int = THREADS * (config["num_worker_warps"] or 4)
    each = max(min(vector_of(x), _elements(config) // threads), 1)
    lanes = max(min(threads, config["PART"] // each), 1)
    return {"LANES": lanes, "NEIGHBOURS": each}


def vector_of(*tensors: tw.Tensor) -> int:
    """Elements of one load: 16 bytes, or as many as the rows of all tensors are aligned for."""
    return min(_vector(x.offset, x.strides, x.itemsize) for x in tensors)


@lru_cache(maxsize=4096)
def _vector(offset: int, strides: tuple[int, ...], itemsize: int) -> int:
    if strides[-1] != 1:
        return 1
    return math.gcd(LOAD // itemsize, offset, *strides[:-1])


def _elements(config: Config) -> int:
    elements: int = config["BM"] * config["PART"]
    return elements


@lru_cache(maxsize=1024)
def _ragged_rows(name: str, rows: int, columns: int, itemsize: int, vector: int) -> Config:
    """Rows in parts of one load for each thread, so that few elements are left over at the edge."""
    operands = ROW_WAYS.get(name, READ).operands
    lanes = min(_below(max(columns // EACH, 1)), THREADS * 8)
    while lanes < THREADS * 8 and 2 * lanes * vector <= columns and lanes * rows < BUSY:
        lanes *= 2
    warps = 8 if lanes > THREADS * 4 else 4
    each = columns / lanes
    # A load of less than a register takes a whole one.
    one = each * max(itemsize, WORD // vector) / WORD
    registers = OTHERS + operands * one + SPARE * each
    late = registers > MOST_REGISTERS
    if late:
        registers = OTHERS + math.ceil(operands / 2) * one + SPARE * each
    if registers > 2 * MOST_REGISTERS - OTHERS:
        part = THREADS * warps * max(LONG_EACH, vector)
        cut = {"BM": 1, "PART": part, "AGAIN": True}
        return Config.of(**cut, num_worker_warps=warps, occupancy=LONG_BLOCKS, allow_tma=False)
    part = lanes * vector
    while -(-columns // part) > PARTS:
        part *= 2
    blocks = int(REGISTERS / (THREADS * warps * registers))
    occupancy = max(min(blocks, MOST_WARPS // warps), 1)
    height = max(THREADS * warps // lanes, 1)
    cut = {"BM": height, "PART": part} | ({"LATE": True} if late else {})
    return Config.of(**cut, num_worker_warps=warps, occupancy=occupancy, allow_tma=False)


def _below(number: int) -> int:
    """The greatest power of two that is not above a number."""
    return 1 << max(number.bit_length() - 1, 0)


@lru_cache(maxsize=1024)
def _even_rows(name: str, columns: int, itemsize: int) -> Config:
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
def element_config(name: str, x: Alike) -> Config:
    """BM and PART of an element-wise kernel."""
    rows, columns = x.shape[-2:]
    size = math.prod(x.shape)
    is_large = x.is_aligned and columns % SHORT == 0 and len(x.shape) == 2
    is_large = is_large and size >= ENOUGH * 2 * TILE
    found = _measured(name, x, x.shape, math.inf if is_large else 0.0)
    if found is None and x.target == CPU:
        return large_tiles.elements(rows, columns)
    if is_large or found is not None:
        found = found or ELEMENTS
        return _fitted(found, rows, min(found["PART"], power_of_two(columns)))
    return _fewer(_ragged_elements(size, columns, x.itemsize, x.vector), rows)


@lru_cache(maxsize=1024)
def _ragged_elements(size: int, columns: int, itemsize: int, vector: int) -> Config:
    """Tiles of which few exceed a row."""
    part = min(power_of_two(columns), SHORT)
    while columns % part and columns < 8 * part and part > max(4 * vector, NARROWEST):
        part //= 2
    enough = max(_below(max(size // (2 * ENOUGH), 1)), THREADS * 4 * vector)
    tile = min(SCATTERED // max(itemsize // 2, 1), enough)
    part = min(part, tile)
    height = tile // part
    return Config.of(BM=height, PART=part, num_worker_warps=4, occupancy=8, allow_tma=False)


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
    rows, columns = x.shape
    found = _measured(name, x, x.shape, NEAR)
    if found is not None:
        return found
    if x.target == CPU:  # narrow elements are converted, which takes another tile
        most = large_tiles.TILE if x.itemsize < 4 else large_tiles.REDUCED
        return large_tiles.spans(rows, columns, most)
    if rows < ENOUGH:
        return _long_spans(rows, columns, num_worker_warps=8, occupancy=8)
    if x.is_aligned and not columns % (2 * SPAN_TILE):
        return _whole_spans(rows, columns, 2 * SPAN_TILE, num_worker_warps=8, occupancy=4)
    return _ragged_spans(rows, columns, x.itemsize, x.vector)


@_of_tensors
def strided_config(_: str, x: Alike) -> Config:
    """BM and PART of a reduction of rows with several axes."""
    *outer, rows, columns = x.shape
    if x.target == CPU:
        return large_tiles.rows(rows, columns)
    count = math.prod((*outer, rows))
    return _fewer(_ragged_rows("", count, columns, x.itemsize, x.vector), rows)


def _ragged_spans(rows: int, columns: int, itemsize: int, vector: int) -> Config:
    """Whole ragged rows for each block."""
    config = _fewer(_ragged_rows("", rows, columns, itemsize, vector), rows)
    return config.updated(SPAN=power_of_two(-(-columns // config["PART"])))


@_of_tensors
def rank_config(name: str, x: Alike) -> Config:
    """BM, PART and SPAN of a ranking, which computes more with each element than a sum."""
    rows, columns = x.shape
    is_ragged = rows >= ENOUGH and not _is_even(x)
    found = _measured(name, x, x.shape, 0.0 if is_ragged else math.inf)
    if found is not None:
        return found
    if x.target == CPU:
        return large_tiles.spans(rows, columns)
    if is_ragged:
        return _ragged_spans(rows, columns, x.itemsize, x.vector)
    return _ranks(rows, columns, x.itemsize)


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
    together = min(_together(rows, part, SPAN_TILE), rows & -rows)
    span = _span(-(-rows // together), -(-columns // part))
    return Config.of(BM=together, PART=part, SPAN=span, **hints)


def _whole_spans(rows: int, columns: int, part: int, **hints: int) -> Config:
    """Whole rows for each block."""
    together = min(_together(rows, part, 2 * SPAN_TILE), rows & -rows)
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
    found = _measured(name, x, x.shape, NEAR)
    if found is not None:
        return found
    if x.target == CPU:
        return large_tiles.columns(*x.shape)
    return _columns(*x.shape, x.is_aligned)


@lru_cache(maxsize=1024)
def _columns(outer: int, rows: int, columns: int, is_aligned: bool) -> Config:
    width = min(power_of_two(columns), ACROSS)
    while columns % width and columns < 4 * width and width > NARROWEST:
        width //= 2
    part = min(power_of_two(rows), max(TILE // width, 1))
    blocks, parts = outer * -(-columns // width), -(-rows // part)
    if is_aligned and not columns % width:
        span = _span(blocks, parts)
        return Config.of(BK=width, PART=part, SPAN=span, num_worker_warps=8, occupancy=8)
    span = power_of_two(max(parts * blocks // (4 * ENOUGH), min(4, parts)))
    hints = {"num_worker_warps": 8, "occupancy": 4, "allow_tma": False}
    return Config.of(BK=width, PART=part, SPAN=span, **hints)


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

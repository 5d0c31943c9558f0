"""Tile configurations of the library on the CPU, where a block costs much and an element little.

A block on the CPU is a sequence of NumPy calls. Each call takes about a microsecond for any tile,
so a tile has enough elements to make that overhead small, and few enough to fit the caches. Only
shapes decide, never the number of cores, so sums have the same order on every machine.

Configurations have the fields of `cutting`. Every configuration is legal for every shape.
"""

from __future__ import annotations

from functools import lru_cache

import tilewright as tw
from tilewright.tune import Config

__all__ = [
    "CPU",
    "EDGE",
    "REDUCED",
    "TILE",
    "WIDEST",
    "columns",
    "elements",
    "few_rows",
    "line",
    "on_cpu",
    "packed_scores",
    "power_of_two",
    "products",
    "row_parts",
    "rows",
    "scans",
    "scores",
    "spans",
    "split",
    "tile_for",
]

# The target of the CPU device.
CPU = "cpu"
# Elements of a tile.
TILE = 1 << 16
# Elements of a tile that is only reduced: its elements are read in place.
REDUCED = 1 << 18
# Elements along each side of a square tile.
EDGE = 256
# Columns of a tile without a reduction along them.
WIDEST = 4096
BLOCKS = 16  # blocks that share a reduction to one number
ALONE = 1 << 22  # elements up to which a block reduces all of them
LONGEST_SUM = 1024  # elements summed in sequence
SCORES = 128  # along each side of a tile of attention
PRODUCT = 1024  # along each side of a tile of a product
DEPTH = 256  # elements of K in a tile of a product


def on_cpu(x: tw.Tensor) -> bool:
    """Whether the rules of this module apply to a tensor."""
    return x.device.target == CPU


def tile_for(x: tw.Tensor, on_gpus: int) -> int:
    """The default number of elements of a tile, on GPUs or on the CPU."""
    return TILE if on_cpu(x) else on_gpus


def power_of_two(extent: int) -> int:
    """The least power of two that is not below `extent`."""
    return 1 << max(extent - 1, 0).bit_length()


def row_parts(count: int, width: int, most: int = TILE) -> tuple[int, int]:
    """Rows and columns of a tile: a whole row, or at least a part, and as many rows as fit."""
    part = min(power_of_two(width), most)
    return min(TILE // part, power_of_two(count)), part


@lru_cache(maxsize=1024)
def rows(count: int, width: int) -> Config:
    """BM and PART of a kernel that needs a whole row."""
    together, part = row_parts(count, width)
    return Config.of(BM=together, PART=part)


@lru_cache(maxsize=1024)
def elements(count: int, width: int) -> Config:
    """BM and PART of an element-wise kernel; the part of a tile behind a row costs nothing."""
    part = min(power_of_two(width), TILE)
    return Config.of(BM=min(TILE // part, power_of_two(count)), PART=part)


@lru_cache(maxsize=1024)
def line(length: int) -> Config:
    """PART of an element-wise kernel on contiguous tensors."""
    return Config.of(BM=1, PART=min(power_of_two(length), TILE))


@lru_cache(maxsize=1024)
def spans(count: int, width: int, most: int = TILE) -> Config:
    """BM, PART and SPAN of a reduction along rows that may be split between blocks.

    A tile has at most so many elements.
    """
    part = row_parts(count, width)[1]
    together = min(most // part, power_of_two(count))
    span = _span(-(-count // together), -(-width // part), count * width)
    return Config.of(BM=together, PART=part, SPAN=span)


@lru_cache(maxsize=1024)
def scans(count: int, width: int) -> Config:
    """BM, PART and SPAN of running sums."""
    together, part = row_parts(count, width, LONGEST_SUM)
    span = _span(-(-count // together), -(-width // part), count * width)
    return Config.of(BM=together, PART=part, SPAN=span)


@lru_cache(maxsize=1024)
def columns(outer: int, count: int, width: int) -> Config:
    """BL, BK, PART and SPAN of a reduction along the second of three axes; BL of the first."""
    part = min(power_of_two(count), REDUCED // min(power_of_two(width), EDGE), LONGEST_SUM)
    together = min(power_of_two(width), REDUCED // part, WIDEST)
    span = _span(outer * -(-width // together), -(-count // part), outer * count * width)
    deep = min(max(TILE // (together * part), 1), power_of_two(outer))
    return Config.of(BL=deep, BK=together, PART=part, SPAN=span)


@lru_cache(maxsize=1024)
def products(m: int, n: int, k: int) -> Config:
    """BM, BN and BK of a product of matrices, whose parts outside cost nothing."""
    edges = [max(16, min(power_of_two(extent), PRODUCT)) for extent in (m, n)]
    return Config.of(BM=edges[0], BN=edges[1], BK=min(power_of_two(max(k, 16)), DEPTH))


@lru_cache(maxsize=1024)
def few_rows(m: int, n: int, k: int) -> Config:
    """BM, BN, BK and FOLDS of a product of few rows; weights are read in their own layout."""
    across, depth = (max(16, min(power_of_two(n), WIDEST)), min(power_of_two(max(k, 16)), DEPTH))
    return Config.of(BM=power_of_two(m), BN=across, BK=depth, FOLDS=1)


@lru_cache(maxsize=1024)
def scores(queries: int, length: int) -> Config:
    """BM and BN of attention: a tile is large enough for threads, and wastes few scores."""
    rows, keys = (max(16, min(power_of_two(extent), SCORES)) for extent in (queries, length))
    return Config.of(BM=rows, BN=keys, WALK=False)


@lru_cache(maxsize=1024)
def split(length: int) -> Config:
    """BN of attention with one query, and the number of blocks that share all keys."""
    return Config.of(BN=max(16, min(power_of_two(length), 4 * SCORES)), BLOCKS=8)


@lru_cache(maxsize=1024)
def packed_scores(length: int) -> Config:
    """BM and BN of packed sequences, most of which are short."""
    keys = max(16, min(power_of_two(length), 2 * SCORES))
    return Config.of(BM=SCORES, BN=keys, WALK=False)


def _span(blocks: int, parts: int, elements: int) -> int:
    """Tiles for each block, a power of two: at least four or all, more where blocks suffice.

    A second launch, which combines the results of blocks, takes as long as some elements.
    """
    wanted = max(BLOCKS // blocks, 1) if elements > ALONE else 1
    return power_of_two(max(-(-parts // wanted), min(4, parts)))

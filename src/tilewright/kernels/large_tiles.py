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
    "SPLIT",
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
    "tile_for",
]

# The target of the CPU device.
CPU = "cpu"
# Elements of a tile.
TILE = 1 << 16
# Elements along each side of a square tile.
EDGE = 256
# Columns of a tile without a reduction along them.
WIDEST = 4096
# One query: a tile of keys, and the number of blocks that share all keys.
SPLIT = Config.of(BN=512, BLOCKS=8)
BLOCKS = 16  # blocks that share a reduction to one number
LONGEST_SUM = 1024  # elements summed in sequence
SCORES = 128  # along each side of a tile of attention
SHORTEST = 128  # columns below which a row is not cut
DEPTH = 1024  # elements of K in a tile of a product


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
    """BM and PART of an element-wise kernel: parts of a row that waste little behind its end."""
    whole = min(power_of_two(width), TILE)
    parts = (whole >> by for by in range(whole.bit_length()))
    fitting = (part for part in parts if -width % part < width / 8 or part <= SHORTEST)
    part = next(fitting)
    return Config.of(BM=min(TILE // part, power_of_two(count)), PART=part)


@lru_cache(maxsize=1024)
def line(length: int) -> Config:
    """PART of an element-wise kernel on contiguous tensors."""
    return Config.of(BM=1, PART=min(power_of_two(length), TILE))


@lru_cache(maxsize=1024)
def spans(count: int, width: int) -> Config:
    """BM, PART and SPAN of a reduction along rows that may be split between blocks."""
    together, part = row_parts(count, width)
    return Config.of(BM=together, PART=part, SPAN=_span(-(-count // together), -(-width // part)))


@lru_cache(maxsize=1024)
def scans(count: int, width: int) -> Config:
    """BM, PART and SPAN of running sums."""
    together, part = row_parts(count, width, LONGEST_SUM)
    return Config.of(BM=together, PART=part, SPAN=_span(-(-count // together), -(-width // part)))


@lru_cache(maxsize=1024)
def columns(outer: int, count: int, width: int) -> Config:
    """BL, BK, PART and SPAN of a reduction along the second of three axes; BL of the first."""
    part = min(power_of_two(count), TILE // min(power_of_two(width), EDGE), LONGEST_SUM)
    together = min(power_of_two(width), TILE // part, WIDEST)
    span = _span(outer * -(-width // together), -(-count // part))
    deep = min(TILE // (together * part), power_of_two(outer))
    return Config.of(BL=deep, BK=together, PART=part, SPAN=span)


@lru_cache(maxsize=1024)
def products(m: int, n: int, k: int) -> Config:
    """BM, BN and BK of a product of matrices."""
    return Config.of(BM=_edge(m), BN=_edge(n), BK=min(power_of_two(max(k, 16)), DEPTH))


@lru_cache(maxsize=1024)
def few_rows(m: int, n: int, k: int) -> Config:
    """BM, BN, BK and FOLDS of a product of few rows; weights are read in their own layout."""
    across, depth = row_parts(n, max(k, 16), WIDEST)
    return Config.of(BM=power_of_two(m), BN=across, BK=depth, FOLDS=1)


@lru_cache(maxsize=1024)
def scores(queries: int, length: int) -> Config:
    """BM and BN of attention: a tile is large enough for threads, and wastes few scores."""
    rows, keys = (max(16, min(power_of_two(extent), SCORES)) for extent in (queries, length))
    return Config.of(BM=rows, BN=keys, WALK=False)


@lru_cache(maxsize=1024)
def packed_scores(length: int) -> Config:
    """BM and BN of packed sequences, most of which are short."""
    keys = max(16, min(power_of_two(length), 2 * SCORES))
    return Config.of(BM=SCORES // 2, BN=keys, WALK=False)


def _edge(extent: int) -> int:
    """The largest edge that wastes less than an eighth, or the one that wastes least."""
    edges = [EDGE >> by for by in range(3)]
    waste = {edge: -extent % edge / max(extent, 1) for edge in edges}
    return next((edge for edge in edges if waste[edge] < 1 / 8), min(edges, key=waste.__getitem__))


def _span(blocks: int, parts: int) -> int:
    """Tiles for each block, a power of two: at least four or all, more where blocks suffice."""
    wanted = max(BLOCKS // blocks, 1)
    return power_of_two(max(-(-parts // wanted), min(4, parts)))

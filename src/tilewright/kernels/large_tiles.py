"""How kernels are cut for the CPU, where a block costs much and an element little.

A block there is a sequence of NumPy calls. Each takes about a microsecond whatever the tile, so a
tile has as many elements as make that small beside the work, and as caches still hold. Shapes alone
decide, not how many cores there are: a sum is made in the same order on every machine.

Configurations have the names that `cutting` says. Each is legal for every shape.
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
    "columns",
    "elements",
    "few_rows",
    "gradients",
    "line",
    "on_cpu",
    "power_of_two",
    "products",
    "row_parts",
    "rows",
    "scans",
    "scores",
    "spans",
    "squares",
    "tile_for",
]

# The target of the CPU device.
CPU = "cpu"
# Elements of a tile.
TILE = 1 << 16
# Elements along each side of a square tile.
EDGE = 256
# Keys of a tile that meets one query, and how many blocks read all of them.
SPLIT = Config.of(BN=512, BLOCKS=8)
BLOCKS = 16  # that share what is reduced to one number
LONGEST_SUM = 1024  # elements that are added one behind the other
WIDEST = 4096  # columns of a tile along which nothing is reduced
DEPTH = 1024  # of the sums of a product


def on_cpu(x: tw.Tensor) -> bool:
    """Whether a tensor is cut by the rules of this page."""
    return x.device.target == CPU


def tile_for(x: tw.Tensor, on_gpus: int) -> int:
    """Elements of a tile, where any number would do: as many as GPUs want, or the CPU."""
    return TILE if on_cpu(x) else on_gpus


def power_of_two(extent: int) -> int:
    """The least power of two that is not below `extent`."""
    return 1 << max(extent - 1, 0).bit_length()


def row_parts(count: int, width: int, most: int = TILE) -> tuple[int, int]:
    """Rows and columns of a tile: all of a row, or at least a part, and as many rows as fit."""
    part = min(power_of_two(width), most)
    return min(TILE // part, power_of_two(count)), part


@lru_cache(maxsize=1024)
def rows(count: int, width: int) -> Config:
    """BM and PART of a kernel that needs all of a row."""
    together, part = row_parts(count, width)
    return Config.of(BM=together, PART=part)


# BM and PART of a kernel that treats every element by itself.
elements = rows


@lru_cache(maxsize=1024)
def line(length: int) -> Config:
    """PART of such a kernel on tensors that lie in one piece."""
    return Config.of(BM=1, PART=min(power_of_two(length), TILE))


@lru_cache(maxsize=1024)
def spans(count: int, width: int) -> Config:
    """BM, PART and SPAN of a kernel along rows that may be cut between blocks."""
    together, part = row_parts(count, width)
    return Config.of(BM=together, PART=part, SPAN=_span(-(-count // together), -(-width // part)))


@lru_cache(maxsize=1024)
def scans(count: int, width: int) -> Config:
    """The same of running sums."""
    together, part = row_parts(count, width, LONGEST_SUM)
    return Config.of(BM=together, PART=part, SPAN=_span(-(-count // together), -(-width // part)))


@lru_cache(maxsize=1024)
def columns(outer: int, count: int, width: int) -> Config:
    """BK, PART and SPAN of a kernel along the second of three axes."""
    together = min(power_of_two(width), WIDEST)
    part = min(power_of_two(count), TILE // together, LONGEST_SUM)
    span = _span(outer * -(-width // together), -(-count // part))
    return Config.of(BK=together, PART=part, SPAN=span)


@lru_cache(maxsize=1024)
def gradients(count: int, width: int) -> Config:
    """ROWS, STEP and PART of a kernel that adds up what its rows give."""
    together, part = row_parts(count, width)
    return Config.of(ROWS=together, STEP=together, PART=part)


@lru_cache(maxsize=1024)
def squares(count: int, width: int) -> Config:
    """BM and BN of a tile that is read along one axis and written along the other."""
    down, across = power_of_two(count), power_of_two(width)
    edge = min(EDGE, down, across)
    return Config.of(BM=min(TILE // edge, down), BN=min(TILE // min(TILE // edge, down), across))


@lru_cache(maxsize=1024)
def products(m: int, n: int, k: int) -> Config:
    """BM, BN and BK of a product of matrices."""
    return Config.of(BM=_edge(m), BN=_edge(n), BK=min(power_of_two(max(k, 16)), DEPTH))


@lru_cache(maxsize=1024)
def few_rows(m: int, n: int, k: int) -> Config:
    """BM, BN, BK and FOLDS of a product of few rows: weights are read as they lie."""
    across, depth = row_parts(n, max(k, 16), WIDEST)
    return Config.of(BM=power_of_two(m), BN=across, BK=depth, FOLDS=1)


@lru_cache(maxsize=1024)
def scores(queries: int, length: int) -> Config:
    """BM and BN of attention: all queries and keys that a tile of scores has room for."""
    rows, keys = (max(16, min(power_of_two(extent), EDGE)) for extent in (queries, length))
    return Config.of(BM=rows, BN=keys, WALK=False)


def _edge(extent: int) -> int:
    """The largest edge that wastes less than an eighth, or the one that wastes least."""
    edges = [EDGE >> by for by in range(3)]
    waste = {edge: -extent % edge / extent for edge in edges}
    return next((edge for edge in edges if waste[edge] < 1 / 8), min(edges, key=waste.__getitem__))


def _span(blocks: int, parts: int) -> int:
    """Tiles of a block, a power of two: four or all, unless blocks are enough with more."""
    wanted = max(BLOCKS // blocks, 1)
    return power_of_two(max(-(-parts // wanted), min(4, parts)))

"""Tile configurations of matrix products: a tuned record, or else a heuristic.

A configuration has BM rows and BN columns of an output tile, perhaps BX columns of a second tile at
the end of the row, BK elements of the sum, the LATENCY of the loads, the number of SPLITS of the
sum (split-K), for all columns or for the last TAIL of them, a schedule and hints. A product of few
rows has FOLDS of a row in place of most of these. Every configuration is legal for every shape.

The fastest tile depends on how evenly the tiles of an output fill the GPU, and neighbouring shapes
differ in that. A record therefore counts for its exact shape alone; every other shape takes the
tile with the least estimated time (`tiles`).
"""

from __future__ import annotations

from functools import lru_cache

from tilewright import f32
from tilewright.kernels import large_tiles
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.gemm.operands import MOST_FORMS, ProductForm
from tilewright.kernels.gemm.tiles import BAND, fastest, tiles_of
from tilewright.kernels.large_tiles import CPU
from tilewright.tune import Config, Key, chosen

__all__ = ["FEWEST_ROWS", "MOST_ROWS", "WEIGHTS", "choose_gemv", "choose_grouped", "choose_matmul"]

# Least rows of a tensor-core tile; a product of no more rows is bound by reading the weights.
MOST_ROWS = 16
FEWEST_ROWS = 8  # least rows of the other side of such a tile
WEIGHTS = 64  # folded rows of weights on the one side
MOST_FOLDS = 4  # folds of one row
FEW_COLUMNS = 4096  # columns of an output where tiles of whole rows would leave a large GPU idle
EDGE = 128  # edge of a tile that uses the tensor cores of any GPU well
SMALL_EDGE = 64  # edge of a tile without tensor cores or TMA


def choose_matmul(form: ProductForm) -> Config:
    """BM, BN, perhaps BX, BK, LATENCY, SPLITS and TAIL of a product of many rows."""
    return chosen("matmul", form.key, form.target, within=0.0) or _expected(form)


@lru_cache(maxsize=MOST_FORMS)
def _expected(form: ProductForm) -> Config:
    """Heuristic for a product of many rows."""
    if form.target == CPU:
        return large_tiles.products(*form.shape)
    tiles = tiles_of(form.target, form.factor, form.layout)
    if not tiles or not form.is_aligned:
        return _plain(form)
    batch, (m, n, k) = form.batch, form.shape
    if batch > 1:  # a batch has about as many tiles as its matrices stacked
        walked = tuple(tile for tile in tiles if "BX" not in tile.config.values)
        return fastest(walked, batch * m, n, k).updated(SPLITS=1, TAIL=0)
    return fastest(tiles, m, n, k)


def choose_gemv(form: ProductForm) -> Config:
    """BM, BN, BK and FOLDS of a product of few rows."""
    return chosen("gemv", form.key, form.target, within=1.0) or _expected_of_few(form)


@lru_cache(maxsize=MOST_FORMS)
def _expected_of_few(form: ProductForm) -> Config:
    """Heuristic for a product of few rows."""
    if form.target == CPU:
        return large_tiles.few_rows(*form.shape)
    m, n, _ = form.shape
    rows = power_of_two(m)
    folds = max(FEWEST_ROWS // rows, 2) if rows < MOST_ROWS or n <= FEW_COLUMNS else 1
    folds = min(folds, MOST_FOLDS)
    is_easy = form.is_aligned and form.factor is not f32
    return Config.of(
        BM=max(rows, FEWEST_ROWS // folds), BN=WEIGHTS // folds, BK=128 if is_easy else 32,
        FOLDS=folds, occupancy=(4 if rows < FEWEST_ROWS else 2) if is_easy else None,
    )  # fmt: skip


def choose_grouped(key: Key, target: str) -> Config:
    """BM, BN and BK of a grouped product."""
    found = chosen("grouped_matmul", key, target)
    if found is None and target == CPU:
        groups, m, n, k = key.shape
        return large_tiles.products(-(-m // groups), n, k)
    return found or Config.of(BM=64, BN=64, BK=64)


def _plain(form: ProductForm) -> Config:
    """Tiles that every GPU supports, no larger than the product."""
    edge, depth = EDGE, 64
    if not form.is_aligned:
        edge, depth = SMALL_EDGE, 32
    if form.factor is f32:
        edge, depth = SMALL_EDGE, 16
    rows, columns, deep = (power_of_two(max(extent, 16)) for extent in form.shape)
    return Config.of(BM=min(edge, rows), BN=min(edge, columns), BK=min(depth, deep), group=BAND)

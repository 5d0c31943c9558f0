"""Tile configurations of matrix products: a tuned record, or else a rule.

A configuration has BM rows and BN columns of an output tile, perhaps BX columns of a second tile at
the end of the row, BK elements of the sum, the LATENCY of the loads, the number of SPLITS of the
sum (split-K) and hints. With a schedule, blocks walk the output; without one, each block has a
tile. A product of few rows has FOLDS of a row in place of most of these. Every configuration is
legal for every shape.

The fastest tile depends on how evenly the tiles of an output fill the GPU, and neighbouring shapes
differ in that. A record therefore counts for its exact shape alone; every other shape takes the
tile with the least estimated time (`tiles`), of the few that a weight has.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from operator import itemgetter

from tilewright import f32
from tilewright.kernels import large_tiles
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.gemm.gemv import FEWEST_ROWS
from tilewright.kernels.gemm.operands import LINE, MOST_FORMS, ProductForm
from tilewright.kernels.gemm.tiles import (
    BAND,
    MULTIPROCESSORS,
    Costs,
    ProductSize,
    ProductTile,
    menu_of,
    tiles_of,
    without_swapped,
)
from tilewright.kernels.large_tiles import CPU
from tilewright.tune import Config, Key, chosen

__all__ = [
    "MOST_ROWS",
    "WEIGHTS",
    "choose_grouped",
    "choose_product",
    "choose_scaled",
    "gemv_rule",
    "matmul_rule",
    "menu_for",
    "size_of",
]

# Least rows of a tensor-core tile; a product of no more rows is bound by reading the weights.
MOST_ROWS = 16
WEIGHTS = 64  # folded rows of weights on the one side
MOST_SERVED = 8192  # rows up to which a weight has a menu
EDGE = 128  # edge of a tile that uses the tensor cores of any GPU well
SMALL_EDGE = 64  # edge of a tile without tensor cores or TMA
# Folded products of one row and of few rows, and their costs.
ONE_ROW = Config.of(BM=1, BN=8, BK=128, FOLDS=8, occupancy=4, num_worker_warps=4)
FEW_ROWS = Config.of(BM=MOST_ROWS, BN=32, BK=128, FOLDS=2, occupancy=3, num_worker_warps=4)
GEMV_COSTS = Costs(0.0, 0.5, 0.22, 0.0, 0.0, 0.2)


def choose_product(form: ProductForm) -> Config:
    """The configuration of a product; one with FOLDS is for the kernel of few rows."""
    if form.shape[0] <= MOST_ROWS:
        return chosen("gemv", form.key, form.target, within=0.0) or gemv_rule(form)
    return chosen("matmul", form.key, form.target, within=0.0) or matmul_rule(form)


def choose_scaled(form: ProductForm) -> Config:
    """The configuration of a product with scales; a step takes no more than one part of K."""
    if form.shape[0] <= MOST_ROWS:
        found = chosen("scaled_gemv", form.key, form.target, within=0.0) or gemv_rule(form)
    else:
        found = chosen("scaled_matmul", form.key, form.target, within=0.0) or matmul_rule(form)
    return found if form.depth is None else _at_depth(found, form.depth)


@lru_cache(maxsize=MOST_FORMS)
def _at_depth(config: Config, depth: int) -> Config:
    return config if config["BK"] == depth else config.updated(BK=depth)


@lru_cache(maxsize=MOST_FORMS)
def matmul_rule(form: ProductForm) -> Config:
    """The rule for a product of many rows."""
    if form.target == CPU:
        return large_tiles.products(*form.shape)
    size = size_of(form)
    tiles = menu_for(form) if size.m <= MOST_SERVED else _tiles(form)
    plans = [plan for tile in tiles for plan in tile.plans(size)]
    return min(plans, key=itemgetter(0))[1] if plans else _plain(form)


def menu_for(form: ProductForm) -> tuple[ProductTile, ...]:
    """The tiles that a product chooses from, the same for all numbers of rows."""
    return menu_of(_tiles(form), size_of(form)._replace(m=0, pitch_a=LINE))


def _tiles(form: ProductForm) -> tuple[ProductTile, ...]:
    """Tiles of known speed for a product: a bias belongs to columns and cannot be swapped."""
    if not form.is_aligned:
        return ()
    tiles = tiles_of(form.target, form.factor, form.family)
    return without_swapped(tiles) if form.epilogue["HAS_BIAS"] else tiles


def size_of(form: ProductForm) -> ProductSize:
    """The numbers of a product that its time depends on."""
    return ProductSize(form.batch, *form.shape, form.itemsize, *form.pitches)


@lru_cache(maxsize=MOST_FORMS)
def gemv_rule(form: ProductForm) -> Config:
    """The rule for a product of few rows: two kernels for all numbers of rows, or split-K."""
    if form.target == CPU:
        return large_tiles.few_rows(*form.shape)
    if not form.is_aligned or form.factor is f32:
        rows = max(power_of_two(form.shape[0]), FEWEST_ROWS)
        return Config.of(BM=rows, BN=WEIGHTS, BK=32, FOLDS=1)
    return _or_splits(form, ONE_ROW if form.shape[0] == 1 else FEW_ROWS)


def _or_splits(form: ProductForm, config: Config) -> Config:
    """The configuration, or one that splits K where too few weights would leave a GPU idle."""
    size, values = size_of(form), config.values
    tiles_n = size.batch * ceil(size.n / values["BN"])
    rounds = ceil(tiles_n / (MULTIPROCESSORS * values.get("occupancy", 1)))
    steps = ceil(size.k / (values["BK"] * values.get("FOLDS", 1)))
    costs = GEMV_COSTS
    time = rounds * (costs.edge + steps * costs.step) + costs.far * size.megabytes
    plans = [plan for tile in menu_for(form) if tile.splits for plan in tile.plans(size)]
    least = min(plans, key=itemgetter(0), default=(time, config))
    return least[1] if least[0] < time else config


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
    if form.depth is not None:  # sums that are scaled part by part take twice the registers
        return Config.of(BM=min(SMALL_EDGE, rows), BN=min(SMALL_EDGE, columns), BK=form.depth)
    return Config.of(
        BM=min(edge, rows), BN=min(edge, columns), BK=min(depth, deep), blocks=1 << 20, group=BAND
    )

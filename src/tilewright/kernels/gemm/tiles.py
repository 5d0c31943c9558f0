"""Tiles of matrix products, with an estimate of the time of each.

A GPU computes as many tiles at a time as it has room for, so an output takes rounds of tiles, and a
round takes steps along K. The time of a product is estimated as

    start + rounds * edge + rounds * steps * step
          + near * bytes from the cache + uneven * bytes of torn lines + far * bytes from memory

with six costs for each tile, fitted to measured times of random shapes (`benchmarks/tiles.py`), or,
for 8-bit floats, estimated from those of similar tiles. On another GPU of the same kind the costs
rank tiles; they do not predict times.

A row of a tile that begins inside a line of the cache touches one line more: such lines are torn.
Split-K adds the time in which the partial sums are written, read and added. A *swapped* tile
computes the transposed product, `b.T @ a.T`, where the columns of `a.T`, the few rows of a batch,
fit a tile better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, gcd, inf, log
from typing import Any, NamedTuple

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f8e5m2, f16
from tilewright.kernels.gemm.operands import LINE, Family
from tilewright.kernels.gemm.wide import first_columns
from tilewright.tune import Config

__all__ = [
    "BAND",
    "MULTIPROCESSORS",
    "Costs",
    "ProductSize",
    "ProductTile",
    "menu_of",
    "tiles_of",
    "without_swapped",
]

# Output tiles finished together, so that they share their operands.
BAND = (1, 8, 1)
# Of the GPU that the tiles were timed on.
MULTIPROCESSORS = 132
# Cost of torn lines by the alignment of rows in bytes, fitted; sectors of 32 bytes are torn last.
TORN = {128: 0.0, 64: 0.2, 32: 0.4, 16: 1.4, 8: 1.4, 4: 1.4, 2: 1.4, 1: 1.4}
MOST_ROUNDS = 4  # of tiles without a walk
MOST_SWAPPED = 2  # tiles along the rows of a batch
LEAST_STEPS = 4  # steps of a split; a shorter split costs more than it saves
MOST_PARTS = 1 << 26  # elements of all partial sums
SUM_COST = 0.5  # microseconds to write, read and add a megabyte of partial sums
MEGA = 1e6
YEAR = 3e13  # microseconds


class Costs(NamedTuple):
    """Microseconds of a launch, of a round, of a step, and of a megabyte."""

    start: float
    edge: float
    step: float
    near: float  # from the cache
    uneven: float  # from the cache, because rows begin inside of its lines
    far: float  # from memory


class ProductSize(NamedTuple):
    """The numbers of a product that its time depends on."""

    batch: int
    m: int
    n: int
    k: int
    itemsize: int = 2
    pitch_a: int = LINE  # bytes between the rows of each factor, as stored
    pitch_b: int = LINE

    @property
    def swapped(self) -> ProductSize:
        """The transposed product."""
        return self._replace(m=self.n, n=self.m, pitch_a=self.pitch_b, pitch_b=self.pitch_a)

    @property
    def megabytes(self) -> float:
        """All operands, once."""
        elements = self.m * self.k + self.k * self.n + self.m * self.n
        return self.batch * elements * self.itemsize / MEGA


@dataclass(frozen=True, eq=False)
class ProductTile:
    """A tile of a product and its costs. A tile that splits K is used for nothing else."""

    config: Config
    costs: Costs
    splits: bool = False

    @property
    def kernels(self) -> int:
        """Kernels that are compiled for it."""
        return 2 if self.splits else 1

    @cached_property
    def is_swapped(self) -> bool:
        """Whether it computes the transposed product."""
        return bool(self.config.values.get("SWAPPED"))

    @cached_property
    def is_wide(self) -> bool:
        """Whether it has a second tile beside the first; batches have none."""
        return "BX" in self.config.values

    @cached_property
    def extents(self) -> tuple[int, int, int]:
        """Rows, columns and depth, with the second tile."""
        values = self.config.values
        return values["BM"], values["BN"] + values.get("BX", 0), values["BK"]

    @cached_property
    def at_once(self) -> int:
        """Tiles that the GPU computes at a time."""
        hints = self.config.hints
        return MULTIPROCESSORS * (hints.occupancy or 1) // (hints.num_ctas or 1)

    @cached_property
    def most_tiles(self) -> float:
        """Tiles up to which the costs hold: without a walk, later rounds share few operands."""
        is_bounded = self.config.schedule is None and not self.is_wide
        return MOST_ROUNDS * self.at_once if is_bounded else inf

    def plans(self, size: ProductSize) -> Iterator[tuple[float, Config]]:
        """Configurations of this tile for a product, each with its estimated microseconds."""
        if self.is_swapped:
            size = size.swapped
            if size.n > MOST_SWAPPED * self.extents[1]:
                return  # the costs of swapped tiles are those of few rows
        if self.is_wide and (size.batch > 1 or first_columns(size.n, self.config) is None):
            return  # some share would lack one of the two widths
        rows, columns, depth = self.extents
        tiles = size.batch * ceil(size.m / rows) * ceil(size.n / columns)
        if not self.splits:
            if tiles <= self.most_tiles:
                yield self._time(size, tiles, 1), self.config
            return
        room = self.at_once / (tiles or 1)
        most = min(ceil(size.k / depth) // LEAST_STEPS, MOST_PARTS // (size.m * size.n or 1))
        rounds = (room, room / 2, room / 3, 2 * room)  # about one round, parts of one, two
        for splits in {min(int(one), most) for one in (*rounds, ceil(room))}:
            if splits > 1:
                yield self._time(size, tiles * splits, splits), _with_splits(self.config, splits)

    def _time(self, size: ProductSize, tiles: int, splits: int) -> float:
        """Estimated microseconds."""
        (rows, columns, depth), costs = self.extents, self.costs
        rounds, steps = ceil(tiles / self.at_once), ceil(ceil(size.k / depth) / splits)
        moved = depth * size.itemsize * tiles * steps / MEGA  # for each row of a tile
        torn = rows * _torn(size.pitch_a) + columns * _torn(size.pitch_b)
        time = costs.start + rounds * (costs.edge + steps * costs.step)
        time += moved * (costs.near * (rows + columns) + costs.uneven * torn)
        time += costs.far * size.megabytes
        if splits > 1:
            time += SUM_COST * 4 * splits * size.batch * size.m * size.n / MEGA
        return time


@lru_cache(maxsize=1024)
def _with_splits(config: Config, splits: int) -> Config:
    return config.updated(SPLITS=splits)


def _torn(pitch: int) -> float:
    """The share of torn lines in the cost of a row, by the alignment of rows."""
    return TORN[gcd(pitch, LINE)]


# --- the tiles ------------------------------------------------------------------------------------


def _once(tile: tuple[int, int, int], costs: tuple[float, ...], **more: Any) -> ProductTile:
    """One tile for each block; `BX` columns of a second tile beside it."""
    rows, columns, depth = tile
    return ProductTile(Config.of(BM=rows, BN=columns, BK=depth, **more), Costs(*costs))


def _walk(tile: tuple[int, int, int], costs: tuple[float, ...], **more: Any) -> ProductTile:
    """A share of the tiles for each block."""
    blocks = MULTIPROCESSORS // more.get("num_ctas", 1)
    return _once(tile, costs, blocks=blocks, group=BAND, **more)


def _swapped(tile: tuple[int, int, int], costs: tuple[float, ...], **more: Any) -> ProductTile:
    """One tile of the transposed product for each block."""
    return _once(tile, costs, SWAPPED=True, **more)


def _split(tile: tuple[int, int, int], costs: tuple[float, ...], **more: Any) -> ProductTile:
    """One tile of a partial sum for each block."""
    made = _once(tile, costs, **more)
    return ProductTile(made.config, made.costs, splits=True)


def _swapped_split(
    tile: tuple[int, int, int], costs: tuple[float, ...], **more: Any
) -> ProductTile:
    """One tile of a partial sum of the transposed product for each block."""
    return _split(tile, costs, SWAPPED=True, **more)


FOUR, EIGHT = {"num_worker_warps": 4}, {"num_worker_warps": 8}
TWO_CTAS, TWO_AT_ONCE = {"num_ctas": 2, **EIGHT}, {"occupancy": 2, **FOUR}
IN_PIECES = {"PIECES": 2, "IS_FAST": True, "LATENCY": 4}
# 16-bit floats. A walk of four warps does not start early: while it waits for earlier grids it
# lacks registers. Steps of the large walks count 2 to 4 % more, which a GPU that runs hot loses.
HALF = (
    _walk((256, 256, 64), (2.56, 1.31, 0.5400, 0.0220, 0.0134, 0.0212), **TWO_CTAS),
    _walk((128, 256, 64), (1.81, 1.39, 0.5600, 0.0134, 0.0275, 0.0402), LATENCY=6, **EIGHT),
    _walk((256, 128, 64), (1.81, 1.50, 0.5680, 0.0155, 0.0195, 0.0262), LATENCY=6, **EIGHT),
    _walk((128, 256, 32), (2.35, 0.56, 0.2980, 0.0075, 0.0505, 0.0864), LATENCY=6, **EIGHT),
    _walk((128, 128, 64), (2.23, 0.50, 0.2391, 0.0209, 0.0529, 0.1056), starts_early=False, **FOUR),
    _once((128, 128, 64), (0.52, 1.78, 0.2314, 0.0181, 0.0768, 0.0851), **FOUR),
    _once((128, 128, 64), (1.23, 1.18, 0.3626, 0.0447, 0.0869, 0.0673), **TWO_AT_ONCE),
    _once((128, 64, 128), (0.07, 1.56, 0.3370, 0.0105, 0.1388, 0.0986), LATENCY=4, **FOUR),
    _once((64, 128, 64), (0.42, 1.30, 0.0894, 0.0285, 0.1722, 0.1397), LATENCY=5, **FOUR),
    _once((64, 64, 128), (0.45, 1.04, 0.1612, 0.0126, 0.1825, 0.1951), LATENCY=4, **FOUR),
    _once((64, 32, 256), (0.40, 1.03, 0.2824, 0.0426, 0.0577, 0.0912), LATENCY=3, **FOUR),
    _once((64, 16, 256), (0.29, 1.30, 0.2027, 0.0201, 0.2341, 0.0653), LATENCY=4, **FOUR),
    _once((256, 256, 64), (0.00, 3.89, 0.6752, 0.0337, 0.0019, 0.0200), BX=64, **TWO_CTAS),
    _once((256, 128, 64), (0.00, 3.61, 0.8491, 0.0148, 0.0135, 0.0489), BX=64, **EIGHT),
    _once((128, 256, 64), (0.00, 3.39, 0.7066, 0.0150, 0.0308, 0.0286), BX=64, **EIGHT),
    _once((128, 128, 64), (0.04, 2.62, 0.4089, 0.0140, 0.0318, 0.0268), BX=64, **EIGHT),
    _once((128, 128, 64), (0.23, 2.27, 0.3567, 0.0142, 0.0572, 0.0569), BX=32, **EIGHT),
    _once((64, 128, 64), (0.44, 1.76, 0.2324, 0.0215, 0.1145, 0.0322), BX=64, LATENCY=5, **FOUR),
    _once((64, 128, 64), (0.35, 1.69, 0.2279, 0.0178, 0.1975, 0.0452), BX=32, LATENCY=5, **FOUR),
    _once((64, 64, 128), (0.32, 1.44, 0.2536, 0.0238, 0.0681, 0.1024), BX=32, LATENCY=4, **FOUR),
    _swapped((128, 32, 64), (1.18, 1.18, 0.1572, 0.0158, 0.1000, 0.0997), LATENCY=4, **TWO_AT_ONCE),
    _swapped((64, 32, 256), (0.00, 0.80, 0.1755, 0.0040, 0.1000, 0.2439), LATENCY=4, **FOUR),
    _swapped((64, 16, 128), (0.67, 0.93, 0.1463, 0.0628, 0.1000, 0.0736), LATENCY=4, **TWO_AT_ONCE),
    _split((256, 128, 64), (3.63, 2.29, 0.4518, 0.0425, 0.0450, 0.0497), LATENCY=6, **EIGHT),
    _split((128, 256, 64), (3.70, 1.41, 0.4823, 0.0274, 0.0269, 0.0740), LATENCY=6, **EIGHT),
    _split((128, 128, 64), (2.10, 1.72, 0.2462, 0.0533, 0.0201, 0.0354), **FOUR),
    _split((64, 256, 64), (2.36, 1.72, 0.1808, 0.0512, 0.0253, 0.1369), LATENCY=5, **EIGHT),
    _split((64, 128, 64), (2.06, 1.46, 0.0887, 0.0571, 0.0292, 0.1167), LATENCY=5, **FOUR),
    _split((64, 64, 128), (0.57, 1.83, 0.1407, 0.0341, 0.0159, 0.1564), LATENCY=4, **FOUR),
    _split((64, 32, 128), (2.65, 1.12, 0.1405, 0.0314, 0.0692, 0.0699), LATENCY=6, **FOUR),
    _swapped_split((128, 64, 128), (1.83, 1.27, 0.1755, 0.0551, 0.1000, 0.1324), LATENCY=4, **FOUR),
    _swapped_split((128, 32, 64), (1.06, 1.55, 0.0944, 0.0539, 0.1000, 0.1567), LATENCY=6, **FOUR),
    _swapped_split((128, 16, 64), (1.76, 1.51, 0.0794, 0.0781, 0.1000, 0.1230), LATENCY=6, **FOUR),
)
# 8-bit floats.
NARROW = (
    _walk((256, 256, 128), (2.7, 0.5, 0.690, 0.01, 0.02, 0.01), LATENCY=6, **TWO_CTAS),
    _walk((128, 256, 128), (1.7, 0.5, 0.680, 0.01, 0.02, 0.01), LATENCY=6, **EIGHT),
    _once((128, 128, 128), (0.2, 1.9, 0.330, 0.01, 0.02, 0.08), **FOUR),
    _once((64, 128, 128), (0.0, 1.7, 0.260, 0.02, 0.02, 0.06), **FOUR),
    _once((64, 64, 128), (0.0, 1.4, 0.180, 0.03, 0.02, 0.03), LATENCY=4, **FOUR),
    _split((128, 128, 128), (2.3, 1.9, 0.250, 0.03, 0.02, 0.09), **FOUR),
    _split((64, 64, 128), (3.1, 0.0, 0.150, 0.03, 0.02, 0.13), LATENCY=4, **FOUR),
)
# 8-bit floats whose sums are added in f32 in every step: a second accumulator takes registers, so
# tiles are smaller, or computed in PIECES.
EXACT = (
    _walk((128, 256, 128), (1.7, 0.5, 0.700, 0.01, 0.02, 0.01), PIECES=2, LATENCY=6, **EIGHT),
    _walk((256, 128, 128), (2.3, 0.5, 0.360, 0.01, 0.02, 0.01), LATENCY=6, **TWO_CTAS),
    *NARROW[2:],
)
# 8-bit floats with a scale for each part of K. `IS_FAST` saves adding the sum of a part to zero; it
# changes no number.
GROUPED = (
    _walk((256, 128, 128), (2.7, 0.6, 0.440, 0.01, 0.02, 0.01), **IN_PIECES, **TWO_CTAS),
    _walk((128, 128, 128), (1.7, 0.6, 0.420, 0.01, 0.02, 0.01), PIECES=2, LATENCY=4, **EIGHT),
    _once((128, 128, 128), (0.2, 1.9, 0.410, 0.01, 0.02, 0.08), **IN_PIECES, **EIGHT),
    _once((128, 64, 128), (0.2, 1.7, 0.280, 0.02, 0.02, 0.06), LATENCY=4, **EIGHT),
    _once((64, 64, 128), (0.0, 1.4, 0.400, 0.03, 0.02, 0.03), LATENCY=4, occupancy=3, **FOUR),
    _swapped((64, 32, 128), (0.2, 1.0, 0.220, 0.02, 0.10, 0.10), LATENCY=4, **TWO_AT_ONCE),
    _split((128, 64, 128), (2.3, 1.7, 0.280, 0.03, 0.02, 0.09), LATENCY=4, **EIGHT),
    _split((64, 64, 128), (3.1, 0.5, 0.200, 0.03, 0.02, 0.13), LATENCY=4, **FOUR),
    _swapped_split((64, 16, 128), (2.0, 1.2, 0.120, 0.05, 0.10, 0.12), LATENCY=4, **FOUR),
)
# 8-bit floats that are converted to 16 bits before they are multiplied.
CONVERTED = (
    _walk((256, 128, 64), (1.8, 1.5, 0.700, 0.015, 0.02, 0.026), LATENCY=4, **EIGHT),
    _walk((128, 128, 64), (2.2, 0.5, 0.330, 0.021, 0.05, 0.100), **EIGHT),
    _once((128, 128, 64), (0.5, 1.8, 0.320, 0.018, 0.07, 0.085), **EIGHT),
    _once((64, 128, 128), (0.4, 1.3, 0.260, 0.028, 0.17, 0.140), LATENCY=4, **FOUR),
    _once((64, 64, 128), (0.4, 1.0, 0.200, 0.013, 0.18, 0.195), LATENCY=4, **FOUR),
    _swapped((64, 32, 128), (0.2, 0.9, 0.150, 0.010, 0.10, 0.150), LATENCY=4, **TWO_AT_ONCE),
    _split((128, 128, 64), (2.1, 1.7, 0.330, 0.053, 0.02, 0.035), **EIGHT),
    _split((64, 64, 128), (0.6, 1.8, 0.190, 0.034, 0.02, 0.156), LATENCY=4, **FOUR),
    _swapped_split((128, 16, 128), (1.8, 1.5, 0.160, 0.078, 0.10, 0.123), LATENCY=4, **FOUR),
)
# The same with a scale for each part of K.
CONVERTED_GROUPED = (
    _walk((256, 128, 128), (2.7, 1.5, 0.800, 0.015, 0.02, 0.026), PIECES=2, **TWO_CTAS),
    _walk((128, 64, 128), (2.2, 0.5, 0.420, 0.021, 0.05, 0.100), LATENCY=4, **EIGHT),
    _once((128, 128, 128), (0.5, 1.8, 0.700, 0.018, 0.07, 0.085), **EIGHT),
    *CONVERTED[3:6],
    _split((128, 128, 128), (2.1, 1.7, 0.700, 0.053, 0.02, 0.035), **EIGHT),
    *CONVERTED[7:],
)
# By family, for each target and dtype in which factors are multiplied.
EIGHT_BITS = {Family.PLAIN: NARROW, Family.EXACT: EXACT, Family.GROUPED: GROUPED}
SIXTEEN_BITS = {
    Family.PLAIN: HALF,
    Family.CONVERTED: CONVERTED,
    Family.CONVERTED_GROUPED: CONVERTED_GROUPED,
}
TILES: dict[tuple[str, type[tw.DType]], dict[Family, tuple[ProductTile, ...]]] = {
    ("sm_90", f16): SIXTEEN_BITS,
    ("sm_90", bf16): SIXTEEN_BITS,
    ("sm_90", f8e4m3fn): EIGHT_BITS,
    ("sm_90", f8e5m2): EIGHT_BITS,
}


def tiles_of(
    target: str, factor: type[tw.DType], family: Family = Family.PLAIN
) -> tuple[ProductTile, ...]:
    """Tiles of known speed; most GPUs have none."""
    return TILES.get((target, factor), {}).get(family, ())


@lru_cache
def without_swapped(tiles: tuple[ProductTile, ...]) -> tuple[ProductTile, ...]:
    """The tiles that compute a product as it is."""
    return tuple(tile for tile in tiles if not tile.config.values.get("SWAPPED"))


# --- the menu of a weight -------------------------------------------------------------------------

# Rows that the menu of a weight is chosen for.
ROWS = (
    *(17, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 1280),
    *(1536, 2048, 2560, 3072, 4096, 6144, 8192),
)
MOST_KERNELS = 6  # compiled for all numbers of rows of a product with one weight


@lru_cache(maxsize=1024)
def menu_of(tiles: tuple[ProductTile, ...], size: ProductSize) -> tuple[ProductTile, ...]:
    """Few tiles that serve every number of rows nearly as well as all of them.

    A kernel is compiled for each tile that is used, so a weight that meets any number of rows has
    to do with few. Tiles are added while they lower the estimated times of all `ROWS`, the most
    useful one first. The rows of `size` itself play no part.
    """
    times = {tile: [_least(tile, size._replace(m=m)) for m in ROWS] for tile in tiles}
    chosen: list[ProductTile] = []
    best = [inf] * len(ROWS)
    left = MOST_KERNELS
    while True:
        found = [tile for tile in tiles if tile not in chosen and tile.kernels <= left]
        if not found:
            break
        one = min(found, key=lambda tile: _joint(best, times[tile]))
        if _joint(best, times[one]) >= _joint(best, best):
            break
        best = [min(pair) for pair in zip(best, times[one], strict=True)]
        chosen.append(one)
        left -= one.kernels
    return tuple(chosen)


def _least(tile: ProductTile, size: ProductSize) -> float:
    return min((time for time, _ in tile.plans(size)), default=inf)


def _joint(best: list[float], times: list[float]) -> float:
    """The sum of the logarithms of the lesser times; a time that is not known counts as a year."""
    return sum(log(min(*pair, YEAR)) for pair in zip(best, times, strict=True))

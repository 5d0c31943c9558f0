"""Tiles of matrix products, with an estimate of the time of each.

A GPU computes as many tiles at a time as it has multiprocessors, so the time of an output is the
number of rounds times the length of a round. Rates are fitted to measured times of many shapes on
one GPU; on another GPU of its kind they rank tiles but do not predict times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from operator import itemgetter
from typing import Any

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f8e5m2, f16
from tilewright.kernels.gemm.wide import first_columns
from tilewright.tune import Config

__all__ = [
    "BAND",
    "HALF",
    "MULTIPROCESSORS",
    "NARROW",
    "SHALLOW",
    "ProductTile",
    "fastest",
    "tiles_of",
]

# Output tiles finished together, so that they share their operands.
BAND, WIDE_BAND = (1, 8, 1), (1, 16, 1)
# Of the GPU that the tiles were timed on.
MULTIPROCESSORS = 132


MOST_SPLITS = 8  # splits of a sum
LEAST_STEPS = 8  # steps of a split; a shorter split costs more than it saves
# Cost of split-K: seconds for two more dependent launches, and bytes per second.
SUM_START, SUM_RATE = 1.3e-5, 2.5e12


@dataclass(frozen=True)
class ProductTile:
    """A tile of a product and its estimated speed."""

    config: Config
    rate: float  # 10^12 operations a second, on all multiprocessors
    start: float  # seconds before the first and after the last step of a sum

    def plans(self, m: int, n: int, k: int) -> Iterator[tuple[float, Config]]:
        """Configurations of this tile for a product, each with its estimated seconds."""
        height, width, blocks = (self.config[name] for name in ("BM", "BN", "blocks"))
        more = self.config.values.get("BX", 0)
        if more and first_columns(n, self.config) is None:
            return  # some share would lack one of the two widths
        rows, columns = ceil(m / height), ceil(n / (width + more))
        one_round = 2 * height * (width + more) * k * blocks / (self.rate * 1e12)
        rounds = ceil(rows * columns / blocks)
        if more:  # blocks are not persistent, so every round has a start
            yield rounds * (self.start + one_round), self.config
            return
        yield self.start + rounds * one_round, self.config
        # Whole rounds for the first columns; split-K of the other columns takes one more round.
        rounds = rows * columns // blocks
        whole = rounds * blocks // rows
        left = rows * (columns - whole)
        steps = ceil(k / self.config["BK"])
        splits = min(blocks // max(left, 1), MOST_SPLITS, steps // LEAST_STEPS)
        if splits > 1 and left:
            adding = SUM_START + 4 * left * splits * height * width / SUM_RATE
            seconds = (rounds + 1 / splits) * one_round + (2 if whole else 1) * self.start
            tail = n - whole * width if whole else 0
            yield seconds + adding, self.config.updated(SPLITS=splits, TAIL=tail)


def fastest(tiles: tuple[ProductTile, ...], m: int, n: int, k: int) -> Config:
    """The configuration with the least estimated time."""
    plans = (plan for tile in tiles for plan in tile.plans(m, n, k))
    return min(plans, key=itemgetter(0))[1]


def _tile(
    rows: int, columns: int, depth: int, speed: tuple[float, float], **more: Any
) -> ProductTile:
    """A tile from BM, BN, BK, its rate, its start in microseconds, and its other options."""
    at_once = MULTIPROCESSORS * more.get("occupancy", 1) // more.get("num_ctas", 1)
    values = {"SPLITS": 1, "blocks": at_once, "group": BAND, **more}
    config = Config.of(BM=rows, BN=columns, BK=depth, **values)
    return ProductTile(config, speed[0], speed[1] * 1e-6)


# 16-bit floats, for any layout of the factors.
HALF = (
    _tile(256, 256, 64, (811, 2.7), num_ctas=2, num_worker_warps=8),
    _tile(128, 256, 64, (790, 1.7), LATENCY=6, num_worker_warps=8),
    _tile(128, 128, 64, (760, 1.4), num_worker_warps=4),
    _tile(64, 128, 64, (520, 1.2), LATENCY=5, num_worker_warps=4),
    _tile(256, 256, 64, (796, 1.9), BX=64, num_ctas=2, num_worker_warps=8),
    _tile(128, 256, 64, (809, 2.1), BX=64, num_worker_warps=8),
    _tile(128, 128, 64, (777, 2.5), BX=64, LATENCY=6, num_worker_warps=4),
    _tile(128, 128, 64, (701, 2.9), BX=32, num_worker_warps=8),
    _tile(64, 128, 128, (668, 2.0), BX=32, LATENCY=4, num_worker_warps=4),
)
# A step of half the depth, which reads whole lines of `b`.
SHALLOW = (_tile(128, 256, 32, (820, 3.0), LATENCY=6, num_worker_warps=8, group=WIDE_BAND),)
# 8-bit floats.
NARROW = (
    _tile(256, 256, 128, (1580, 2.7), LATENCY=6, num_ctas=2, num_worker_warps=8),
    _tile(128, 256, 128, (1600, 1.7), LATENCY=6, num_worker_warps=8),
    _tile(128, 128, 128, (1520, 1.4), num_worker_warps=4),
    _tile(64, 128, 128, (900, 1.2), num_worker_warps=4),
)
# By target and dtype of the factors: tiles for any layout, and tiles for an untransposed `b`.
TILES: dict[tuple[str, type[tw.DType]], tuple[tuple[ProductTile, ...], tuple[ProductTile, ...]]] = {
    ("sm_90", f16): (HALF, SHALLOW),
    ("sm_90", bf16): (HALF, SHALLOW),
    ("sm_90", f8e4m3fn): (NARROW, ()),
    ("sm_90", f8e5m2): (NARROW, ()),
}


def tiles_of(target: str, factor: type[tw.DType], layout: str) -> tuple[ProductTile, ...]:
    """Tiles of known speed; most GPUs have none."""
    any_layout, as_it_is = TILES.get((target, factor), ((), ()))
    return any_layout + (as_it_is if layout.endswith("n") else ())

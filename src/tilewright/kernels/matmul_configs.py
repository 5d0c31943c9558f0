"""With which tiles matrix products are computed: what was measured, or else a rule of thumb.

A configuration of a product has BM rows and BN columns of a tile of the output, BK of the sum, the
SPLITS that the sum is cut into, a schedule and hints. Each is legal for every shape.
"""

from __future__ import annotations

from tilewright import f32
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.products import Product
from tilewright.tune import Config, Key, chosen

__all__ = ["MOST_ROWS", "choose_gemv", "choose_grouped", "choose_matmul"]

# Rows that a tile of the tensor cores has at least: a product of no more is a matter of reading.
MOST_ROWS = 16
FEWEST_ROWS = 8  # that the other side of such a tile has
EDGE = 128  # of a tile that the tensor cores of any GPU are well used by
EXACT_EDGE = 64  # of one that is computed without them
BAND = (1, 8, 1)  # tiles of the output that are finished together, so that they share what is read


def choose_matmul(wanted: Product) -> Config:
    """BM, BN, BK and SPLITS of a product of many rows."""
    measured = chosen("matmul", wanted.key, wanted.out.device.target)
    return measured or _tiles(wanted)


def choose_gemv(wanted: Product) -> Config:
    """BM, BN, BK and FOLDS of a product of few rows."""
    measured = chosen("gemv", wanted.key, wanted.out.device.target)
    if measured is not None:
        return measured
    rows = max(power_of_two(wanted.shape[0]), FEWEST_ROWS)
    return Config.of(BM=rows, BN=64, BK=128, FOLDS=1)


def choose_grouped(key: Key, target: str) -> Config:
    """BM, BN and BK of a grouped product."""
    return chosen("grouped_matmul", key, target) or Config.of(BM=64, BN=64, BK=64)


def _tiles(wanted: Product) -> Config:
    m, n, k = wanted.shape
    edge, depth = (EXACT_EDGE, 16) if wanted.factor is f32 else (EDGE, 64)
    rows, columns, deep = (power_of_two(max(extent, 16)) for extent in (m, n, k))
    width = min(edge, columns)
    return Config.of(
        BM=min(edge, rows), BN=width, WIDTH=width, BK=min(depth, deep), SPLITS=1, group=BAND
    )

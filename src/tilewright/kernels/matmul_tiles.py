"""Tiles of matrix products, and when each is expected to be done with an output.

A GPU works on as many tiles at a time as it has multiprocessors, so what counts is how many rounds
an output takes, and how long a round is. Rates are fitted to times of many shapes on one GPU; on
another of its kind they say which tile is better, not how fast it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import tilewright as tw
from tilewright import bf16, f8e4m3fn, f8e5m2, f16
from tilewright.tune import Config

__all__ = ["BAND", "TILES", "Tile"]

# Tiles of the output that are finished together, so that they share what is read.
BAND = (1, 8, 1)
MULTIPROCESSORS = 132  # of the GPU that tiles were timed on


@dataclass(frozen=True)
class Tile:
    """A tile of a product, and how fast it is."""

    config: Config
    rate: float  # 10^12 operations a second, by all multiprocessors together
    start: float  # seconds before the first and after the last step of a sum

    def expected(self, batch: int, m: int, n: int, k: int) -> float:
        """Seconds for a product of this shape."""
        rows, columns, blocks = (self.config[name] for name in ("BM", "WIDTH", "blocks"))
        rounds = ceil(batch * ceil(m / rows) * ceil(n / columns) / blocks)
        operations: int = rounds * blocks * 2 * rows * columns * k
        return self.start + operations / (self.rate * 1e12)


def _tile(
    rows: int, columns: tuple[int, int], depth: int, speed: tuple[float, float], **hints: int
) -> Tile:
    """BM, BN and WIDTH, BK; the rate, and the start in millionths of a second."""
    at_once = hints.get("occupancy", 1), hints.get("num_ctas", 1)
    config = Config.of(
        BM=rows, BN=columns[0], WIDTH=columns[1], BK=depth, SPLITS=1,
        blocks=MULTIPROCESSORS * at_once[0] // at_once[1], group=BAND, **hints,
    )  # fmt: skip
    return Tile(config, speed[0], speed[1] * 1e-6)


HALF = (
    _tile(256, (256, 256), 64, (805, 2.8), num_ctas=2, num_worker_warps=8),
    _tile(128, (256, 256), 32, (760, 1.1), num_worker_warps=8),
    _tile(128, (128, 128), 64, (754, 1.7), num_worker_warps=4),
    _tile(64, (128, 128), 128, (475, 1.4), num_worker_warps=4),
)
NARROW = (
    _tile(256, (256, 256), 128, (1610, 2.8), num_ctas=2, num_worker_warps=8),
    _tile(128, (256, 256), 128, (1520, 1.1), num_worker_warps=8),
    _tile(128, (128, 128), 128, (1500, 1.7), num_worker_warps=4),
)
# By the target and what is multiplied.
TILES: dict[tuple[str, type[tw.DType]], tuple[Tile, ...]] = {
    ("sm_90", f16): HALF,
    ("sm_90", bf16): HALF,
    ("sm_90", f8e4m3fn): NARROW,
    ("sm_90", f8e5m2): NARROW,
}

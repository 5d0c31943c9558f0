"""Ranges of the keys of decode attention on an H200, and the time that each choice takes.

A block reads tile after tile. One that is alone takes a latency and the time of the bytes at the
rate of a multiprocessor, about twice its share of the memory's bandwidth: half of the
multiprocessors can read almost as fast as all, so a split pays only where there are fewer blocks,
or long sequences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.heads.arguments import Heads
from tilewright.kernels.heads.forms import MULTIPROCESSORS
from tilewright.tune import Config

__all__ = ["MOST_SPLITS", "columns_of", "fastest_ranges"]

MOST_SPLITS = 64  # ranges that fit in one tile
LAUNCH, MERGE = 3.0, 2.5  # microseconds
BANDWIDTH = 4.3e6  # bytes a microsecond, of the memory
LATENCY = 0.58  # microseconds of a tile of one block, beside its bytes
ALONE = 0.09e6  # bytes a microsecond of one block
TOGETHER = {1: math.inf, 2: 0.04e6, 3: 0.032e6, 4: 0.032e6}  # of the blocks on a multiprocessor
# Elements of a tile of keys, and the blocks that fit on a multiprocessor.
TILES = {32768: 1, 16384: 2, 8192: 4}
SHORTEST, LONGEST = 64, 256  # keys of a tile
MOST_SCORES = 4096  # elements of a tile of scores, which lies in registers
THREADS, REGISTERS, OTHERS = 128, 256, 40  # of a block; registers of a thread, and beside tiles
FEW_WAVES = 4
UNCOVERED = 1.03  # time of blocks one after the other, whose starts nothing covers


def columns_of(group: int) -> int:
    """Columns of a tile of query heads that share a key head; the tensor cores need 8."""
    return max(8, power_of_two(group))


class Ranges(NamedTuple):
    """A tile of keys, the blocks that fit on a multiprocessor, and the ranges of the keys."""

    tile: int
    occupancy: int
    splits: int


def fastest_ranges(heads: Heads) -> Config:
    """The configuration that the model finds the fastest."""
    found = min(_candidates(heads), key=lambda one: _microseconds(heads, one))
    return Config.of(BN=found.tile, SPLITS=found.splits, occupancy=found.occupancy)


def _candidates(heads: Heads) -> Iterator[Ranges]:
    columns = columns_of(heads.group)
    fitting = min(power_of_two(heads.length), MOST_SCORES // columns)
    tiles = {max(min(most // heads.width, LONGEST, fitting), SHORTEST) for most in TILES}
    for tile in sorted(tiles, reverse=True):
        occupancy = next((n for most, n in TILES.items() if tile * heads.width >= most), 4)
        needed = OTHERS + (heads.width + tile) * columns // THREADS
        occupancy = max(1, min(occupancy, REGISTERS // needed))
        most = min(max(-(-heads.length // tile), 1), MOST_SPLITS)
        for splits in itertools.chain(range(1, min(most, 8) + 1), range(10, most + 1, 2)):
            yield Ranges(tile, occupancy, splits)


def _microseconds(heads: Heads, ranges: Ranges) -> float:
    """The time of one launch, or of two."""
    tile, occupancy, splits = ranges
    pairs = max(heads.batch * heads.key_heads, 1)
    size = 4 * tile * heads.channels  # bytes of a tile of keys and values
    steps = -(-max(-(-heads.length // tile), 1) // splits)
    blocks = pairs * splits
    sharing = min(-(-blocks // MULTIPROCESSORS), occupancy)
    step = max(LATENCY + size / ALONE, sharing * size / TOGETHER[sharing])
    waves = blocks / (MULTIPROCESSORS * occupancy)
    waves = math.ceil(waves) if waves < FEW_WAVES else waves + 0.5
    time = max(waves * steps * step, 4 * pairs * heads.length * heads.channels / BANDWIDTH)
    if waves > 1 and occupancy == 1:
        time *= UNCOVERED
    if splits == 1:
        return LAUNCH + time
    rows = pairs * heads.group * heads.channels
    return LAUNCH + time + MERGE + 8 * rows * splits / BANDWIDTH

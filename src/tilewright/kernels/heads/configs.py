"""Tile configurations of attention: a tuned record, or else a heuristic.

The heuristic for sm_90 is that of an H200. A multiprocessor has two blocks: while one computes
exponentials, the other uses the tensor cores; where values may lag a step behind the scores, each
block does both at once. Blocks of short sequences are persistent and take one tile of queries after
the other, which saves the start of a tile, provided that the mask gives each the same work.
"""

from __future__ import annotations

import numpy as np

from tilewright import f16
from tilewright.kernels import large_tiles
from tilewright.kernels.heads.arguments import Heads
from tilewright.kernels.large_tiles import CPU
from tilewright.tune import Config, chosen, key_of, remembered

__all__ = [
    "ACROSS",
    "ALONE",
    "LAGGING",
    "SPLIT",
    "STAYING",
    "choose_decode",
    "choose_prefill",
    "choose_varlen",
    "may_lag",
]

# Two blocks on a multiprocessor.
ALONE = Config.of(BM=64, BN=128, WALK=False, occupancy=2, num_worker_warps=4)
# Two blocks, with values a step behind the scores.
LAGGING = ALONE.updated(BEHIND=True)
# Persistent blocks, which take one tile of queries after the other.
STAYING = LAGGING.updated(WALK=True)
# The longest tiles of all heads first; the L2 cache holds the keys that they share.
ACROSS = ALONE.updated(ACROSS=True)
# Supported by every GPU.
SMALL = Config.of(BM=64, BN=64, WALK=False)
# One query: a tile of keys, and the number of blocks that share all keys.
SPLIT = Config.of(BN=128, BLOCKS=264, occupancy=2)

RESIDENT = 264  # resident blocks, two on each multiprocessor
# Queries up to which blocks are persistent, by channels and causality.
STAY_UP_TO = {(64, False): 1024, (64, True): 2048, (128, False): 1024, (128, True): 8192}
MOST_ACROSS = 64  # key heads whose tiles run side by side and still hit the cache


@remembered
def choose_prefill(heads: Heads, *, causal: bool, windowed: bool = False) -> Config:
    """Tiles of queries and keys; bf16 takes the time of f16."""
    shape = (heads.batch * heads.key_heads * heads.group, heads.queries, heads.length)
    key = key_of(f16, shape, causal=causal, width=heads.width)
    found = chosen("attention", key, heads.target)
    if found is not None:
        return found if may_lag(heads, found, causal, windowed) else found.updated(BEHIND=False)
    if heads.target == CPU:
        return large_tiles.scores(heads.queries, heads.length)
    if heads.target != "sm_90" or heads.width > 128:
        return SMALL
    if not may_lag(heads, LAGGING, causal, windowed):
        return ALONE
    width = max(heads.width, 64)
    if heads.queries <= STAY_UP_TO[width, causal] and (not causal or _longest_share(heads) < 1.06):
        return STAYING
    is_across = causal and width == 64 and heads.batch * heads.key_heads <= MOST_ACROSS
    return ACROSS if is_across else LAGGING


def may_lag(heads: Heads, config: Config, causal: bool, windowed: bool) -> bool:
    """Whether each tile of queries sees every tile of keys whole, except the last one."""
    if windowed or heads.length < 1:
        return False
    diagonal = heads.length - heads.queries
    return not causal or (config["BM"] <= config["BN"] and diagonal % config["BN"] == 0)


def _longest_share(heads: Heads) -> float:
    """The work of the busiest persistent block, relative to the mean.

    Tiles of a head come from the longest to the shortest, and blocks take turns from either end.
    """
    tiles = -(-heads.queries // STAYING["BM"])
    number = np.arange(heads.batch * heads.key_heads * heads.group * tiles)
    turn, place = np.divmod(number, RESIDENT)
    block = np.where(turn % 2, RESIDENT - 1 - place, place)
    seen = heads.length - heads.queries + (tiles - number % tiles) * STAYING["BM"]
    steps = np.maximum(-(-seen // STAYING["BN"]), 1)
    shares = np.bincount(block, weights=steps, minlength=RESIDENT)
    return float(shares.max() / max(shares.mean(), 1))


def choose_varlen(heads: Heads) -> Config:
    """Tiles of packed sequences, which share few keys with their neighbours."""
    if heads.target == CPU:
        return large_tiles.packed_scores(heads.length)
    return ALONE if heads.target == "sm_90" and heads.width <= 128 else SMALL


@remembered
def choose_decode(heads: Heads) -> Config:
    """A tile of keys, and the number of blocks that share all keys."""
    shape = (heads.batch * heads.key_heads, heads.length)
    key = key_of(f16, shape, group=heads.group, width=heads.width)
    rule = large_tiles.SPLIT if heads.target == CPU else SPLIT
    return chosen("decode_attention", key, heads.target) or rule

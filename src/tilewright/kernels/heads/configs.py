"""Tile configurations of attention: a tuned record, or else the fastest form by a model.

`forms` has the model of prefill attention, `ranges` that of decode attention.
"""

from __future__ import annotations

from tilewright import f16, f32
from tilewright.kernels import large_tiles
from tilewright.kernels.heads.arguments import Heads
from tilewright.kernels.heads.channels import rest_of
from tilewright.kernels.heads.forms import Mask, fastest, may_lag
from tilewright.kernels.heads.ranges import MOST_SPLITS, fastest_ranges
from tilewright.kernels.large_tiles import CPU
from tilewright.tune import Config, chosen, key_of, remembered

__all__ = ["SMALL", "choose_decode", "choose_prefill", "choose_varlen"]

MEASURED = "sm_90"  # the target of the models
# Where tensor cores read shared memory, whatever the channels.
SMALL = Config.of(BM=64, BN=64, WALK=False)
FROM_SHARED = ("sm_90", "sm_100", "sm_103", "sm_110")
# Where they read registers, by channels: a thread holds less of a tile.
FROM_REGISTERS = {
    64: Config.of(BM=64, BN=64, WALK=False, num_worker_warps=8),
    128: Config.of(BM=64, BN=32, WALK=False, num_worker_warps=8),
    256: Config.of(BM=32, BN=32, WALK=False, num_worker_warps=8),
}
# f32 takes no tensor cores, and twice the registers of f16.
WIDE = Config.of(BM=32, BN=32, WALK=False, num_worker_warps=8)
WIDE_SPLIT = Config.of(BN=32, BLOCKS=264)
SMALL_SPLIT = Config.of(BN=64, BLOCKS=264)
# Packed sequences: two blocks on a multiprocessor.
PACKED = Config.of(BM=64, BN=128, WALK=False, occupancy=2, num_worker_warps=4)


@remembered
def choose_prefill(heads: Heads, *, causal: bool, window: int | None = None) -> Config:
    """Tiles of queries and keys; bf16 takes the time of f16."""
    if heads.dtype is f32 and heads.target != CPU:
        return WIDE
    shape = (heads.batch * heads.key_heads * heads.group, heads.queries, heads.length)
    key = key_of(f16, shape, causal=causal, width=heads.width)
    found, mask = chosen("attention", key, heads.target, within=0), Mask(causal, window)
    if found is not None:
        lags = may_lag(heads, found["BM"], found["BN"], mask)
        return found if lags else found.updated(BEHIND=False)
    if heads.target == CPU:
        return large_tiles.scores(heads.queries, heads.length)
    if heads.target != MEASURED or not (heads.queries and heads.length):
        return _of_any_gpu(heads).updated(REST=rest_of(heads.channels))
    return fastest(heads, mask)


def _of_any_gpu(heads: Heads) -> Config:
    """Tiles that fit the registers of every GPU."""
    if heads.target in FROM_SHARED:
        return SMALL
    return next((tile for width, tile in FROM_REGISTERS.items() if heads.width <= width), SMALL)


def choose_varlen(heads: Heads) -> Config:
    """Tiles of packed sequences, which share few keys with their neighbours."""
    if heads.dtype is f32 and heads.target != CPU:
        return WIDE
    if heads.target == CPU:
        return large_tiles.packed_scores(heads.length)
    return PACKED if heads.target == MEASURED and heads.width <= 128 else _of_any_gpu(heads)


@remembered
def choose_decode(heads: Heads) -> Config:
    """A tile of keys, and the number of ranges of the keys."""
    pairs = max(heads.batch * heads.key_heads, 1)
    if heads.dtype is f32 and heads.target != CPU:
        return _with_splits(WIDE_SPLIT, heads)
    key = key_of(f16, (pairs, heads.length), group=heads.group, width=heads.width)
    found = chosen("decode_attention", key, heads.target, within=0)
    if found is None and heads.target == MEASURED:
        return fastest_ranges(heads)
    config = found or (large_tiles.split(heads.length) if heads.target == CPU else SMALL_SPLIT)
    return config if "SPLITS" in config.values else _with_splits(config, heads)


def _with_splits(config: Config, heads: Heads) -> Config:
    """The configuration with as many ranges of the keys as there are blocks for."""
    pairs = max(heads.batch * heads.key_heads, 1)
    most = min(max(-(-heads.length // config["BN"]), 1), MOST_SPLITS)
    return config.updated(SPLITS=max(1, min(config["BLOCKS"] // pairs, most)))

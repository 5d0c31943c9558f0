"""With which tiles attention is computed: what was measured, or else a rule.

The rule for sm_90 is that of an H200. Two blocks on a multiprocessor: while one takes powers, the
other has the tensor cores, and where values may be taken in a step behind each does both at once.
Elsewhere a block is a pair of CTAs that share the keys they read.
"""

from __future__ import annotations

from tilewright import f16
from tilewright.kernels.attention_arguments import Heads
from tilewright.tune import Config, chosen, key_of, remembered

__all__ = [
    "ALONE",
    "LAGGING",
    "SHARED",
    "SPLIT",
    "STAYING",
    "choose_decode",
    "choose_prefill",
    "choose_varlen",
    "may_lag",
]

# Two blocks at a time, each a pair that shares the keys it reads.
SHARED = Config.of(BM=128, BN=128, WALK=False, num_ctas=2, occupancy=2, num_worker_warps=4)
# Two blocks at a time that share nothing.
ALONE = Config.of(BM=64, BN=128, WALK=False, occupancy=2, num_worker_warps=4)
# The same with values a step behind.
LAGGING = ALONE.updated(BEHIND=True)
# One block that takes one tile of queries after the other.
STAYING = Config.of(BM=128, BN=128, WALK=True, occupancy=1, num_worker_warps=8)
# What any GPU can do.
SMALL = Config.of(BM=64, BN=64, WALK=False)
# One query: a tile of keys, and how many blocks read all of them.
SPLIT = Config.of(BN=128, BLOCKS=264, occupancy=2)


@remembered
def choose_prefill(heads: Heads, *, causal: bool, windowed: bool = False) -> Config:
    """Tiles of queries and keys. bf16 takes the time of f16."""
    shape = (heads.batch * heads.key_heads * heads.group, heads.queries, heads.length)
    key = key_of(f16, shape, causal=causal, width=heads.width)
    found = chosen("attention", key, heads.target)
    if found is not None:
        return found if may_lag(heads, found, causal, windowed) else found.updated(BEHIND=False)
    if heads.target != "sm_90" or heads.width > 128:
        return SMALL
    return LAGGING if may_lag(heads, LAGGING, causal, windowed) else SHARED


def may_lag(heads: Heads, config: Config, causal: bool, windowed: bool) -> bool:
    """Whether each tile of queries sees all tiles of keys whole but for the last one."""
    if windowed or heads.length < 1:
        return False
    diagonal = heads.length - heads.queries
    return not causal or (config["BM"] <= config["BN"] and diagonal % config["BN"] == 0)


def choose_varlen(heads: Heads) -> Config:
    """Tiles of packed sequences, which share few keys with their neighbours."""
    return ALONE if heads.target == "sm_90" and heads.width <= 128 else SMALL


@remembered
def choose_decode(heads: Heads) -> Config:
    """A tile of keys, and how many blocks read them."""
    shape = (heads.batch * heads.key_heads, heads.length)
    key = key_of(f16, shape, group=heads.group, width=heads.width)
    return chosen("decode_attention", key, heads.target) or SPLIT

"""With which tiles attention is computed: what was measured, or else a rule."""

from __future__ import annotations

from tilewright import f16
from tilewright.kernels.attention_arguments import Heads
from tilewright.tune import Config, chosen, key_of

__all__ = ["choose_decode", "choose_prefill"]

NARROW = Config.of(BM=128, BN=128, STEP=2, occupancy=1, num_worker_warps=8)
WIDE = Config.of(BM=64, BN=64, STEP=1, num_worker_warps=4)
SPLIT = Config.of(BN=128, BLOCKS=264, occupancy=2)


def choose_prefill(heads: Heads, *, causal: bool) -> Config:
    """Tiles of queries and keys. bf16 takes the time of f16."""
    shape = (heads.batch * heads.key_heads * heads.group, heads.queries, heads.length)
    key = key_of(f16, shape, causal=causal, width=heads.width)
    found = chosen("attention", key, heads.target)
    if found is not None:
        return found
    return NARROW if heads.width <= 128 else WIDE


def choose_decode(heads: Heads) -> Config:
    """A tile of keys, and in how many stretches they are read."""
    shape = (heads.batch * heads.key_heads, heads.length)
    key = key_of(f16, shape, group=heads.group, width=heads.width)
    return chosen("decode_attention", key, heads.target) or SPLIT

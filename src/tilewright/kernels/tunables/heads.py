"""Attention: heads of 64 and 128 channels, full and causal, and one query against a KV cache."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import f16
from tilewright.kernels.heads.arguments import Heads
from tilewright.kernels.heads.channels import rest_of
from tilewright.kernels.heads.configs import choose_decode, choose_prefill
from tilewright.kernels.heads.decode import attend_split, attend_whole, decode_attention
from tilewright.kernels.heads.prefill import attention, attention_tiles, attention_walk
from tilewright.kernels.heads.ranges import MOST_SPLITS
from tilewright.kernels.heads.splitting import attention_splits, merge_splits
from tilewright.kernels.reference import attention as reference
from tilewright.kernels.tunables.signed_sums import checked_trial, spread
from tilewright.tune import Config, Key, Space, Trial, Tunable, forcing, key_of

__all__ = ["ATTENTION", "DECODE"]

TOKENS = 16384  # in all sequences together
LENGTHS = (1024, 2048, 4096, 8192, 16384)
HEADS = {64: 32, 128: 16}  # of a sequence, by channels
NARROW, WIDE = 64, 128  # channels
KEY_HEADS = 8  # of a model whose query heads share keys
# By query heads for each key head: key heads in all sequences, and positions of a cache.
CACHES = {
    4: ((8, 1024), (8, 8192), (8, 65536), (64, 1024), (64, 4096), (256, 1024), (256, 4096)),
    8: ((8, 4096), (8, 16384), (64, 4096), (256, 4096)),
    1: ((512, 4096),),
}


# Two blocks on a multiprocessor: one computes exponentials while the other uses the tensor cores.
TWO = Config.of(BM=64, BN=128, WALK=False, BEHIND=True, occupancy=2, num_worker_warps=4)
# One block with twice as many queries.
LARGE = TWO.updated(BM=128, occupancy=1, num_worker_warps=8)


def _attention_rule(key: Key, target: str) -> Config:
    every, queries, length = key.shape
    options = dict(key.options)
    heads = Heads(f16, target, 1, every, 1, queries, length, int(options["width"] or 0))
    with forcing("attention", None):
        return choose_prefill(heads, causal=bool(options["causal"]))


def _attention_space(key: Key) -> Space:
    """Few blocks with large tiles and many with small ones, in every form.

    The order of tiles matters under a mask alone.
    """
    options = dict(key.options)
    width = int(options["width"] or 0)
    forms: dict[str, Any] = {"BEHIND": (False,), "WALK": (True,), "REST": (rest_of(width),)}
    space = Space.around(LARGE, BN=(64,), **forms)
    if width > WIDE:
        return space | Space.around(TWO.updated(occupancy=1), **forms)
    space |= Space.around(TWO, **forms) | Space.around(TWO.updated(BN=64, occupancy=3), **forms)
    if options["causal"]:
        space |= Space.around(TWO.updated(ACROSS=True), BEHIND=(False,))
    if width == NARROW:
        space |= Space.around(TWO.updated(BN=64, occupancy=4), **forms)
    return space


def _attention_trial(key: Key, device: tw.Device) -> Trial:
    every, queries, length = key.shape
    options = dict(key.options)
    causal, channels = bool(options["causal"]), int(options["width"] or 0)
    # All heads as those of one sequence: the same work, and one program for all lengths.
    sizes = (1, every, queries, channels), (1, every, length, channels)
    q = tw.randn(sizes[0], f16, seed=1, device=device)
    k, v = (tw.randn(sizes[1], f16, seed=seed, device=device) for seed in (2, 3))
    out = tw.empty(sizes[0], f16, device=device)

    def build() -> tw.DeviceOp[Any]:
        return attention(q, k, v, causal=causal, out=out)

    def sample() -> tuple[Any, Any]:
        """Some queries of the last head of the last sequence."""
        found, expected = [], []
        keys, values = (one[-1:, -1:].clone().numpy() for one in (k, v))
        for rows in spread(queries, 4, 4):
            seen = length - queries + rows.stop if causal else length
            some = q[-1:, -1:, rows].clone().numpy()
            found.append(out[-1:, -1:, rows].clone().numpy())
            seen_values = values[:, :, :seen]
            expected.append(
                reference.attention(some, keys[:, :, :seen], seen_values, causal=causal)
            )
        return np.stack(found), np.stack(expected)

    return checked_trial(build, out, sample)


def _decode_rule(key: Key, target: str) -> Config:
    every, length = key.shape
    group, channels = (int(dict(key.options)[name] or 0) for name in ("group", "width"))
    with forcing("decode_attention", None):
        return choose_decode(Heads(f16, target, 1, every, group, 1, length, channels))


def _decode_space(key: Key) -> Space:
    """A tile of keys, and the number of ranges that share all keys."""
    pairs, length = key.shape
    most = max(1, min(-(-length // 64), MOST_SPLITS))
    some = sorted({max(1, min(blocks // pairs, most)) for blocks in (1, 132, 264, 528)})
    tiles = ((256, 1), (128, 2), (64, 4))
    spaces = [Space(BN=(tile,), occupancy=(many,), SPLITS=tuple(some)) for tile, many in tiles]
    return functools.reduce(operator.or_, spaces)


def _decode_trial(key: Key, device: tw.Device) -> Trial:
    every, length = key.shape
    options = dict(key.options)
    group, channels = int(options["group"] or 0), int(options["width"] or 0)
    key_heads = min(every, KEY_HEADS)
    batch = every // key_heads
    q = tw.randn((batch, key_heads * group, channels), f16, seed=1, device=device)
    shape = (batch, key_heads, length, channels)
    k, v = (tw.randn(shape, f16, seed=seed, device=device) for seed in (2, 3))
    lengths = tw.from_numpy(np.full(batch, length, np.int32), device=device)
    out = tw.empty(q.shape, f16, device=device)

    def build() -> tw.DeviceOp[Any]:
        return decode_attention(q, k, v, lengths, out=out)

    def sample() -> tuple[Any, Any]:
        """The last sequence."""
        some, keys, values = (one[-1:].clone().numpy() for one in (q, k, v))
        whole = np.array([length])
        return out[-1:].clone().numpy(), reference.decode_attention(some, keys, values, whole)

    return checked_trial(build, out, sample)


# Full and causal, for sequences of all lengths.
ATTENTION = Tunable(
    name="attention",
    kernels=(attention_tiles, attention_walk, attention_splits, merge_splits),
    rule=_attention_rule,
    space=_attention_space,
    keys=tuple(
        key_of(f16, (TOKENS // length * heads, length, length), causal=causal, width=channels)
        for channels, heads in HEADS.items()
        for length in LENGTHS
        for causal in (False, True)
    ),
    trial=_attention_trial,
)
# One query a sequence, several sequences at once.
DECODE = Tunable(
    name="decode_attention",
    kernels=(attend_split, attend_whole, merge_splits),
    rule=_decode_rule,
    space=_decode_space,
    keys=tuple(
        key_of(f16, cache, group=group, width=128)
        for group, caches in CACHES.items()
        for cache in caches
    ),
    trial=_decode_trial,
    flush=True,
)

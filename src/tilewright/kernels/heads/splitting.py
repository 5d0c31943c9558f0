"""Attention with the keys of a head split between blocks.

Few queries of few heads cannot occupy a GPU, so several blocks share their keys. Each block
processes one range of the keys and stores the weighted mean of the values with the log-sum-exp of
the scores; `merge_splits` combines the ranges.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, i32
from tilewright.dims import BD, BM, B, D, H, K, L, P, S, T
from tilewright.kernels.arithmetic import LOG2_E
from tilewright.kernels.cutting import power_of_two
from tilewright.kernels.heads.attending import Cache, Sight, attend
from tilewright.kernels.heads.channels import load_channels
from tilewright.kernels.heads.online_softmax import LEAST, LOWEST, log_of_sums, means

__all__ = ["attention_splits", "merge", "merge_splits"]

MERGED = 4096  # elements of a tile of the merge


@tw.kernel(deny_checks=True, starts_early=True)
def attention_splits(
    parts: Mut[
        f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[P, Literal[1]], Cut[S, BM], Cut[D, BD]
    ],
    lses: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[P, Literal[1]], Cut[S, BM]],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32, window: i32,
    *, BN: Const[int] = 128, GROUP: Const[int] = 1, CAUSAL: Const[bool] = False,
    WINDOWED: Const[bool] = False, EVEN: Const[bool] = False,
) -> None:  # fmt: skip
    """BM queries of one head against one range of the keys that they see."""
    tw.require(D <= BD)
    if EVEN:
        tw.require(L % BN == 0)
    b, h, split, i, _ = parts.index
    queries = load_channels(q, (b, h, i), BM, BD, 0)
    cache = Cache(k, v, b, h // GROUP, BN, BD, 0)
    sight = Sight(CAUSAL, WINDOWED, packed=False, even=EVEN, window=window, low=0, high=L)
    share = (split, tw.num_blocks(2))
    rows = attend(queries, cache, L - S + i * BM, sight, scale, share)
    parts.store(means(rows).first.reshape(1, 1, 1, BM, BD))
    lses.store(log_of_sums(rows, scale).reshape(1, 1, 1, BM))


@tw.kernel(deny_checks=True, num_worker_warps=4, occupancy=4, allow_tma=False)
def merge_splits(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BD]],
    parts: Ref[f32, B, H, P, S, D], lses: Ref[f32, B, H, P, S], *, SPLITS: Const[int] = 8,
) -> None:  # fmt: skip
    """The means of up to SPLITS ranges, each weighted by its log-sum-exp."""
    tw.require(P <= SPLITS)
    b, h, i, d = z.index
    logs = lses.partition(1, 1, SPLITS, BM, padding=-math.inf)[b, h, 0, i].reshape(SPLITS, BM, 1)
    highest = tw.maximum(tw.max(logs, axis=0, keepdims=True), LOWEST)
    shares = tw.exp2((logs - highest) * LOG2_E)  # [SPLITS, BM, 1]
    tiles = parts.partition(1, 1, SPLITS, BM, BD)[b, h, 0, i, d].reshape(SPLITS, BM, BD)
    total = tw.sum(tiles * shares, axis=0)
    weight = tw.maximum(tw.sum(shares, axis=0), LEAST)
    z.store((total / weight).astype(z.dtype).reshape(1, 1, BM, BD))


def merge(z: tw.Tensor, parts: tw.Tensor, lses: tw.Tensor) -> tw.DeviceOp[Any]:
    """Combine the ranges of rows (B, H, splits, rows, D) to z (B, H, rows, D)."""
    splits, width = power_of_two(lses.shape[2]), power_of_two(z.shape[3])
    rows = max(1, min(power_of_two(z.shape[2]), MERGED // (splits * width)))
    return merge_splits(z.partition(1, 1, rows, width), parts, lses, SPLITS=splits)

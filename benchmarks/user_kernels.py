"""Kernels as users write them: those of the README and the examples, and a softmax of rows."""

from __future__ import annotations

import math
from typing import Literal

import tilewright as tw
from tilewright import Const, Cut, Mapped, Mut, Ref, f32
from tilewright.dims import BM, BN, B, D, H, K, L, M, N, S, T

__all__ = ["attention", "gemm", "gemm_tile", "softmax"]


@tw.kernel(deny_checks=True)
def gemm(
    z: Mapped[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    """`z = x @ y` by persistent blocks."""
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


@tw.kernel(deny_checks=True)
def gemm_tile(
    z: Mut[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    """`z = x @ y`: one tile to a block."""
    i, j = z.index
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc.astype(z.dtype))


@tw.kernel(deny_checks=True)
def attention(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, D]],
    q: Ref[T, B, H, S, D], k: Ref[T, B, H, L, D], v: Ref[T, B, H, L, D], scale: f32,
    *, KEYS: Const[int] = 64,
) -> None:  # fmt: skip
    """BM queries of one head against all keys, KEYS at a time, which divides their number."""
    b, h, i, _ = z.index
    tw.require(L % KEYS == 0)
    keys, values = k[b, h].partition(KEYS, D), v[b, h].partition(KEYS, D)
    queries = q[b, h].partition(BM, D)[i, 0]
    highest = tw.full((BM, 1), -math.inf, f32)
    total = tw.zeros((BM, 1), f32)
    acc = tw.zeros((BM, D), f32)
    for j in range(keys.num_tiles(0)):
        scores = queries @ keys[j, 0].T * scale  # [BM, KEYS]
        top = tw.maximum(highest, tw.max(scores, axis=1, keepdims=True))
        weights = tw.exp2(scores - top)
        fade = tw.exp2(highest - top)
        total = total * fade + tw.sum(weights, axis=1, keepdims=True)
        acc = tw.mma(weights.astype(v.dtype), values[j, 0], acc * fade)
        highest = top
    z[b, h].store((acc / total).astype(z.dtype))


@tw.kernel(deny_checks=True)
def softmax(z: Mut[T, Cut[M, BM], Cut[N, BN]], x: Ref[T, M, N]) -> None:
    """Softmax of whole rows, as long as a tile."""
    v = x.load_like(z, padding=-math.inf).astype(f32)
    v = tw.exp(v - tw.max(v, axis=1, keepdims=True))
    z.store((v / tw.sum(v, axis=1, keepdims=True)).astype(z.dtype))

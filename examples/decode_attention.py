"""Decode attention: one new token, with the KV cache split between blocks and the parts merged.

Each block attends to its range of the cache and stores a normalised result with its log-sum-exp; a
second kernel combines them. Only the device knows how much of the cache is filled.
"""

import math
from typing import Literal

import numpy as np

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f16, f32, i32
from tilewright.dims import BD, D, G, H, K, L, T


class SPLITS(tw.Dim):
    """The number of ranges of the cache."""


@tw.kernel(deny_checks=True)
def attend_split(
    part: Mut[f32, Cut[SPLITS, Literal[1]], Cut[H, G], Cut[D, D]],
    weight: Mut[f32, Cut[SPLITS, Literal[1]], Cut[H, G]],
    q: Ref[T, H, D], k: Ref[T, L, K, D], v: Ref[T, L, K, D], filled: Ref[i32], scale: f32,
    *, BN: Const[int] = 16,
) -> None:  # fmt: skip
    """The G query heads of one key head against one range of the cache."""
    split, h, _ = part.index
    keys, values = k.partition(BN, 1, D), v.partition(BN, 1, D)
    queries = q.partition(G, D)[h, 0]
    length = filled.item()
    tiles = min(tw.cdiv(length, BN), keys.num_tiles(0))
    stretch = tw.cdiv(tiles, tw.num_blocks(0))
    highest = tw.full((G, 1), -math.inf, f32)
    total = tw.zeros((G, 1), f32)
    acc = tw.zeros((G, D), f32)
    for j in range(max(split * stretch, 0), min((split + 1) * stretch, tiles)):
        scores = queries @ keys[j, h, 0].reshape(BN, D).T * scale  # [G, BN]
        scores = tw.where(j * BN + tw.arange(BN) < length, scores, -math.inf)
        top = tw.maximum(highest, tw.max(scores, axis=1, keepdims=True))
        weights = tw.exp2(scores - top)
        fade = tw.exp2(highest - top)
        total = total * fade + tw.sum(weights, axis=1, keepdims=True)
        acc = tw.mma(weights.astype(v.dtype), values[j, h, 0].reshape(BN, D), acc * fade)
        highest = top
    some = tw.maximum(total, 1e-30)  # a range may be empty
    part[split].store(acc / some)
    weight[split].store((highest + tw.log2(some)).reshape(G))


@tw.kernel(deny_checks=True)
def merge_splits(
    z: Mut[T, Cut[H, Literal[1]], Cut[D, BD]],
    parts: Ref[f32, SPLITS, H, D], weights: Ref[f32, SPLITS, H], *, BS: Const[int] = 8,
) -> None:  # fmt: skip
    """The mean of up to BS parts, weighted by their log-sum-exps."""
    h, d = z.index
    tw.require(SPLITS <= BS)
    logs = weights.partition(BS, 1, padding=-math.inf)[0, h]  # [BS, 1]
    shares = tw.exp2(logs - tw.max(logs, axis=0, keepdims=True))
    tiles = parts.partition(BS, 1, BD)[0, h, d].reshape(BS, BD)
    total = tw.sum(tiles * shares, axis=0, keepdims=True)
    z.store((total / tw.sum(shares, axis=0, keepdims=True)).astype(z.dtype))


def main() -> None:
    """Compare with NumPy: 8 query heads, 2 key heads, 150 of 200 positions filled."""
    generator = np.random.default_rng(0)
    length, splits = 150, 6
    q = generator.standard_normal((8, 32)).astype(np.float16)
    k, v = generator.standard_normal((2, 200, 2, 32)).astype(np.float16)
    parts, weights = tw.zeros((splits, 8, 32), f32), tw.zeros((splits, 8), f32)
    filled = tw.from_numpy(np.array(length, np.int32))
    scale = math.log2(math.e) / math.sqrt(32)
    attend_split(
        parts.partition(1, 4, 32), weights.partition(1, 4),
        *(tw.from_numpy(x) for x in (q, k, v)), filled, scale,
    ).submit()  # fmt: skip
    z = tw.zeros((8, 32), f16)
    merge_splits(z.partition(1, 32), parts, weights).sync()

    keys, values = (x[:length].repeat(4, axis=1).astype(np.float32) for x in (k, v))
    scores = np.einsum("hd,lhd->hl", q.astype(np.float32), keys) / math.sqrt(32)
    shares = np.exp(scores)
    shares /= shares.sum(axis=-1, keepdims=True)
    error = np.abs(z.numpy() - np.einsum("hl,lhd->hd", shares, values)).max()
    assert error < 4e-3, error
    print(f"{length} cached tokens in {splits} stretches: off by at most {error:.1e}")


if __name__ == "__main__":
    main()

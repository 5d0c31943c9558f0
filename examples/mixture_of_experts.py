"""A mixture of experts: routing, a product for the tokens of each expert, and the weighted sum.

Routing sorts all choices by expert, in one block. The rows of an expert are one segment of the
product, cut by offsets that only the device knows; whatever they hold, no two blocks write one row.
A last kernel reads, for each token, the rows of its experts.
"""

import math

import numpy as np

import tilewright as tw
from tilewright import All, Const, Cut, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, D, E, K, M, N


class CHOICES(tw.Dim):
    """Tokens times experts for each."""


class OFFSETS(tw.Dim):
    """The number of experts plus one."""


@tw.kernel(deny_checks=True)
def route(
    share: Mut[f32, Cut[M, All], Cut[K, K]], slots: Mut[i32, Cut[M, All], Cut[K, K]],
    tokens: Mut[i32, Cut[CHOICES, All]], offsets: Mut[i32, Cut[OFFSETS, All]],
    logits: Ref[f32, M, E], *, BM: Const[int] = 64, BE: Const[int] = 8, K: Const[int] = 2,
) -> None:  # fmt: skip
    """The K best experts of each token, and all choices sorted by expert; BM holds M."""
    tw.require(CHOICES == M * K)
    tw.require(OFFSETS == E + 1)
    best, expert = tw.top_k(logits.partition(BM, BE, padding=-math.inf)[0, 0], K)  # [BM, K]
    weights = tw.exp(best - tw.max(best, axis=1, keepdims=True))
    share.partition(BM, K).store(weights / tw.sum(weights, axis=1, keepdims=True), 0, 0)

    expert = tw.where(tw.arange(BM)[:, None] < M, expert, BE).reshape(BM * K)  # padding comes last
    order = tw.argsort(expert)
    tokens.partition(BM * K).store(order // K, 0)
    slots.partition(BM, K).store(tw.argsort(order).reshape(BM, K), 0, 0)
    before = expert < tw.arange(2 * BE)[:, None]  # [2 BE, BM K]: choices of earlier experts
    offsets.partition(2 * BE).store(tw.sum(before.astype(i32), axis=1), 0)


@tw.kernel(deny_checks=True)
def experts(
    z: Mut[f32, Cut[CHOICES, BM], Cut[N, BN]], x: Ref[f32, M, D], tokens: Ref[i32, CHOICES],
    weights: Ref[f32, E, D, N], *, BK: Const[int] = 16,
) -> None:  # fmt: skip
    """`z[r] = x[tokens[r]] @ weights[e]` for the rows r of each expert e."""
    tw.require(z.segments == E)
    e, _, n = z.index
    first, end = z.rows
    at = first + tw.arange(BM)
    rows = tokens.gather(at, mask=at < end, padding=-1)[:, None]  # [BM, 1]
    matrix = weights[e].partition(BK, BN)
    acc = tw.zeros((BM, BN), f32)
    for k in range(matrix.num_tiles(0)):
        acc = tw.mma(x.gather(rows, k * BK + tw.arange(BK)), matrix[k, n], acc)
    z.store(acc)


@tw.kernel(deny_checks=True)
def combine(
    y: Mut[f32, Cut[M, BM], Cut[N, BN]], z: Ref[f32, CHOICES, N], slots: Ref[i32, M, K],
    share: Ref[f32, M, K], *, K: Const[int],
) -> None:  # fmt: skip
    """`y[t] = sum(share[t, k] * z[slots[t, k]])`."""
    i, n = y.index
    columns = n * BN + tw.arange(BN)
    places, parts = slots.partition(BM, 1), share.partition(BM, 1)
    acc = tw.zeros((BM, BN), f32)
    for k in tw.static_range(K):
        acc += parts[i, k] * z.gather(places[i, k], columns)
    y.store(acc)


def main() -> None:
    """Compare with NumPy: 50 tokens, 2 of 6 experts each, from 40 to 48 channels."""
    random = np.random.default_rng(0)
    x, logits = random.standard_normal((50, 40)), random.standard_normal((50, 6))
    weights = random.standard_normal((6, 40, 48))
    wanted = np.zeros((50, 48))
    for t in range(50):
        best = np.argsort(-logits[t])[:2]
        powers = np.exp(logits[t, best])
        wanted[t] = sum(
            p * x[t] @ weights[e] for p, e in zip(powers / powers.sum(), best, strict=True)
        )

    dx, dl, dw = (tw.from_numpy(a.astype(np.float32)) for a in (x, logits, weights))
    share, slots = tw.zeros((50, 2), f32), tw.zeros((50, 2), i32)
    tokens, offsets = tw.zeros((100,), i32), tw.zeros((7,), i32)
    z, y = tw.zeros((100, 48), f32), tw.zeros((50, 48), f32)
    whole = (None, 2)
    route(share.partition(*whole), slots.partition(*whole), tokens.partition(None),
          offsets.partition(None), dl).submit()  # fmt: skip
    experts(z.partition(16, 16, segments=offsets), dx, tokens, dw).submit()
    combine(y.partition(16, 16), z, slots, share).submit()
    error = np.abs(y.numpy() - wanted).max()
    assert error < 1e-4, error
    print(f"50 tokens, 2 of 6 experts each: off by at most {error:.1e}")


if __name__ == "__main__":
    main()

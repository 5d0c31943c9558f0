"""Attention with an online softmax, full or causal, with grouped heads.

A variant is a constant: its unused branches are removed when the kernel is compiled.
"""

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f16, f32
from tilewright.dims import BM, B, D, H, K, L, S, T


@tw.kernel(deny_checks=True)
def attention(
    z: Mut[T, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, D]],
    q: Ref[T, B, H, S, D], k: Ref[T, B, K, L, D], v: Ref[T, B, K, L, D], scale: f32,
    *, GROUP: Const[int] = 1, CAUSAL: Const[bool] = False, EVEN: Const[bool] = False,
    BN: Const[int] = 32,
) -> None:  # fmt: skip
    """BM queries of one head against all keys, BN at a time; GROUP query heads share a key head.

    Powers are of two: `scale` is the scale of the scores times log2(e). EVEN: BN divides the number
    of keys.
    """
    b, h, i, _ = z.index
    if EVEN:
        tw.require(L % BN == 0)
    keys, values = k[b, h // GROUP].partition(BN, D), v[b, h // GROUP].partition(BN, D)
    queries = q[b, h].partition(BM, D)[i, 0]
    rows = i * BM + tw.arange(BM)[:, None]  # [BM, 1]
    highest = tw.full((BM, 1), -math.inf, f32)
    total = tw.zeros((BM, 1), f32)
    acc = tw.zeros((BM, D), f32)
    stop = min(keys.num_tiles(0), tw.cdiv((i + 1) * BM, BN)) if CAUSAL else keys.num_tiles(0)
    for j in range(stop):
        scores = queries @ keys[j, 0].T * scale  # [BM, BN]
        columns = j * BN + tw.arange(BN)
        if CAUSAL:
            scores = tw.where(columns <= rows, scores, -math.inf)
        if not EVEN:
            scores = tw.where(columns < L, scores, -math.inf)
        top = tw.maximum(highest, tw.max(scores, axis=1, keepdims=True))
        weights = tw.exp2(scores - top)
        fade = tw.exp2(highest - top)
        total = total * fade + tw.sum(weights, axis=1, keepdims=True)
        acc = tw.mma(weights.astype(v.dtype), values[j, 0], acc * fade)
        highest = top
    z[b, h].store((acc / total).astype(z.dtype))


Array = npt.NDArray[Any]


def expected(q: Array, k: Array, v: Array, causal: bool) -> Array:
    """Attention in NumPy, with whole rows of scores."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float32) for x in (q, k.repeat(group, 1), v.repeat(group, 1)))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Array = weights / weights.sum(axis=-1, keepdims=True) @ v
    return result


def main() -> None:
    """Compare with NumPy: 2 sequences, 4 query heads, and 4 or 2 key heads."""
    generator = np.random.default_rng(0)
    scale = math.log2(math.e) / math.sqrt(32)
    for causal, heads, length in ((False, 4, 77), (True, 2, 77), (True, 2, 96)):
        q = generator.standard_normal((2, 4, length, 32)).astype(np.float16)
        k, v = generator.standard_normal((2, 2, heads, length, 32)).astype(np.float16)
        z = tw.zeros(q.shape, f16)
        attention(
            z.partition(1, 1, 32, 32), *(tw.from_numpy(x) for x in (q, k, v)), scale,
            GROUP=4 // heads, CAUSAL=causal, EVEN=length % 32 == 0,
        ).sync()  # fmt: skip
        error = np.abs(z.numpy() - expected(q, k, v, causal)).max()
        assert error < 4e-3, error
        kind = "causal" if causal else "plain"
        print(f"{kind} attention, {length} tokens, {heads} key heads: off by at most {error:.1e}")


if __name__ == "__main__":
    main()

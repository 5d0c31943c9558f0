"""Causal attention of a prompt against a KV cache, with the query heads of a group packed.

All query heads that share a key head form one tile, so a tile of keys is read once for all of them.
Only the device knows the start of the prompt: it bounds the loop, and needs no check.
"""

import math

import numpy as np

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f16, f32, i32
from tilewright.dims import BM, D, G, H, K, L, S, T


@tw.kernel(deny_checks=True)
def prefill_attention(
    z: Mut[T, Cut[S, BM], Cut[H, G], Cut[D, D]],
    q: Ref[T, S, H, D], k: Ref[T, L, K, D], v: Ref[T, L, K, D],
    start: Ref[i32], scale: f32, *, BN: Const[int] = 32,
) -> None:  # fmt: skip
    """BM tokens and the G query heads of one key head; token s has position `start + s`."""
    i, h, _ = z.index
    packed = BM * G
    keys, values = k.partition(BN, 1, D), v.partition(BN, 1, D)
    queries = q.load_like(z).reshape(packed, D)
    first = start.item() + i * BM
    places = first + tw.arange(packed)[:, None] // G  # [packed, 1]
    highest = tw.full((packed, 1), -math.inf, f32)
    total = tw.zeros((packed, 1), f32)
    acc = tw.zeros((packed, D), f32)
    for j in range(min(tw.cdiv(first + BM, BN), keys.num_tiles(0))):
        scores = queries @ keys[j, h, 0].reshape(BN, D).T * scale  # [packed, BN]
        columns = j * BN + tw.arange(BN)
        scores = tw.where((columns <= places) & (columns < L), scores, -math.inf)
        top = tw.maximum(highest, tw.max(scores, axis=1, keepdims=True))
        weights = tw.exp2(scores - top)
        fade = tw.exp2(highest - top)
        total = total * fade + tw.sum(weights, axis=1, keepdims=True)
        acc = tw.mma(weights.astype(v.dtype), values[j, h, 0].reshape(BN, D), acc * fade)
        highest = top
    z.store((acc / total).astype(z.dtype).reshape(BM, G, D))


def main() -> None:
    """Compare with NumPy: 20 tokens behind 50 cached ones."""
    generator = np.random.default_rng(0)
    q = generator.standard_normal((20, 8, 32)).astype(np.float16)
    k, v = generator.standard_normal((2, 70, 2, 32)).astype(np.float16)
    z, start = tw.zeros(q.shape, f16), tw.from_numpy(np.array(50, np.int32))
    scale = math.log2(math.e) / math.sqrt(32)
    tensors = (tw.from_numpy(x) for x in (q, k, v))
    prefill_attention(z.partition(8, 4, 32), *tensors, start, scale).sync()

    keys, values = (x.repeat(4, axis=1).astype(np.float32) for x in (k, v))
    scores = np.einsum("shd,lhd->hsl", q.astype(np.float32), keys) / math.sqrt(32)
    seen = np.arange(70) <= 50 + np.arange(20)[:, None]
    weights = np.exp(np.where(seen, scores, -np.inf))
    weights /= weights.sum(axis=-1, keepdims=True)
    error = np.abs(z.numpy() - np.einsum("hsl,lhd->shd", weights, values)).max()
    assert error < 4e-3, error
    print(f"attention of {q.shape} behind 50 cached tokens: off by at most {error:.1e}")


if __name__ == "__main__":
    main()

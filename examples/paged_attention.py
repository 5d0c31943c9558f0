"""Paged attention: one query for each sequence over keys and values in pages.

A table maps the tokens of a sequence to pages. Its entries come from memory, so they are clipped to
the existing pages; a wrong table gives wrong numbers but no access outside.
"""

import math
from typing import Literal

import numpy as np

import tilewright as tw
from tilewright import Cut, Mut, Ref, f32, i32
from tilewright.dims import BM, B, D, H, K, L, N


@tw.kernel(deny_checks=True)
def paged_attention(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, BM], Cut[D, D]], q: Ref[f32, B, H, D],
    keys: Ref[f32, K, N, D], values: Ref[f32, K, N, D], pages: Ref[i32, B, L],
    lengths: Ref[i32, B], scale: f32, *, N: tw.Const[int],
) -> None:  # fmt: skip
    """BM heads of one sequence against its tokens, one page of N at a time."""
    b = z.index[0]
    table, ks, vs = pages.partition(1, 1), keys.partition(1, N, D), values.partition(1, N, D)
    queries = q.load_like(z).reshape(BM, D)
    length = lengths.partition(1)[b].item()
    top, total = tw.full((BM, 1), -math.inf, f32), tw.zeros((BM, 1), f32)
    acc = tw.zeros((BM, D), f32)
    for p in range(min(tw.cdiv(length, N), table.num_tiles(1))):
        page = ks.clip(table[b, p].item(), 0)
        scores = queries @ ks[page, 0, 0].reshape(N, D).T * scale  # [BM, N]
        scores = tw.where(p * N + tw.arange(N) < length, scores, -math.inf)
        higher = tw.maximum(top, tw.max(scores, axis=1, keepdims=True))
        weights, fade = tw.exp(scores - higher), tw.exp(top - higher)
        total = total * fade + tw.sum(weights, axis=1, keepdims=True)
        acc = tw.mma(weights, vs[page, 0, 0].reshape(N, D), acc * fade)
        top = higher
    z.store((acc / total).reshape(1, BM, D))


def main() -> None:
    """Compare with NumPy: 5 sequences of 1 to 60 tokens, 8 heads, pages of 16 in any order."""
    random = np.random.default_rng(0)
    lengths = np.array([1, 16, 17, 48, 60], np.int32)
    pages = random.permutation(20).reshape(5, 4).astype(np.int32)
    keys, values = random.standard_normal((2, 20, 16, 32)).astype(np.float32)
    q = random.standard_normal((5, 8, 32)).astype(np.float32)
    scale, wanted = 1 / math.sqrt(32), np.empty(q.shape)
    for b, length in enumerate(lengths):
        k, v = (x[pages[b]].reshape(-1, 32)[:length] for x in (keys, values))
        powers = np.exp(q[b] @ k.T * scale)
        wanted[b] = powers / powers.sum(axis=1, keepdims=True) @ v
    z = tw.zeros(q.shape, f32)
    given = (tw.from_numpy(x) for x in (q, keys, values, pages, lengths))
    paged_attention(z.partition(1, 8, 32), *given, scale).sync()
    error = np.abs(z.numpy() - wanted).max()
    assert error < 1e-4, error
    print(f"paged attention of {len(lengths)} sequences: off by at most {error:.1e}")


if __name__ == "__main__":
    main()

"""Flash attention: plain, causal, with a sliding window, and with shared key heads, in one kernel,
and the same by NumPy.

The scores are never stored: a block keeps the running maximum and sum of its rows while it walks
over the keys. No bounds check is left inside; the launch makes sure that every head finds its keys.
"""

from typing import Any, Literal

import numpy as np

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i32
from tilewright.dims import BM, D, H, N, S, T

Array = np.ndarray[Any, Any]

LOG2_E = 1.4426950408889634


class KV(tw.Dim):
    """Heads of keys and values; each serves as many heads of queries."""


@tw.kernel(deny_checks=True)
def attention(
    z: Mut[T, Literal[1], BM, D],
    q: Ref[T, H, S, D],
    k: Ref[T, KV, N, D],
    v: Ref[T, KV, N, D],
    scale: f32,
    *,
    BN: Const[int] = 64,
    CAUSAL: Const[bool] = False,
    WINDOW: Const[int] = 0,
) -> None:
    """`softmax(q @ k.T * scale) @ v` for the rows of one block.

    A causal row sees the keys up to its own place, of which `WINDOW`, if not zero, keeps the last.
    """
    head, block, _ = z.index
    shared = head // (H // KV)
    keys, values = k.partition(1, D, BN, order=(0, 2, 1)), v.partition(1, BN, D)
    query = q.partition(1, BM, D)[z.index].reshape(BM, D)
    rows = block * BM + tw.arange(BM, i32)[:, None]

    first, last = 0, values.num_tiles(1)
    if CAUSAL:
        last = min(last, tw.cdiv((block + 1) * BM, BN))
    if WINDOW > 0:
        first = max(0, (block * BM - WINDOW + 1) // BN)

    most = tw.full((BM, 1), -1e30, f32)
    total = tw.zeros((BM, 1), f32)
    acc = tw.zeros((BM, D), f32)
    for j in range(first, last):
        columns = j * BN + tw.arange(BN, i32)[None, :]
        seen = columns < N
        if CAUSAL:
            seen = seen & (columns <= rows)
        if WINDOW > 0:
            seen = seen & (columns > rows - WINDOW)
        scores = (query @ keys[shared, 0, j].reshape(D, BN)) * (scale * LOG2_E)  # [BM, BN]
        scores = tw.where(seen, scores, -1e30)
        peak = tw.maximum(most, tw.max(scores, axis=1, keepdims=True))
        weights = tw.where(seen, tw.exp2(scores - peak), 0)
        faded = tw.exp2(most - peak)
        total = total * faded + tw.sum(weights, axis=1, keepdims=True)
        value = values[shared, j, 0].reshape(BN, D)
        acc = tw.mma(weights.astype(z.dtype), value, acc * faded)
        most = peak
    z.store((acc / tw.maximum(total, 1e-30)).astype(z.dtype).reshape(1, BM, D))


def expected(
    arrays: tuple[Array, Array, Array], scale: float, causal: bool = False, window: int = 0
) -> Array:
    """The same with whole matrices of scores."""
    q, k, v = (array.astype(np.float64) for array in arrays)
    k, v = (np.repeat(array, len(q) // len(array), axis=0) for array in (k, v))
    scores = np.einsum("hsd,hnd->hsn", q, k) * scale
    rows, columns = np.ogrid[: q.shape[1], : k.shape[1]]
    seen = np.full(scores.shape[1:], True)
    seen &= columns <= rows if causal else True
    seen &= columns > rows - window if window else True
    weights = np.exp(scores - scores.max(axis=2, keepdims=True)) * seen
    result: Array = weights @ v / weights.sum(axis=2, keepdims=True)
    return result

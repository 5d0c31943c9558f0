"""Attention, rotary embeddings and KV caches in NumPy and float64, with whole rows of scores.

These definitions are the oracles of the tests and of the tuner: plain, and slow.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "append_kv",
    "attention",
    "decode_attention",
    "log_sums",
    "norm_rope_append",
    "rope",
    "rounding_bound",
    "varlen_attention",
]

Array = npt.NDArray[Any]


def _scores(q: Array, k: Array, causal: bool, scale: float | None, window: int | None) -> Array:
    """Scores (B, H, S, L) of queries (B, H, S, D) with keys (B, K, L, D); masked ones are -inf."""
    queries, length = q.shape[2], k.shape[2]
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    keys = k.repeat(q.shape[1] // k.shape[1], axis=1).astype(np.float64)
    places = length - queries + np.arange(queries)[:, None]
    away = places - np.arange(length)
    seen = (away >= 0) | (not causal)
    if window is not None:
        seen &= np.abs(away) < window
    return np.where(seen, scale * (q.astype(np.float64) @ keys.swapaxes(-1, -2)), -np.inf)


def attention(
    q: Array, k: Array, v: Array, *,
    causal: bool = False, scale: float | None = None, window: int | None = None,
) -> Array:  # fmt: skip
    """`tilewright.kernels.attention`."""
    scores = _scores(q, k, causal, scale, window)
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(highest), highest, 0))
    total = weights.sum(axis=-1, keepdims=True)
    values = v.repeat(q.shape[1] // v.shape[1], axis=1).astype(np.float64)
    return np.asarray(weights / np.where(total, total, 1) @ values)


def log_sums(
    q: Array, k: Array, *,
    causal: bool = False, scale: float | None = None, window: int | None = None,
) -> Array:  # fmt: skip
    """The log-sum-exp of each query, (B, H, S)."""
    scores = _scores(q, k, causal, scale, window)
    logaddexp: Any = np.logaddexp  # the stubs of NumPy 2.5 refuse a plain `reduce`
    return np.asarray(logaddexp.reduce(scores, axis=-1, initial=-np.inf))


def rounding_bound(magnitude: Array, largest: float, keys: int, epsilon: float) -> Array:
    """Tolerance of a kernel relative to the exact mean.

    `magnitude` is attention to the absolute values. Weights and results are rounded to the dtype of
    the values, whose `epsilon` is half the distance from 1 to the next number; weights that are
    subnormal in f16 lose up to 2**-25. Scores, exponentials and sums are f32.
    """
    return np.asarray(magnitude * (2 * epsilon + 1e-5) + largest * (keys * 2.0**-25 + 2.0**-24))


def decode_attention(
    q: Array, k: Array, v: Array, lengths: Array, *,
    scale: float | None = None, window: int | None = None,
) -> Array:  # fmt: skip
    """`tilewright.kernels.decode_attention`: queries (B, H, D)."""
    out = np.zeros(q.shape)
    for b, length in enumerate(np.clip(lengths, 0, k.shape[2])):
        query, keys, values = q[b, None, :, None], k[b, None, :, :length], v[b, None, :, :length]
        out[b] = attention(query, keys, values, causal=True, scale=scale, window=window)[0, :, 0]
    return out


def varlen_attention(
    q: Array, k: Array, v: Array, q_offsets: Array, k_offsets: Array, *,
    causal: bool = False, scale: float | None = None, window: int | None = None,
) -> Array:  # fmt: skip
    """`tilewright.kernels.varlen_attention`: queries (N, H, D), keys and values (M, K, D)."""
    out = np.zeros(q.shape)
    for (low, high), (begin, end) in zip(pairwise(q_offsets), pairwise(k_offsets), strict=True):
        one, keys, values = (
            x.swapaxes(0, 1)[None] for x in (q[low:high], k[begin:end], v[begin:end])
        )
        found = attention(one, keys, values, causal=causal, scale=scale, window=window)
        out[low:high] = found[0].swapaxes(0, 1)
    return out


def rope(
    x: Array, cosines: Array, sines: Array, *,
    starts: Array | int = 0, interleaved: bool = False,
) -> Array:  # fmt: skip
    """`tilewright.kernels.rope`: (B, H, S, D), rotated by tables (P, D/2)."""
    first = np.broadcast_to(starts, x.shape[0])
    places = first[:, None] + np.arange(x.shape[2])
    known = ((places >= 0) & (places < len(cosines)))[:, :, None]
    rows = np.where(known[..., 0], places, 0)
    cos, sin = ((known * table[rows].astype(np.float64))[:, None] for table in (cosines, sines))
    pairs = x.astype(np.float64)
    split = (pairs[..., 0::2], pairs[..., 1::2]) if interleaved else np.split(pairs, 2, axis=-1)
    turned = (split[0] * cos - split[1] * sin, split[1] * cos + split[0] * sin)
    if interleaved:
        return np.stack(turned, axis=-1).reshape(x.shape)
    return np.concatenate(turned, axis=-1)


def append_kv(cache: Array, new: Array, starts: Array) -> Array:
    """A cache (B, K, L, D) after `tilewright.kernels.append_kv`."""
    out = cache.copy()
    for b, start in enumerate(starts):
        for s in range(new.shape[2]):
            if 0 <= start + s < cache.shape[2]:
                out[b, :, start + s] = new[b, :, s]
    return out


def norm_rope_append(
    new: tuple[Array, Array, Array], caches: tuple[Array, Array], angles: tuple[Array, Array],
    starts: Array, norms: tuple[Array, Array] | None = None, eps: float = 1e-6,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Rotated queries and both caches after `tilewright.kernels.norm_rope_append`."""
    q, k, v = (one.astype(np.float64) for one in new)
    if norms is not None:
        q, k = (
            x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight
            for x, weight in zip((q, k), norms, strict=True)
        )
    queries, keys = (rope(x, *angles, starts=starts) for x in (q, k))
    return queries, append_kv(caches[0], keys, starts), append_kv(caches[1], v, starts)

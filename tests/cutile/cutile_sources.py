"""The kernels of cuTile Python that `cutile_kernels` exports: what their authors would write."""

# ruff: noqa: E741 (`l` is what the sum of an online softmax is called)

from __future__ import annotations

import cuda.tile as ct
import numpy as np

Int = ct.Constant[int]
_ZERO = ct.PaddingMode.ZERO
_LOG2_E = 1.4426950408889634


# --- whole tiles ----------------------------------------------------------------------------------


def vector_add(x, y, z, B: Int):
    i = ct.bid(0)
    total = ct.load(x, index=(i,), shape=(B,)) + ct.load(y, index=(i,), shape=(B,))
    ct.store(z, index=(i,), tile=total)


def gemm(a, b, c, BM: Int, BN: Int, BK: Int):
    """Bands of two rows of tiles, so that the right side stays near."""
    columns = ct.cdiv(c.shape[1], BN)
    band = ct.bid(0) // (2 * columns)
    within = ct.bid(0) % (2 * columns)
    height = min(ct.cdiv(c.shape[0], BM) - 2 * band, 2)
    i, j = 2 * band + within % height, within // height
    acc = ct.full((BM, BN), 0.0, dtype=ct.float32)
    for k in range(ct.cdiv(a.shape[1], BK)):
        left = ct.load(a, index=(i, k), shape=(BM, BK), padding_mode=_ZERO, latency=3)
        right = ct.load(b, index=(k, j), shape=(BK, BN), padding_mode=_ZERO, allow_tma=False)
        acc = ct.mma(left, right, acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc, c.dtype))


def split_k(a, b, c, BM: Int, BN: Int, BK: Int, SPLITS: Int):
    """Every block multiplies its share of k and adds it to the output."""
    i, j, share = ct.bid(0), ct.bid(1), ct.bid(2)
    steps = ct.cdiv(ct.cdiv(a.shape[1], BK), SPLITS)
    acc = ct.full((BM, BN), 0.0, dtype=ct.float32)
    for k in range(share * steps, (share + 1) * steps):
        left = ct.load(a, index=(i, k), shape=(BM, BK), padding_mode=_ZERO)
        acc = ct.mma(left, ct.load(b, index=(k, j), shape=(BK, BN), padding_mode=_ZERO), acc)
    rows = (i * BM + ct.arange(BM, dtype=ct.int32))[:, None]
    columns = (j * BN + ct.arange(BN, dtype=ct.int32))[None, :]
    ct.atomic_add(c, (rows, columns), acc, memory_order=ct.MemoryOrder.RELAXED)


def softmax(x, y, B: Int):
    row = ct.bid(0)
    values = ct.load(x, index=(row, 0), shape=(1, B), padding_mode=ct.PaddingMode.NEG_INF)
    weights = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(y, index=(row, 0), tile=weights / ct.sum(weights, axis=1, keepdims=True))


def layer_norm(x, weight, bias, y, mean, eps, B: Int):
    """Two passes over a row of any length."""
    row = ct.bid(0)
    parts = ct.num_tiles(x, axis=1, shape=(1, B))
    total = ct.full((1, B), 0.0, dtype=ct.float32)
    for j in range(parts):
        total += ct.load(x, index=(row, j), shape=(1, B), padding_mode=_ZERO)
    middle = ct.sum(total, axis=1) / x.shape[1]
    ct.store(mean, index=(row,), tile=middle)
    spread = ct.full((1, B), 0.0, dtype=ct.float32)
    for j in range(parts):
        part = ct.load(x, index=(row, j), shape=(1, B), padding_mode=_ZERO)
        inside = j * B + ct.arange(B, dtype=ct.int32) < x.shape[1]
        off = ct.where(inside, part - middle, 0.0)
        spread += off * off
    scale = ct.rsqrt(ct.sum(spread, axis=1) / x.shape[1] + eps)
    for j in range(parts):
        part = ct.load(x, index=(row, j), shape=(1, B), padding_mode=_ZERO)
        gain = ct.load(weight, index=(j,), shape=(B,), padding_mode=_ZERO)
        shift = ct.load(bias, index=(j,), shape=(B,), padding_mode=_ZERO)
        ct.store(y, index=(row, j), tile=(part - middle) * scale * gain + shift)


def attention(q, k, v, o, scale, BM: Int, BN: Int, D: Int):  # noqa: PLR0917
    """Causal, with the softmax kept up to date block by block of keys."""
    i, head = ct.bid(0), ct.bid(1)
    to_bits = scale * _LOG2_E
    m = ct.full((BM, 1), -np.inf, dtype=ct.float32)
    l = ct.full((BM, 1), 0.0, dtype=ct.float32)
    acc = ct.full((BM, D), 0.0, dtype=ct.float32)
    query = ct.load(q, index=(head, i, 0), shape=(1, BM, D), padding_mode=_ZERO).reshape((BM, D))
    rows = (i * BM + ct.arange(BM, dtype=ct.int32))[:, None]
    for j in range(ct.cdiv(ct.minimum((i + 1) * BM, k.shape[1]), BN)):
        keys = ct.load(
            k, index=(head, 0, j), shape=(1, D, BN), order=(0, 2, 1), padding_mode=_ZERO, latency=2
        )
        scores = ct.mma(query, keys.reshape((D, BN)), ct.full((BM, BN), 0.0, dtype=ct.float32))
        if (j + 1) * BN > i * BM:
            columns = (j * BN + ct.arange(BN, dtype=ct.int32))[None, :]
            scores += ct.where(rows >= columns, 0.0, -np.inf)
        highest = ct.maximum(m, ct.max(scores, axis=-1, keepdims=True) * to_bits)
        weights = ct.exp2(scores * to_bits - highest, flush_to_zero=True)
        fade = ct.exp2(m - highest, flush_to_zero=True)
        l = l * fade + ct.sum(weights, axis=-1, keepdims=True)
        values = ct.load(v, index=(head, j, 0), shape=(1, BN, D), padding_mode=_ZERO)
        acc = ct.mma(weights.astype(q.dtype), values.reshape((BN, D)), acc * fade)
        m = highest
    result = ct.truediv(acc, l, flush_to_zero=True, rounding_mode=ct.RoundingMode.APPROX)
    ct.store(o, index=(head, i, 0), tile=result.reshape((1, BM, D)).astype(o.dtype))


def transpose(x, y, BM: Int, BN: Int):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, index=(j, i), tile=ct.transpose(ct.load(x, index=(i, j), shape=(BM, BN))))


# --- single elements ------------------------------------------------------------------------------


def gather_scatter(table, ids, order, out, B: Int, D: Int):
    """Rows of a table by number, put back in another order; bad numbers give zeros."""
    at = ct.bid(0) * B + ct.arange(B, dtype=ct.int32)
    rows = ct.gather(ids, (at,), padding_value=-1)
    columns = ct.arange(D, dtype=ct.int32)[None, :]
    values = ct.gather(table, (rows[:, None], columns))
    places = ct.gather(order, (at,), padding_value=-1)
    ct.scatter(out, (places[:, None], columns), values)


def atomics(ids, counts, highest, claimed, B: Int):
    """A histogram, the greatest number of each bin, and who came to a bin first (with a flag)."""
    at = ct.bid(0) * B + ct.arange(B, dtype=ct.int32)
    bins = ct.gather(ids, (at,), padding_value=-1)
    ct.atomic_add(counts, (bins,), 1)
    ct.atomic_max(highest, (bins,), at, memory_order=ct.MemoryOrder.RELAXED)
    ct.atomic_cas(claimed, (bins,), 0, 1)


# --- kinds of numbers, order, control -------------------------------------------------------------


def fp8(a, b, scale, c, BM: Int, BN: Int, BK: Int):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((BM, BN), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(BM, BK))):
        left = ct.load(a, index=(i, k), shape=(BM, BK), padding_mode=_ZERO)
        acc = ct.mma(left, ct.load(b, index=(k, j), shape=(BK, BN), padding_mode=_ZERO), acc)
    ct.store(c, index=(i, j), tile=ct.astype(acc * scale, ct.bfloat16))


def scan(x, sums, lowest, last, B: Int):
    """Running sums from both ends, and the place of the least number of each row."""
    row = ct.bid(0)
    values = ct.load(x, index=(row, 0), shape=(1, B), padding_mode=_ZERO)
    ct.store(sums, index=(row, 0), tile=ct.cumsum(values, axis=1))
    ct.store(last, index=(row, 0), tile=ct.cumsum(values, axis=1, reverse=True))
    ct.store(lowest, index=(row,), tile=ct.argmin(values, axis=1))


def print_tile(x, B: Int):
    block = ct.bid(0)
    values = ct.load(x, index=(block,), shape=(B,))
    if block == 0:
        ct.printf("block %d: %d\n", block, values)


def steps(x, counts, limit, B: Int):
    """How many steps of Collatz's rule lead from the sum of a tile below a limit."""
    block = ct.bid(0)
    number = ct.sum(ct.load(x, index=(block,), shape=(B,), padding_mode=_ZERO))
    taken = 0
    while number >= limit:
        if taken == 50:
            break
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        taken += 1
    ct.store(counts, index=(block,), tile=taken)


def wide_rows(x, y, flip, BM: Int, BN: Int):
    """64-bit extents, f64, integers and truth values."""
    i = ct.bid(0)
    tile = ct.load(x, index=(i, 0), shape=(BM, BN), padding_mode=_ZERO)
    above = ct.astype(tile > 0.0, ct.int64)
    signs = ct.where(ct.bitwise_xor(above, flip) != 0, -tile, ct.sqrt(ct.abs(tile)))
    ct.store(y, index=(i, 0), tile=signs)


__all__ = [
    "atomics", "attention", "fp8", "gather_scatter", "gemm", "layer_norm", "print_tile", "scan",
    "softmax", "split_k", "steps", "transpose", "vector_add", "wide_rows",
]  # fmt: skip

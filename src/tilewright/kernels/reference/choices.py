"""Choices among experts and among tokens in NumPy and float64, under the library's names.

`sample` gives the probabilities of tokens, of which the kernel draws one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["combine", "count_tokens", "penalise", "route", "sample"]

Array = npt.NDArray[Any]


def _softmax(rows: Array) -> Array:
    powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def route(
    logits: Array, k: int, *, normalised: bool = True
) -> tuple[Array, Array, Array, Array, Array]:
    """Experts, shares and slots [M, k] of each token, tokens by expert, and offsets."""
    shares = _softmax(logits.astype(np.float64))
    experts = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(shares, experts, axis=1)
    if normalised:
        chosen = chosen / chosen.sum(axis=1, keepdims=True)
    line = experts.reshape(-1)
    order = np.argsort(line, kind="stable")
    slots = np.empty(len(line), np.int64)
    slots[order] = np.arange(len(line))
    offsets = np.searchsorted(line[order], np.arange(logits.shape[1] + 1))
    return experts, chosen, slots.reshape(experts.shape), order // k, offsets


def combine(residual: Array, rows: Array, slots: Array, shares: Array) -> Array:
    """`residual` plus the rows of each token's experts, times their shares."""
    return np.asarray(residual + (shares[..., None] * rows.astype(np.float64)[slots]).sum(axis=1))


def sample(logits: Array, temperature: float, top_k: int, top_p: float, min_p: float) -> Array:
    """The probability of each token of one row."""
    if not temperature:
        return np.asarray(np.arange(len(logits)) == logits.argmax(), np.float64)
    scaled = logits.astype(np.float64) / temperature
    kept = np.ones(len(logits), np.bool_)
    if 0 < top_k < len(logits):
        kept &= logits >= np.sort(logits)[-top_k]
    if top_p < 1:
        shares = np.where(kept, _softmax(scaled), 0)
        order = np.argsort(-shares, kind="stable")
        needed = int(np.searchsorted(np.cumsum(shares[order]), top_p * shares.sum()))
        kept &= logits >= logits[order[min(needed, len(order) - 1)]]
    powers = np.exp(scaled - scaled.max())
    powers = np.where(kept & (powers >= min_p), powers, 0)
    return np.asarray(powers / powers.sum())


def penalise(
    logits: Array, bias: Array, prompted: Array, counts: Array,
    repetition: Array, presence: Array, frequency: Array,
) -> Array:  # fmt: skip
    """Logits with biases and penalties."""
    x = logits.astype(np.float64) + bias
    factor = repetition[:, None].astype(np.float64)
    x = np.where(prompted | (counts > 0), np.where(x > 0, x / factor, x * factor), x)
    return np.asarray(x - presence[:, None] * (counts > 0) - frequency[:, None] * counts)


def count_tokens(counts: Array, ids: Array) -> Array:
    """`counts[m, ids[m]] += 1` where there is such a column."""
    out = counts.copy()
    for row, token in enumerate(ids):
        if 0 <= token < counts.shape[1]:
            out[row, token] += 1
    return out

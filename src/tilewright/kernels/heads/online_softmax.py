"""Softmax and weighted mean of rows whose scores come a tile at a time, for use inside kernels.

A row keeps the highest score so far, the sum of `exp(scale * (score - highest))`, and the sum of
the values with those weights. A higher score scales both sums down, so nothing is ever larger than
the sum of as many ones. Powers are of two: `scale` is that of the scores times log2(e), and one
multiply-add gives the exponent.

Rows that have seen no score give zeros, and minus infinity as the logarithm of their weight.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tilewright as tw
from tilewright import Tile, f32
from tilewright.kernels.arithmetic import LN_2

__all__ = [
    "LEAST",
    "LOWEST",
    "Rows",
    "Weights",
    "add",
    "fresh",
    "log_of_sums",
    "means",
    "take",
    "weigh",
]

LOWEST = -1e30  # below any score, and finite: what is masked keeps the weight 0 beside it
LEAST = 1e-30  # a sum of weights is 1 or more, or there was nothing to sum


class Rows(NamedTuple):
    """Rows under way."""

    highest: Tile[f32]  # [BM, 1]
    total: Tile[f32]  # [BM, 1]
    mean: Tile[f32]  # [BM, D], not yet divided by the total


class Weights(NamedTuple):
    """What a tile of values counts, and what those before it are scaled by."""

    powers: Tile[Any]  # [BM, BN], as values are
    fade: Tile[f32]  # [BM, 1]


def fresh(count: int, width: int) -> Rows:
    """Rows that have seen nothing."""
    highest = tw.full((count, 1), LOWEST, f32)
    return Rows(highest, tw.zeros((count, 1), f32), tw.zeros((count, width), f32))


def weigh(rows: Rows, scores: Tile[f32], scale: f32, dtype: type[tw.DType]) -> tuple[Weights, Rows]:
    """What `scores` [BM, BN] weigh, and the rows but for the values; -inf weighs nothing."""
    highest = tw.maximum(rows.highest, tw.max(scores, axis=1, keepdims=True))
    powers = tw.exp2(tw.fma(scores, scale, -(highest * scale)), ftz=True)
    fade = tw.exp2((rows.highest - highest) * scale, ftz=True)
    total = rows.total * fade + tw.sum(powers, axis=1, keepdims=True)
    return Weights(powers.astype(dtype), fade), Rows(highest, total, rows.mean)


def take(rows: Rows, weights: Weights, values: Tile[Any]) -> Rows:
    """The rows with `values` [BN, D], the oldest that were weighed and not yet taken."""
    mean = tw.mma(weights.powers, values, rows.mean * weights.fade)
    return Rows(rows.highest, rows.total, mean)


def add(rows: Rows, scores: Tile[f32], values: Tile[Any], scale: f32) -> Rows:
    """The rows after `scores` [BM, BN], which weigh `values` [BN, D]."""
    weights, rows = weigh(rows, scores, scale, values.dtype)
    return take(rows, weights, values)


def means(rows: Rows) -> Tile[f32]:
    """The weighted means of the values, [BM, D]."""
    # One division a row, and not one an element.
    return rows.mean * tw.divide(1.0, tw.maximum(rows.total, LEAST), rounding="approx")


def log_of_sums(rows: Rows, scale: f32) -> Tile[f32]:
    """The natural logarithm of the sum of `exp` over all scores of each row, [BM, 1]."""
    return (rows.highest * scale + tw.log2(rows.total)) * LN_2

"""Online softmax and weighted mean of rows whose scores come one tile at a time.

A row keeps the highest score so far, the sum of `exp(scale * (score - highest))`, and the sum of
the values with those weights. A higher score scales both sums down, so neither overflows. Powers
are powers of two: `scale` is the scale of the scores times log2(e), and one multiply-add gives the
exponent.

A row without scores gives zeros, and minus infinity as its log-sum-exp.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tilewright as tw
from tilewright import Tile, f32
from tilewright.kernels.arithmetic import LN_2
from tilewright.kernels.heads.channels import Channels

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

LOWEST = -1e30  # below any score, and finite: masked scores keep the weight 0 beside it
LEAST = 1e-30  # floor of a sum of weights, which is 1 or more unless the row is empty


class Rows(NamedTuple):
    """Running state of rows."""

    highest: Tile[f32]  # [BM, 1]
    total: Tile[f32]  # [BM, 1]
    mean: Channels  # of f32, before division by the total


class Weights(NamedTuple):
    """Weights of a tile of values, and the factor that scales the values before it."""

    powers: Tile[Any]  # [BM, BN], in the dtype of the values
    fade: Tile[f32]  # [BM, 1]


def fresh(like: Channels) -> Rows:
    """Rows without scores, for the queries `like`."""
    count = like.first.shape[0]
    highest = tw.full((count, 1), LOWEST, f32)
    mean = Channels(tw.zeros(like.first.shape, f32))
    if like.rest is not None:
        mean = Channels(mean.first, tw.zeros(like.rest.shape, f32))
    return Rows(highest, tw.zeros((count, 1), f32), mean)


def weigh(rows: Rows, scores: Tile[f32], scale: f32, dtype: type[tw.DType]) -> tuple[Weights, Rows]:
    """The weights of `scores` [BM, BN], and the rows without their values; -inf weighs nothing."""
    highest = tw.maximum(rows.highest, tw.max(scores, axis=1, keepdims=True))
    powers = tw.exp2(tw.fma(scores, scale, -(highest * scale)), ftz=True)
    fade = tw.exp2((rows.highest - highest) * scale, ftz=True)
    total = rows.total * fade + tw.sum(powers, axis=1, keepdims=True)
    return Weights(powers.astype(dtype), fade), Rows(highest, total, rows.mean)


def take(rows: Rows, weights: Weights, values: Channels) -> Rows:
    """The rows with BN `values`, the oldest that were weighed and not yet added."""
    mean = Channels(tw.mma(weights.powers, values.first, rows.mean.first * weights.fade))
    if rows.mean.rest is not None and values.rest is not None:
        rest = tw.mma(weights.powers, values.rest, rows.mean.rest * weights.fade)
        mean = Channels(mean.first, rest)
    return Rows(rows.highest, rows.total, mean)


def add(rows: Rows, scores: Tile[f32], values: Channels, scale: f32) -> Rows:
    """The rows after `scores` [BM, BN], which weigh BN `values`."""
    weights, rows = weigh(rows, scores, scale, values.first.dtype)
    return take(rows, weights, values)


def means(rows: Rows) -> Channels:
    """The weighted means of the values."""
    # One division for each row, not for each element.
    share = tw.divide(1.0, tw.maximum(rows.total, LEAST), rounding="approx")
    if rows.mean.rest is None:
        return Channels(rows.mean.first * share)
    return Channels(rows.mean.first * share, rows.mean.rest * share)


def log_of_sums(rows: Rows, scale: f32) -> Tile[f32]:
    """The log-sum-exp of all scores of each row, [BM, 1]."""
    return (rows.highest * scale + tw.log2(rows.total)) * LN_2

"""The memory-bound kernels in NumPy and float64, under the names of the library functions.

Comparisons allow for the arithmetic of the kernels, which round their results to the dtype of their
inputs. Integers stay integers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "add",
    "add_rms_norm",
    "argmax",
    "cross_entropy",
    "cross_entropy_gradient",
    "cumsum",
    "dropout",
    "embedding",
    "gelu",
    "histogram",
    "layer_norm",
    "layer_norm_gradient",
    "random_words",
    "reduce",
    "rms_norm",
    "rms_norm_gradient",
    "scatter",
    "silu_mul",
    "softmax",
    "top_k",
    "transpose",
]

Array = npt.NDArray[Any]
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _wide(x: Array) -> Array:
    return x if x.dtype.kind in "iu" else x.astype(np.float64)


def add(x: Array, y: Array) -> Array:
    """`x + y`."""
    found: Array = _wide(x) + _wide(y)
    return found


def silu_mul(gate: Array, up: Array) -> Array:
    """`gate * sigmoid(gate) * up`."""
    wide = _wide(gate)
    found: Array = wide / (1 + np.exp(-wide)) * _wide(up)
    return found


def gelu(x: Array, approximate: str = "none") -> Array:
    """GELU: `x * P(X < x)` for a normally distributed X, or the tanh approximation."""
    wide = _wide(x)
    if approximate == "tanh":
        below = (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))) / 2
    else:
        below = _erfc(-wide / math.sqrt(2)) / 2
    found: Array = wide * below
    return found


def random_words(places: Array, seed: int) -> Array:
    """Philox 4x32-10, as published: four 32-bit words for each 64-bit position, (4, …)."""
    mask = np.uint64(0xFFFFFFFF)
    a, b = places.astype(np.uint64) & mask, places.astype(np.uint64) >> np.uint64(32)
    c, d = np.zeros_like(a), np.zeros_like(a)
    left, right = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        one, two = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a = two >> np.uint64(32) ^ b ^ np.uint64(left)
        c = one >> np.uint64(32) ^ d ^ np.uint64(right)
        b, d = two & mask, one & mask
        left, right = left + 0x9E3779B9 & 0xFFFFFFFF, right + 0xBB67AE85 & 0xFFFFFFFF
    return np.stack((a, b, c, d))


def dropout(x: Array, share: float, seed: int, offset: int = 0) -> Array:
    """`x / (1 - share)` where the random number in [0, 1) is not below `share`, and 0 elsewhere."""
    n = np.uint64(offset) + np.arange(x.size, dtype=np.uint64)
    four, lanes = np.uint64(4), np.uint64(1024)
    words = random_words(n // (four * lanes) * lanes + n % lanes, seed)
    chosen = np.take_along_axis(words, (n // lanes % four)[None].astype(np.int64), axis=0)[0]
    numbers = (chosen >> np.uint64(8)).reshape(x.shape) * 2.0**-24
    return np.where(numbers >= np.float32(share), _wide(x) / (1 - share), 0.0)


def softmax(x: Array) -> Array:
    """`exp(x) / sum exp(x)` along the last axis."""
    wide = _wide(x)
    powers = np.exp(wide - wide.max(axis=-1, keepdims=True, initial=-np.inf))
    found: Array = powers / powers.sum(axis=-1, keepdims=True)
    return found


def cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """The loss of each row, 0 where the label is no class, and `log sum exp`."""
    wide, known = _wide(logits), _known(logits, labels)
    top = wide.max(axis=-1)
    log_sum = top + np.log(np.exp(wide - top[..., None]).sum(axis=-1))
    at = np.where(known, labels, 0).astype(np.int64)
    picked = np.take_along_axis(wide, at[..., None], axis=-1)[..., 0]
    return np.where(known, log_sum - picked, 0.0), log_sum


def cross_entropy_gradient(logits: Array, labels: Array, dloss: Array) -> Array:
    """`(softmax(x) - [class is label]) * dloss`, and 0 where the label is no class."""
    is_label = np.arange(logits.shape[-1]) == labels[..., None]
    scale = np.where(_known(logits, labels), _wide(dloss), 0.0)
    found: Array = (softmax(logits) - is_label) * scale[..., None]
    return found


def _known(logits: Array, labels: Array) -> Array:
    known: Array = (labels >= 0) & (labels < logits.shape[-1])
    return known


def rms_norm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    """`x / sqrt(mean(x²) + eps) * weight` along the last axis."""
    wide = _wide(x)
    found: Array = wide / _root(wide, eps) * _wide(weight)
    return found


def add_rms_norm(x: Array, y: Array, weight: Array, eps: float = 1e-6) -> tuple[Array, Array]:
    """The norm of the sum, rounded to its dtype, and the sum."""
    total = (_wide(x) + _wide(y)).astype(x.dtype)
    return rms_norm(total, weight, eps), total


def layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    """`(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias` along the last axis."""
    wide = _centred(x)
    found: Array = wide / _root(wide, eps) * _wide(weight) + _wide(bias)
    return found


def rms_norm_gradient(dz: Array, x: Array, weight: Array, eps: float = 1e-6) -> tuple[Array, Array]:
    """The gradients of `x` and of the weight."""
    wide, rows = _wide(x), _wide(dz)
    root = _root(wide, eps)
    h, g = wide / root, rows * _wide(weight)
    dx = (g - h * np.mean(g * h, axis=-1, keepdims=True)) / root
    return dx, _over_rows(rows * h)


def layer_norm_gradient(
    dz: Array, x: Array, weight: Array, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """The gradients of `x`, of the weight and of the bias."""
    wide, rows = _centred(x), _wide(dz)
    root = _root(wide, eps)
    h, g = wide / root, rows * _wide(weight)
    means = np.mean(g, axis=-1, keepdims=True) + h * np.mean(g * h, axis=-1, keepdims=True)
    return (g - means) / root, _over_rows(rows * h), _over_rows(rows)


def _centred(x: Array) -> Array:
    wide = _wide(x)
    found: Array = wide - wide.mean(axis=-1, keepdims=True)
    return found


def _root(x: Array, eps: float) -> Array:
    found: Array = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    return found


def _over_rows(x: Array) -> Array:
    found: Array = x.reshape(-1, x.shape[-1]).sum(axis=0)
    return found


def embedding(ids: Array, table: Array) -> Array:
    """`table[ids]`, and zeros for an id that the table does not have."""
    known = (ids >= 0) & (ids < len(table))
    rows = table[np.where(known, ids, 0).astype(np.int64)]
    return np.where(known[..., None], rows, np.zeros((), table.dtype))


def scatter(x: Array, index: Array, out: Array) -> Array:
    """`out` with `x[k]` in row `index[k]`, the last of several."""
    result = out.copy()
    for row, number in zip(x, index.tolist(), strict=True):
        if 0 <= number < len(out):
            result[number] = row
    return result


def transpose(x: Array) -> Array:
    """The last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def reduce(name: str, x: Array, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """NumPy's `sum`, `mean`, `max` or `min`."""
    found: Array = np.asarray(getattr(np, name)(_wide(x), axis=axis, keepdims=keepdims))
    return found


def cumsum(x: Array, axis: int = -1) -> Array:
    """The running sum along an axis."""
    found: Array = np.cumsum(_wide(x), axis=axis)
    return found


def argmax(x: Array) -> Array:
    """The index of the highest element along the last axis; the first of equals, NaN above all."""
    found: Array = np.argmax(_wide(x), axis=-1)
    return found


def top_k(x: Array, k: int) -> tuple[Array, Array]:
    """The k highest elements along the last axis and their indices; the first of equals first."""
    wide = _wide(x)
    order = np.argsort(np.where(np.isnan(wide), -np.inf, -wide), axis=-1, kind="stable")
    nan_first = np.argsort(~np.isnan(np.take_along_axis(wide, order, -1)), axis=-1, kind="stable")
    places = np.take_along_axis(order, nan_first, -1)[..., :k]
    return np.take_along_axis(x, places, -1), places


def histogram(x: Array, bins: int) -> Array:
    """Counts of the numbers 0, 1, … bins - 1."""
    counted = x[(x >= 0) & (x < bins)]
    return np.bincount(counted.astype(np.int64).ravel(), minlength=bins)

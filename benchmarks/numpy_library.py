"""Functions of the library as NumPy computes them in f32: the other side of `cpu_library.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return x / 2 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def scale_of(x: Array) -> Array:
    return 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-5))


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred * scale_of(centred) * weight + bias


def rms_norm_gradient(dz: Array, x: Array, weight: Array) -> tuple[Array, Array]:
    scale, g = scale_of(x), dz * weight
    h = x * scale
    return (g - h * np.mean(g * h, axis=-1, keepdims=True)) * scale, (dz * h).sum(axis=0)


def layer_norm_gradient(dz: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    centred = x - x.mean(axis=-1, keepdims=True)
    scale, g = scale_of(centred), dz * weight
    h = centred * scale
    shift = np.mean(g, axis=-1, keepdims=True) + h * np.mean(g * h, axis=-1, keepdims=True)
    return (g - shift) * scale, (dz * h).sum(axis=0), dz.sum(axis=0)


def log_sums(x: Array) -> Array:
    top = x.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))[..., 0]


def cross_entropy(x: Array, labels: Array) -> tuple[Array, Array]:
    sums = log_sums(x)
    return sums - x[np.arange(len(x)), labels], sums


def cross_entropy_gradient(x: Array, labels: Array, sums: Array, dloss: Array) -> Array:
    share = np.exp(x - sums[:, None])
    share[np.arange(len(x)), labels] -= 1
    return share * dloss[:, None]


def top_k(x: Array, k: int) -> tuple[Array, Array]:
    some = np.argpartition(x, -k, axis=-1)[:, -k:]
    order = np.argsort(-np.take_along_axis(x, some, -1), axis=-1, kind="stable")
    places = np.take_along_axis(some, order, -1)
    return np.take_along_axis(x, places, -1), places


def attention(q: Array, k: Array, v: Array, seen: Array | bool) -> Array:
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    k, v = (x.repeat(q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = np.where(seen, q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]), -np.inf)
    return (softmax(scores) @ v).astype(np.float16)

"""Kernels of several tensors: add and RMS norm, losses, dropout, embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import f16, f32
from tilewright.kernels.cutting import element_config, logits_config, row_config
from tilewright.kernels.elements.pointwise import dropout, dropout_elements
from tilewright.kernels.reference import memory_bound as reference
from tilewright.kernels.rows.embeddings import embedding, embedding_rows
from tilewright.kernels.rows.norms import add_rms_norm, add_rms_norm_rows
from tilewright.kernels.rows.softmaxes import (
    cross_entropy,
    cross_entropy_gradient,
    cross_entropy_gradient_rows,
    cross_entropy_rows,
)
from tilewright.kernels.tunables.beginnings import TARGET, rule_by
from tilewright.kernels.tunables.elements import HINTS, line_rule, part_space
from tilewright.kernels.tunables.rows import ROWS, row_space, rows_of_trial
from tilewright.kernels.tunables.signed_sums import Array, checked_trial, copied, spread
from tilewright.tune import Key, Space, Trial, Tunable, key_of

__all__ = ["ADD_RMS_NORM", "CROSS_ENTROPY", "CROSS_ENTROPY_GRADIENT", "DROPOUT", "EMBEDDING"]

WIDTHS = (1024, 2560, 4096, 8192, 16384, 32768)
VOCABULARY = 151936  # of the models: classes, and rows of a table
SHARE, SEED = 0.1, 7  # of dropout

# Values of the reference for some rows, or for some columns of one row.
Exact = Callable[[slice], Array]


def _by_rows(build: Callable[[], tw.DeviceOp[Any]], out: tw.Tensor, exact: Exact) -> Trial:
    """A trial that is checked at some rows."""

    def sample() -> tuple[Array, Array]:
        parts = spread(out.shape[0], 4, 2)
        found = [copied(out[part]) for part in parts]
        return np.stack(found), np.stack([exact(part) for part in parts])

    return checked_trial(build, out, sample)


def _add_rms_norm(key: Key, device: tw.Device) -> Trial:
    shape = (rows_of_trial(key), key.shape[1])
    x, y = (tw.randn(shape, f16, seed=seed, device=device) for seed in (1, 2))
    weight = tw.randn(shape[1:], f16, seed=3, device=device)
    out, total = (tw.empty(shape, f16, device=device) for _ in range(2))

    def exact(part: slice) -> Array:
        return reference.add_rms_norm(copied(x[part]), copied(y[part]), copied(weight))[0]

    return _by_rows(lambda: add_rms_norm(x, y, weight, out=(out, total)), out, exact)


def _classified(key: Key, device: tw.Device) -> tuple[tw.Tensor, tw.Tensor, Array]:
    """Logits and labels, on the device and on the host."""
    logits = tw.randn(key.shape, f16, seed=1, device=device)
    labels = np.random.default_rng(2).integers(0, key.shape[1], key.shape[0], np.int32)
    return logits, tw.from_numpy(labels, device=device), labels


def _cross_entropy(key: Key, device: tw.Device) -> Trial:
    logits, labels, classes = _classified(key, device)
    loss, log_sum = (tw.empty(key.shape[:1], f32, device=device) for _ in range(2))

    def exact(part: slice) -> Array:
        return reference.cross_entropy(copied(logits[part]), classes[part])[0]

    return _by_rows(lambda: cross_entropy(logits, labels, out=(loss, log_sum)), loss, exact)


def _cross_entropy_gradient(key: Key, device: tw.Device) -> Trial:
    logits, labels, classes = _classified(key, device)
    _, log_sum = cross_entropy(logits, labels).sync()
    dloss = tw.randn(key.shape[:1], f32, seed=3, device=device)
    out = tw.empty(key.shape, f16, device=device)

    def build() -> tw.DeviceOp[Any]:
        return cross_entropy_gradient(logits, labels, log_sum, dloss, out=out)

    def exact(part: slice) -> Array:
        given = (copied(logits[part]), classes[part], copied(dloss[part]))
        return reference.cross_entropy_gradient(*given)

    return _by_rows(build, out, exact)


def _dropout(key: Key, device: tw.Device) -> Trial:
    x = tw.randn(key.shape, f16, seed=1, device=device)
    out = tw.empty(key.shape, f16, device=device)

    def sample() -> tuple[Array, Array]:
        parts, every = spread(key.shape[1], 5, 512), slice(None)
        expected = []
        for part in parts:
            given = copied(x[every, part])
            expected.append(reference.dropout(given, SHARE, SEED, part.start))
        return np.stack([copied(out[every, part]) for part in parts]), np.stack(expected)

    return checked_trial(lambda: dropout(x, SHARE, seed=SEED, out=out), out, sample)


def _dropout_space(key: Key) -> Space:
    """Tiles as long as one batch of random numbers."""
    return Space.around(_DROPOUT(key, TARGET), **HINTS)


def _embedding(key: Key, device: tw.Device) -> Trial:
    rows, width = key.shape
    places = np.random.default_rng(1).integers(0, VOCABULARY, rows, np.int32)
    ids = tw.from_numpy(places, device=device)
    table = tw.randn((VOCABULARY, width), f16, seed=2, device=device)
    out = tw.empty((rows, width), f16, device=device)

    def exact(part: slice) -> Array:
        return np.stack([copied(table[int(place)]) for place in places[part]])

    return _by_rows(lambda: embedding(ids, table, out=out), out, exact)


_ADD_RMS_NORM = rule_by("add_rms_norm", row_config)
_CROSS_ENTROPY = rule_by("cross_entropy", logits_config)
_CROSS_ENTROPY_GRADIENT = rule_by("cross_entropy_gradient", element_config)
_DROPOUT = line_rule("dropout")
_EMBEDDING = rule_by("embedding", element_config)

# RMS norm of a sum, and the sum.
ADD_RMS_NORM = Tunable(
    name="add_rms_norm",
    kernels=(add_rms_norm_rows,),
    rule=_ADD_RMS_NORM,
    space=row_space(_ADD_RMS_NORM),
    keys=tuple(key_of(f16, (ROWS, width)) for width in WIDTHS),
    trial=_add_rms_norm,
    flush=True,
)
# Over the vocabulary of a model.
CROSS_ENTROPY = Tunable(
    name="cross_entropy",
    kernels=(cross_entropy_rows,),
    rule=_CROSS_ENTROPY,
    space=row_space(_CROSS_ENTROPY),
    keys=(key_of(f16, (ROWS, VOCABULARY)),),
    trial=_cross_entropy,
)
# Over the vocabulary of a model.
CROSS_ENTROPY_GRADIENT = Tunable(
    name="cross_entropy_gradient",
    kernels=(cross_entropy_gradient_rows,),
    rule=_CROSS_ENTROPY_GRADIENT,
    space=part_space(_CROSS_ENTROPY_GRADIENT),
    keys=(key_of(f16, (ROWS // 2, VOCABULARY)),),
    trial=_cross_entropy_gradient,
)
# With its random numbers.
DROPOUT = Tunable(
    name="dropout",
    kernels=(dropout_elements,),
    rule=_DROPOUT,
    space=_dropout_space,
    keys=(key_of(f16, (1, 8192 * 12288)),),
    trial=_dropout,
    flush=True,
)
# Rows of a model's table.
EMBEDDING = Tunable(
    name="embedding",
    kernels=(embedding_rows,),
    rule=_EMBEDDING,
    space=part_space(_EMBEDDING),
    keys=tuple(key_of(f16, (16384, width)) for width in (2560, 4096)),
    trial=_embedding,
    flush=True,
)

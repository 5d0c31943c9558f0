"""Epilogues of matrix products: bias, activation, residual, applied before the sums are stored.

An epilogue is inlined into each product. Its parts are chosen when the kernel is compiled; any
tensor of three axes replaces an unused one and is not read. Element-wise kernels of their own are
in `elements.pointwise`.
"""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import Partition, Tile, f32
from tilewright.kernels.arithmetic import gated, normal_share

__all__ = ["ACTIVATIONS", "BIAS", "FUNCTIONS", "OUT", "RESIDUAL", "finished"]


class OUT(tw.AnyDType):
    """dtype of the result."""


class BIAS(tw.AnyDType):
    """dtype of the bias."""


class RESIDUAL(tw.AnyDType):
    """dtype of the residual."""


def same(x: Tile[f32]) -> Tile[f32]:
    """`x`."""
    return x


def relu(x: Tile[f32]) -> Tile[f32]:
    """`max(x, 0)`."""
    return tw.maximum(x, 0.0, nan=True)


def silu(x: Tile[f32]) -> Any:
    """`x * sigmoid(x)`."""
    return gated(x, x)


# Activations by the name that a call gives.
ACTIVATIONS = {None: same, "relu": relu, "gelu": normal_share, "silu": silu}
# Activations by the number that a kernel is compiled for.
FUNCTIONS = tuple(ACTIVATIONS.values())


def finished(
    acc: Tile[f32],
    place: tuple[Any, Any, Any],
    bias: Partition[Any] | None,
    activation: int,
    residual: Partition[Any] | None,
) -> Tile[f32]:
    """`activation(acc + bias) + residual` of the tile at `[batch, rows, columns]`."""
    b, i, j = place
    rows, columns = acc.shape
    if bias is not None:
        acc += bias[0, 0, j].reshape(1, columns).astype(f32)
    acc = FUNCTIONS[activation](acc)
    if residual is not None:
        acc += residual[b, i, j].reshape(rows, columns).astype(f32)
    return acc

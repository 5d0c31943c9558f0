"""What a matrix product does to its sums before it stores them: bias, activation, residual.

These are parts of kernels, inlined into each product that has them. Which of them run is decided
when the kernel is compiled; in place of a tensor that is not wanted any other of three axes is
given, and is not read. Not kernels of their own: those of element-wise functions stand elsewhere.
"""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import Partition, Tile, f32
from tilewright.kernels.arithmetic import gated, normal_share

__all__ = ["ACTIVATIONS", "BIAS", "FUNCTIONS", "OUT", "RESIDUAL", "finished"]


class OUT(tw.AnyDType):
    """What the result is kept in."""


class BIAS(tw.AnyDType):
    """What the bias is kept in."""


class RESIDUAL(tw.AnyDType):
    """What the residual is kept in."""


def same(x: Tile[f32]) -> Tile[f32]:
    """`x`."""
    return x


def relu(x: Tile[f32]) -> Tile[f32]:
    """`max(x, 0)`."""
    return tw.maximum(x, 0.0, nan=True)


def silu(x: Tile[f32]) -> Any:
    """`x * sigmoid(x)`."""
    return gated(x, x)


# By the name that a call gives.
ACTIVATIONS = {None: same, "relu": relu, "gelu": normal_share, "silu": silu}
# By the number that a kernel is compiled for.
FUNCTIONS = tuple(ACTIVATIONS.values())


def finished(
    acc: Tile[f32],
    place: tuple[Any, Any, Any],
    bias: Partition[Any] | None,
    activation: int,
    residual: Partition[Any] | None,
) -> Tile[f32]:
    """`activation(acc + bias) + residual` of the tile at one place, `[batch, rows, columns]`."""
    b, i, j = place
    rows, columns = acc.shape
    if bias is not None:
        acc += bias[0, 0, j].reshape(1, columns).astype(f32)
    acc = FUNCTIONS[activation](acc)
    if residual is not None:
        acc += residual[b, i, j].reshape(rows, columns).astype(f32)
    return acc

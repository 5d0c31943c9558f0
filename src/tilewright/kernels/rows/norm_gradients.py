"""Gradients of RMS norm and layer norm.

Let `h` be the normalised row (before the weight), `g = dz * weight` and `r` the scale of the row.
Layer norm has `dx = r * (g - mean g - h * mean(g * h))`, `dweight = sum of dz * h` and `dbias = sum
of dz` over all rows; RMS norm lacks the mean of g, and the bias. The forward pass keeps nothing but
`x`.

A block takes ROWS rows, one after the other, and accumulates their contributions to the weights;
these partial sums are then summed over the blocks, always in the same order.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, f64
from tilewright.dims import M, N, T
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    given_outputs,
    giving,
    output,
    rows_of,
)
from tilewright.kernels.arithmetic import number, wide, wide_dtype
from tilewright.kernels.cutting import gradient_config
from tilewright.kernels.placeholders import ACC
from tilewright.kernels.rows.norms import centred, check_normed
from tilewright.kernels.rows.reductions import SUM, launch_reduction

__all__ = [
    "layer_norm_gradient",
    "layer_norm_gradient_rows",
    "rms_norm_gradient",
    "rms_norm_gradient_rows",
]


class ROWS(tw.Dim):
    """Rows of a block."""


class Inputs(NamedTuple):
    """Operands of a gradient, in tiles of one shape; the block's rows begin at tile `start`."""

    dzs: Any
    xs: Any
    weights: Any
    start: Any
    columns: Any
    eps: Any


def _mean(rows: Any, columns: Any) -> Any:
    return tw.sum(rows, axis=1, keepdims=True) / number(columns, rows.dtype)


def _whole_rows(dxs: Any, dweights: Any, dbiases: Any, of: Inputs, zeros: Any) -> None:
    """Gradients of rows that fit one tile, read once; sums for the weights stay in registers."""
    weight = wide(of.weights[0])
    by_weight, by_bias = zeros, zeros
    for k in range(dxs.num_tiles(0)):
        x, dz = of.xs[of.start + k, 0], wide(of.dzs[of.start + k, 0])
        rows = wide(x)
        if dbiases is not None:
            rows = centred(rows, _mean(rows, of.columns), of.columns)
        scale = tw.rsqrt(_mean(rows * rows, of.columns) + of.eps.astype(rows.dtype))
        h, g = rows * scale, dz * weight
        shift = h * _mean(g * h, of.columns)
        if dbiases is not None:
            shift += _mean(g, of.columns)
            by_bias += dz
        by_weight += dz * h
        dxs.store(((g - shift) * scale).astype(x.dtype), k, 0)
    dweights.store(tw.sum(by_weight, axis=0, keepdims=True), 0, 0)
    if dbiases is not None:
        dbiases.store(tw.sum(by_bias, axis=0, keepdims=True), 0, 0)


def _statistics(of: Inputs, at: Any, is_centred: bool, zeros: Any) -> tuple[Any, Any]:
    """Mean and scale of rows that come in parts."""
    sums, squares = zeros, zeros
    if is_centred:
        for j in range(of.xs.num_tiles(1)):
            sums += wide(of.xs[at, j])
    mean = _mean(sums, of.columns)
    for j in range(of.xs.num_tiles(1)):
        row = wide(of.xs[at, j])
        part = centred(row, mean, of.columns - j * row.shape[1])
        squares += part * part
    return mean, tw.rsqrt(_mean(squares, of.columns) + of.eps.astype(squares.dtype))


def _rows_in_parts(dxs: Any, dweights: Any, dbiases: Any, of: Inputs, zeros: Any) -> None:
    """Gradients of rows read again for each mean; sums for the weights accumulate in memory."""
    nothing = tw.sum(zeros, axis=0, keepdims=True)
    for j in range(dweights.num_tiles(1)):
        dweights.store(nothing, 0, j)
        if dbiases is not None:
            dbiases.store(nothing, 0, j)
    for k in range(dxs.num_tiles(0)):
        at = of.start + k
        mean, scale = _statistics(of, at, dbiases is not None, zeros)
        sums, products = zeros, zeros
        for j in range(of.xs.num_tiles(1)):
            h = (wide(of.xs[at, j]) - mean) * scale
            g = wide(of.dzs[at, j]) * wide(of.weights[j])
            sums += g
            products += g * h
        along, product = _mean(sums, of.columns), _mean(products, of.columns)
        for j in range(dxs.num_tiles(1)):
            x, dz = of.xs[at, j], wide(of.dzs[at, j])
            h = (wide(x) - mean) * scale
            shift = h * product
            dweights.store(dweights[0, j] + tw.sum(dz * h, axis=0, keepdims=True), 0, j)
            if dbiases is not None:
                shift += along
                dbiases.store(dbiases[0, j] + tw.sum(dz, axis=0, keepdims=True), 0, j)
            dxs.store(((dz * wide(of.weights[j]) - shift) * scale).astype(x.dtype), k, j)


@tw.kernel(deny_checks=True)
def rms_norm_gradient_rows(
    dx: Mut[T, Cut[M, ROWS], Cut[N, tw.All]],
    dweights: Mut[ACC, Literal[1], Cut[N, tw.All]],
    dz: Ref[T, M, N],
    x: Ref[T, M, N],
    weight: Ref[T, N],
    eps: f64,
    *,
    STEP: Const[int] = 1,
    PART: Const[int] = 1024,
    WHOLE: Const[bool] = False,
) -> None:
    """ROWS rows of `dx`, STEP at a time, PART columns at a time, and their part of `dweight`."""
    start = dx.index[0] * (ROWS // STEP)
    xs, dzs = x.partition(STEP, PART), dz.partition(STEP, PART)
    of = Inputs(dzs, xs, weight.partition(PART), start, N, eps)
    zeros = tw.zeros((STEP, PART), wide_dtype(dx.dtype))
    parts, sums = dx.partition(STEP, PART), dweights.partition(1, PART)
    if WHOLE:
        _whole_rows(parts, sums, None, of, zeros)
    else:
        _rows_in_parts(parts, sums, None, of, zeros)


@tw.kernel(deny_checks=True)
def layer_norm_gradient_rows(
    dx: Mut[T, Cut[M, ROWS], Cut[N, tw.All]],
    dweights: Mut[ACC, Literal[1], Cut[N, tw.All]],
    dbiases: Mut[ACC, Literal[1], Cut[N, tw.All]],
    dz: Ref[T, M, N],
    x: Ref[T, M, N],
    weight: Ref[T, N],
    eps: f64,
    *,
    STEP: Const[int] = 1,
    PART: Const[int] = 1024,
    WHOLE: Const[bool] = False,
) -> None:
    """`rms_norm_gradient_rows` of a layer norm, with the part of `dbias`."""
    start = dx.index[0] * (ROWS // STEP)
    xs, dzs = x.partition(STEP, PART), dz.partition(STEP, PART)
    of = Inputs(dzs, xs, weight.partition(PART), start, N, eps)
    zeros = tw.zeros((STEP, PART), wide_dtype(dx.dtype))
    parts, sums = dx.partition(STEP, PART), dweights.partition(1, PART)
    if WHOLE:
        _whole_rows(parts, sums, dbiases.partition(1, PART), of, zeros)
    else:
        _rows_in_parts(parts, sums, dbiases.partition(1, PART), of, zeros)


# --- functions of tensors -------------------------------------------------------------------------


@tw.function
def rms_norm_gradient(
    dz: tw.Tensor,
    x: tw.Tensor,
    weight: tw.Tensor,
    *,
    eps: float = 1e-6,
    out: tuple[tw.Tensor, tw.Tensor] | None = None,
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """The gradients of `x` and `weight` as a pair, from `dz`, the gradient of `rms_norm`'s result.

    `dz` has the shape of `x`, and `weight` one element for each column; all have one dtype.
    """
    given = given_outputs("rms_norm_gradient", out, 2)
    return _gradients("rms_norm_gradient", rms_norm_gradient_rows, (dz, x, weight), eps, given)


@tw.function
def layer_norm_gradient(
    dz: tw.Tensor,
    x: tw.Tensor,
    weight: tw.Tensor,
    *,
    eps: float = 1e-5,
    out: tuple[tw.Tensor, tw.Tensor, tw.Tensor] | None = None,
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor, tw.Tensor]]:
    """The gradients of `x`, `weight` and `bias`, from `dz`, the gradient of `layer_norm`'s result.

    `dz` has the shape of `x`, and `weight` one element for each column; all have one dtype.
    """
    given = given_outputs("layer_norm_gradient", out, 3)
    return _gradients("layer_norm_gradient", layer_norm_gradient_rows, (dz, x, weight), eps, given)


def _gradients(
    name: str,
    kernel: tw.Kernel,
    inputs: tuple[tw.Tensor, tw.Tensor, tw.Tensor],
    eps: float,
    out: tuple[tw.Tensor | None, ...],
) -> tw.DeviceOp[Any]:
    dz, x, weight = inputs
    rows = check_normed(name, x, eps, weight=weight)
    check_tensor(name, "dz", dz, (x.dtype,))
    check_extents(name, "dz", dz, x.shape)
    check_one_device(name, x=x, dz=dz)
    dx, *sums = (
        output(name, one, shape, x.dtype, x)
        for one, shape in zip(out, (x.shape, weight.shape, weight.shape), strict=False)
    )
    if not dx.size:
        return giving(tw.zip(*(tw.fill(one, 0) for one in sums)), (dx, *sums))
    config = gradient_config(name, rows)
    height, part = config["ROWS"], config["PART"]
    blocks = -(-rows.shape[0] // height)
    acc = f64 if x.dtype is f64 else f32
    partial = [tw.empty((blocks, *weight.shape), acc, device=x.device) for _ in sums]
    pieces = [one.partition(1, None) for one in partial]
    how = {"STEP": config["STEP"], "PART": part, "WHOLE": part >= rows.shape[1]}
    launch = config.applied_to(kernel)(
        rows_of(name, "out", dx).partition(height, None),
        *pieces,
        rows_of(name, "dz", dz),
        rows,
        weight,
        eps,
        **how,
    )

    def finish(_: object) -> tw.DeviceOp[Any]:
        return tw.zip(*(_summed(into, of) for into, of in zip(sums, partial, strict=True)))

    return giving(launch.then(finish), (dx, *sums))


def _summed(into: tw.Tensor, partial: tw.Tensor) -> tw.DeviceOp[Any]:
    """The sum over the blocks, in the dtype of the weights."""
    blocks, columns = partial.shape
    target, source = into.reshape(1, 1, columns), partial.reshape(1, blocks, columns)
    return launch_reduction(SUM, target, source, partial.dtype, 1)

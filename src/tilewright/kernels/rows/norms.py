"""RMS norm and layer norm along the last axis; RMS norm of a sum, with the sum as a second result.

Rows come in parts. The parts of a short row stay in registers, and the row is read once; a longer
row is read again for the result. Means and variances are f32 (f64 for f64). The gradients are in
`norm_gradients`.
"""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f64
from tilewright.dims import BM, M, N, T
from tilewright.kernels.arguments import (
    FLOATS,
    check_extents,
    check_one_device,
    check_tensor,
    given_outputs,
    giving,
    output,
    real_number,
    rows_of,
)
from tilewright.kernels.arithmetic import (
    afresh,
    kept,
    kept_line,
    number,
    once_more,
    quotient,
    wide,
    wide_dtype,
)
from tilewright.kernels.cutting import in_parts, keeps_wide, row_config

__all__ = [
    "add_rms_norm",
    "add_rms_norm_rows",
    "centred",
    "check_normed",
    "layer_norm",
    "layer_norm_rows",
    "rms_norm",
    "rms_norm_rows",
]


def _root_scale(squares: Any, columns: Any, eps: Any) -> Any:
    """`1 / sqrt(mean + eps)` along the last axis of squares; zeros behind the edge add nothing."""
    dtype = squares.dtype
    mean = tw.sum(squares, axis=1, keepdims=True) * quotient(1.0, number(columns, dtype))
    return tw.rsqrt(mean + eps.astype(dtype))


def _widened(row: Any) -> Any:
    """A kept row in its wide dtype."""
    parts: tuple[Any, ...] = ()
    for part in row:
        parts = (*parts, wide(part))
    return parts


def _total(row: Any) -> Any:
    """The sum of a kept row."""
    sums = wide(afresh(row[0]))
    for j in tw.static_range(1, len(row)):
        sums += wide(afresh(row[j]))
    return tw.sum(sums, axis=1, keepdims=True)


def _squares(row: Any) -> Any:
    """The sum of squares of a kept row, over its parts."""
    first = wide(afresh(row[0]))
    squares = first * first
    for j in tw.static_range(1, len(row)):
        part = wide(afresh(row[j]))
        squares += part * part
    return squares


def _centred_squares(row: Any, mean: Any, columns: Any, exact: bool) -> Any:
    """The sum of squares of `x - mean`; only the last part can exceed the row, unless EXACT."""
    squares = tw.zeros(row[0].shape, mean.dtype)
    for j in tw.static_range(len(row)):
        part = wide(once_more(row[j]))
        if exact or j < len(row) - 1:
            part -= mean
        else:
            part = centred(part, mean, columns - j * part.shape[1])
        squares += part * part
    return squares


def centred(rows: Any, mean: Any, columns: Any) -> Any:
    """`x - mean` of whole rows, and zero behind their edge."""
    inside = tw.arange(rows.shape[1]) < columns
    return tw.where(inside, rows - mean, 0.0)


def _store_kept(parts: Any, row: Any, scale: Any, weights: Any, dtype: Any) -> None:
    """A kept row, scaled, times the weights."""
    for j in tw.static_range(len(row)):
        parts.store((wide(row[j]) * scale * wide(weights[j])).astype(dtype), 0, j)


def _store_again(parts: Any, xs: Any, i: Any, scale: Any, weights: Any) -> None:
    """A row read again, scaled, times the weights."""
    for j in range(parts.num_tiles(1)):
        part = xs[i, j]
        parts.store((wide(part) * scale * wide(weights[j])).astype(part.dtype), 0, j)


@tw.kernel(deny_checks=True)
def rms_norm_rows(
    z: Mut[T, Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, M, N],
    weight: Ref[T, N],
    eps: f64,
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EXACT: Const[bool] = False,
) -> None:
    """`z = x / sqrt(mean x² + eps) * weight`, BM rows for each block, PART columns at a time.

    KEPT: the number of parts of a row if all stay in registers; 0: parts are read again. EXACT:
    tiles cover rows exactly.
    """
    i = z.index[0]
    xs, parts = x.partition(BM, PART, exact=EXACT), z.partition(BM, PART, exact=EXACT)
    weights = weight.partition(PART, exact=EXACT)
    if KEPT:
        tw.require(xs.num_tiles(1) == KEPT and parts.num_tiles(1) == KEPT)
        row, gains = kept(xs, i, KEPT), kept_line(weights, KEPT)
        _store_kept(parts, row, _root_scale(_squares(row), N, eps), gains, z.dtype)
    else:
        squares = tw.zeros((BM, PART), wide_dtype(z.dtype))
        for j in range(xs.num_tiles(1)):
            part = wide(xs[i, j])
            squares += part * part
        _store_again(parts, xs, i, _root_scale(squares, N, eps), weights)


@tw.kernel(deny_checks=True)
def add_rms_norm_rows(
    z: Mut[T, Cut[M, BM], Cut[N, tw.All]],
    total: Mut[T, Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, M, N],
    y: Ref[T, M, N],
    weight: Ref[T, N],
    eps: f64,
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EXACT: Const[bool] = False,
) -> None:
    """`total = x + y`, rounded, and `z` its RMS norm."""
    i = z.index[0]
    xs, ys = x.partition(BM, PART, exact=EXACT), y.partition(BM, PART, exact=EXACT)
    parts, sums = z.partition(BM, PART, exact=EXACT), total.partition(BM, PART, exact=EXACT)
    weights = weight.partition(PART, exact=EXACT)
    if KEPT:
        tw.require(xs.num_tiles(1) == KEPT and parts.num_tiles(1) == KEPT)
        tw.require(sums.num_tiles(1) == KEPT)
        row: tuple[Any, ...] = ()
        left, right, gains = kept(xs, i, KEPT), kept(ys, i, KEPT), kept_line(weights, KEPT)
        for j in tw.static_range(KEPT):
            row = (*row, (wide(left[j]) + wide(right[j])).astype(z.dtype))
            sums.store(row[j], 0, j)
        _store_kept(parts, row, _root_scale(_squares(row), N, eps), gains, z.dtype)
    else:
        squares = tw.zeros((BM, PART), wide_dtype(z.dtype))
        for j in range(sums.num_tiles(1)):
            rounded = (wide(xs[i, j]) + wide(ys[i, j])).astype(z.dtype)
            sums.store(rounded, 0, j)
            part = wide(rounded)
            squares += part * part
        _store_again(parts, sums, 0, _root_scale(squares, N, eps), weights)


@tw.kernel(deny_checks=True)
def layer_norm_rows(
    z: Mut[T, Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, M, N],
    weight: Ref[T, N],
    bias: Ref[T, N],
    eps: f64,
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EXACT: Const[bool] = False,
    WIDE: Const[bool] = False,
) -> None:
    """`z = (x - mean x) / sqrt(variance x + eps) * weight + bias`.

    WIDE: kept parts are widened once, which takes more registers and less arithmetic.
    """
    i = z.index[0]
    xs, parts = x.partition(BM, PART, exact=EXACT), z.partition(BM, PART, exact=EXACT)
    weights, biases = weight.partition(PART, exact=EXACT), bias.partition(PART, exact=EXACT)
    columns = number(N, wide_dtype(z.dtype))
    if KEPT:
        tw.require(xs.num_tiles(1) == KEPT and parts.num_tiles(1) == KEPT)
        row, gains, offsets = kept(xs, i, KEPT), kept_line(weights, KEPT), kept_line(biases, KEPT)
        if WIDE:
            row = _widened(row)
        mean = _total(row) * quotient(1.0, columns)
        scale = _root_scale(_centred_squares(row, mean, N, EXACT), N, eps)
        for j in tw.static_range(KEPT):
            part = (wide(row[j]) - mean) * scale * wide(gains[j]) + wide(offsets[j])
            parts.store(part.astype(z.dtype), 0, j)
    else:
        # Sums of differences from an approximate mean: their squares do not cancel.
        about = _first_mean(wide(xs[i, 0]), N)
        sums = tw.zeros((BM, PART), wide_dtype(z.dtype))
        squares = tw.zeros((BM, PART), wide_dtype(z.dtype))
        for j in range(xs.num_tiles(1)):
            part = centred(wide(xs[i, j]), about, N - j * PART)
            sums += part
            squares += part * part
        off = tw.sum(sums, axis=1, keepdims=True) / columns
        variance = tw.sum(squares, axis=1, keepdims=True) / columns - off * off
        scale = tw.rsqrt(variance + eps.astype(columns.dtype))
        mean = about + off
        for j in range(parts.num_tiles(1)):
            part = (wide(xs[i, j]) - mean) * scale * wide(weights[j]) + wide(biases[j])
            parts.store(part.astype(z.dtype), 0, j)


def _first_mean(part: Any, columns: Any) -> Any:
    """The mean of the first part of each row."""
    seen = min(columns, part.shape[1])
    return tw.sum(part, axis=1, keepdims=True) / number(seen, part.dtype)


# --- functions of tensors -------------------------------------------------------------------------


def check_normed(caller: str, x: tw.Tensor, eps: float, **weights: tw.Tensor) -> tw.Tensor:
    """Check the rows and their weights, one for each column."""
    check_tensor(caller, "x", x, FLOATS)
    rows = rows_of(caller, "x", x)
    for name, weight in weights.items():
        check_tensor(caller, name, weight, (x.dtype,))
        check_extents(caller, name, weight, x.shape[-1:])
    check_one_device(caller, x=x, **weights)
    if not real_number(caller, "eps", eps) >= 0:
        raise tw.LaunchError(f"`eps` of {caller} is added to a mean of squares: {eps} is below 0")
    return rows


@tw.function
def rms_norm(
    x: tw.Tensor, weight: tw.Tensor, *, eps: float = 1e-6, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """`x / sqrt(mean(x²) + eps) * weight` along the last axis.

    `x` has any number of axes, and `weight` one element for each column, in the dtype of `x`.
    """
    rows = check_normed("rms_norm", x, eps, weight=weight)
    z = output("rms_norm", out, x.shape, x.dtype, x)
    if not z.size:
        return tw.value(z, device=z.device)
    config = row_config("rms_norm", rows)
    pieces = rows_of("rms_norm", "out", z).partition(config["BM"], None)
    kernel, how = config.applied_to(rms_norm_rows), in_parts(config, rows)
    return giving(kernel(pieces, rows, weight, eps, **how), z)


@tw.function
def add_rms_norm(
    x: tw.Tensor,
    y: tw.Tensor,
    weight: tw.Tensor,
    *,
    eps: float = 1e-6,
    out: tuple[tw.Tensor, tw.Tensor] | None = None,
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """The RMS norm of `x + y` along the last axis, and `x + y` itself, as a pair.

    `x` and `y` have one shape, and `weight` one element for each column; all have one dtype. The
    sum is rounded to its dtype before it is normalised, so the norm belongs to the returned sum.
    """
    name = "add_rms_norm"
    rows = check_normed(name, x, eps, weight=weight)
    check_tensor(name, "y", y, (x.dtype,))
    check_extents(name, "y", y, x.shape)
    check_one_device(name, x=x, y=y)
    given = given_outputs(name, out, 2)
    z, total = (output(name, one, x.shape, x.dtype, x) for one in given)
    if not z.size:
        return tw.value((z, total), device=z.device)
    config = row_config(name, rows)
    pieces = (rows_of(name, "out", one).partition(config["BM"], None) for one in (z, total))
    kernel, how = config.applied_to(add_rms_norm_rows), in_parts(config, rows)
    return giving(kernel(*pieces, rows, rows_of(name, "y", y), weight, eps, **how), (z, total))


@tw.function
def layer_norm(
    x: tw.Tensor,
    weight: tw.Tensor,
    bias: tw.Tensor,
    *,
    eps: float = 1e-5,
    out: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:
    """`(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias` along the last axis.

    `x` has any number of axes; `weight` and `bias` have one element for each column, in its dtype.
    """
    rows = check_normed("layer_norm", x, eps, weight=weight, bias=bias)
    z = output("layer_norm", out, x.shape, x.dtype, x)
    if not z.size:
        return tw.value(z, device=z.device)
    config = row_config("layer_norm", rows)
    pieces = rows_of("layer_norm", "out", z).partition(config["BM"], None)
    kernel = config.applied_to(layer_norm_rows)
    how = in_parts(config, rows) | {"WIDE": keeps_wide(config)}
    return giving(kernel(pieces, rows, weight, bias, eps, **how), z)

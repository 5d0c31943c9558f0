"""RMS norm and layer norm along the last axis; RMS norm of a sum, with the sum as a second result.

Rows come in parts. The parts of a short row stay in registers, and the row is read once; a longer
row is read again for the result. Means and variances are f32 (f64 for f64). The gradients are in
`norm_gradients`.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f64
from tilewright.dims import BM, K, L, M, N, T
from tilewright.kernels.arguments import (
    FLOATS,
    check_extents,
    check_one_device,
    check_tensor,
    given_outputs,
    giving,
    has_few_axes,
    output,
    real_number,
    rows_together,
)
from tilewright.kernels.arithmetic import (
    ALL,
    NONE,
    Cutting,
    afresh,
    all_parts,
    has_mask,
    kept,
    kept_line,
    number,
    once_more,
    part_at,
    parted,
    parted_output,
    quotient,
    require_parts,
    store_part,
    weight_at,
    whole_parts,
    wide,
    wide_dtype,
)
from tilewright.kernels.cutting import keeps_wide, row_config, weights_of
from tilewright.kernels.elements.dense import densely
from tilewright.kernels.rows.launching import launch_rows
from tilewright.tune import Config

__all__ = [
    "add_rms_norm",
    "add_rms_norm_rows",
    "add_rms_norm_strided",
    "centred",
    "check_normed",
    "layer_norm",
    "layer_norm_rows",
    "layer_norm_strided",
    "rms_norm",
    "rms_norm_rows",
    "rms_norm_strided",
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


def _centred_squares(row: Any, mean: Any, columns: Any, edges: int) -> Any:
    """The sum of squares of `x - mean`; only the last part can exceed the row."""
    squares = tw.zeros(row[0].shape, mean.dtype)
    for j in tw.static_range(len(row)):
        part = wide(once_more(row[j]))
        if edges == NONE or j < len(row) - 1:
            part -= mean
        else:
            part = centred(part, mean, columns - j * part.shape[1])
        squares += part * part
    return squares


def centred(rows: Any, mean: Any, columns: Any) -> Any:
    """`x - mean` of whole rows, and zero behind their edge."""
    inside = tw.arange(rows.shape[1]) < columns
    return tw.where(inside, rows - mean, 0.0)


def _store_kept(parts: Any, row: Any, scale: Any, gains: Any, weights: Any) -> None:
    """A kept row, scaled, times the weights."""
    for j in tw.static_range(len(row)):
        gain = weight_at(gains, weights, j, len(row))
        part = (wide(row[j]) * scale * wide(gain)).astype(row[j].dtype)
        store_part(parts, part, j, has_mask(parts.edges, j, len(row)))


def _store_again(parts: Any, xs: Any, i: Any, scale: Any, weights: Any) -> None:
    """A row read again, scaled, times the weights."""
    for j in range(whole_parts(xs)):
        _store_scaled(parts, (xs, weights), (i, j), scale, masked=False)
    if xs.edges != NONE:
        for j in range(whole_parts(xs), all_parts(xs)):
            _store_scaled(parts, (xs, weights), (i, j), scale, masked=True)


def _store_scaled(parts: Any, of: Any, at: Any, scale: Any, masked: bool) -> None:
    """One part read again, scaled, times the weights."""
    part, weight = part_at(of[0], at, masked), part_at(of[1], at[1:], masked)
    store_part(parts, (wide(part) * scale * wide(weight)).astype(part.dtype), at[1], masked)


def _rms_norm(z: Any, x: Any, i: Any, weight: Any, eps: Any, by: Cutting) -> None:
    """The RMS norm of rows i of a matrix."""
    tile, columns = (by.height, by.part), x.shape[1]
    xs, parts = parted(x, tile, by.edges), parted_output(z, tile, by.edges)
    weights = parted(weight, tile[1:], by.edges)
    if by.kept:
        require_parts(parts, by.kept)
        require_parts(xs, by.kept)
        row, gains = kept(xs, i, by.kept), kept_line(weights, by.kept, by.late)
        _store_kept(parts, row, _root_scale(_squares(row), columns, eps), gains, weights)
    else:
        squares = tw.zeros(tile, wide_dtype(x.dtype))
        for j in range(whole_parts(xs)):
            part = wide(xs.whole[i, j])
            squares += part * part
        if by.edges != NONE:
            for j in range(whole_parts(xs), all_parts(xs)):
                part = wide(xs.edge[i, j])
                squares += part * part
        _store_again(parts, xs, i, _root_scale(squares, columns, eps), weights)


@tw.kernel(deny_checks=True)
def rms_norm_rows(
    z: Mut[T, Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, M, N],
    weight: Ref[T, N],
    eps: f64,
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    LATE: Const[bool] = False,
) -> None:
    """`z = x / sqrt(mean x² + eps) * weight`, BM rows for each block, PART columns at a time.

    KEPT: the number of parts of a row if all stay in registers; 0: parts are read again. EDGES:
    parts with a mask, NONE, the LAST of each row or ALL. LATE: weights are read after the row is
    summed, which takes fewer registers.
    """
    _rms_norm(z, x, z.index[0], weight, eps, Cutting(BM, PART, KEPT, EDGES, LATE))


@tw.kernel(deny_checks=True)
def rms_norm_strided(
    z: Mut[T, Cut[K, Literal[1]], Cut[L, Literal[1]], Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, K, L, M, N],
    weight: Ref[T, N],
    eps: f64,
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    LATE: Const[bool] = False,
) -> None:
    """`rms_norm_rows` of rows with three axes, which have a stride each."""
    k, h, i, _ = z.index
    _rms_norm(z[k, h], x[k, h], i, weight, eps, Cutting(BM, PART, KEPT, EDGES, LATE))


def _add_rms_norm(outs: Any, ins: Any, i: Any, weight: Any, eps: Any, by: Cutting) -> None:
    """The sum of rows i of two matrices, and its RMS norm."""
    tile, columns = (by.height, by.part), ins[0].shape[1]
    xs, ys = parted(ins[0], tile, by.edges), parted(ins[1], tile, by.edges)
    parts, sums = (parted_output(outs[0], tile, by.edges), parted_output(outs[1], tile, by.edges))
    weights = parted(weight, tile[1:], by.edges)
    if by.kept:
        require_parts(parts, by.kept)
        require_parts(xs, by.kept)
        require_parts(sums, by.kept)
        row: tuple[Any, ...] = ()
        left, right = kept(xs, i, by.kept), kept(ys, i, by.kept)
        gains = kept_line(weights, by.kept, by.late)
        for j in tw.static_range(by.kept):
            row = (*row, (wide(left[j]) + wide(right[j])).astype(left[j].dtype))
            store_part(sums, row[j], j, has_mask(by.edges, j, by.kept))
        _store_kept(parts, row, _root_scale(_squares(row), columns, eps), gains, weights)
    else:
        squares = tw.zeros(tile, wide_dtype(weight.dtype))
        for j in range(whole_parts(sums)):
            squares += _add_part(sums, (xs, ys), (i, j), masked=False)
        if by.edges != NONE:
            for j in range(whole_parts(sums), all_parts(sums)):
                squares += _add_part(sums, (xs, ys), (i, j), masked=True)
        _store_again(parts, sums, 0, _root_scale(squares, columns, eps), weights)


def _add_part(sums: Any, of: Any, at: Any, masked: bool) -> Any:
    """The squares of one part of the sum, which is stored."""
    left, right = part_at(of[0], at, masked), part_at(of[1], at, masked)
    rounded = (wide(left) + wide(right)).astype(left.dtype)
    store_part(sums, rounded, at[1], masked)
    part = wide(rounded)
    return part * part


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
    EDGES: Const[int] = ALL,
    LATE: Const[bool] = False,
) -> None:
    """`total = x + y`, rounded, and `z` its RMS norm."""
    by = Cutting(BM, PART, KEPT, EDGES, LATE)
    _add_rms_norm((z, total), (x, y), z.index[0], weight, eps, by)


@tw.kernel(deny_checks=True)
def add_rms_norm_strided(
    z: Mut[T, Cut[K, Literal[1]], Cut[L, Literal[1]], Cut[M, BM], Cut[N, tw.All]],
    total: Mut[T, Cut[K, Literal[1]], Cut[L, Literal[1]], Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, K, L, M, N],
    y: Ref[T, K, L, M, N],
    weight: Ref[T, N],
    eps: f64,
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    LATE: Const[bool] = False,
) -> None:
    """`add_rms_norm_rows` of rows with three axes, which have a stride each."""
    k, h, i, _ = z.index
    by = Cutting(BM, PART, KEPT, EDGES, LATE)
    _add_rms_norm((z[k, h], total[k, h]), (x[k, h], y[k, h]), i, weight, eps, by)


def _layer_norm(z: Any, x: Any, i: Any, of: Any, eps: Any, by: Cutting, wider: bool) -> None:
    """The layer norm of rows i of a matrix; `of` are the weights and the biases."""
    tile, columns = (by.height, by.part), x.shape[1]
    xs, parts = parted(x, tile, by.edges), parted_output(z, tile, by.edges)
    weights, biases = parted(of[0], tile[1:], by.edges), parted(of[1], tile[1:], by.edges)
    if by.kept:
        require_parts(parts, by.kept)
        require_parts(xs, by.kept)
        row, gains = kept(xs, i, by.kept), kept_line(weights, by.kept, by.late)
        offsets = kept_line(biases, by.kept, by.late)
        if wider:
            row = _widened(row)
        mean = _total(row) * quotient(1.0, number(columns, wide_dtype(x.dtype)))
        scale = _root_scale(_centred_squares(row, mean, columns, by.edges), columns, eps)
        for j in tw.static_range(by.kept):
            gain = wide(weight_at(gains, weights, j, by.kept))
            part = (wide(row[j]) - mean) * scale * gain
            part += wide(weight_at(offsets, biases, j, by.kept))
            store_part(parts, part.astype(x.dtype), j, has_mask(by.edges, j, by.kept))
    else:
        found = _statistics(xs, i, columns, eps, by)
        for j in range(whole_parts(xs)):
            _store_normed(parts, (xs, weights, biases), (i, j), found, masked=False)
        if by.edges != NONE:
            for j in range(whole_parts(xs), all_parts(xs)):
                _store_normed(parts, (xs, weights, biases), (i, j), found, masked=True)


def _statistics(xs: Any, i: Any, columns: Any, eps: Any, by: Cutting) -> tuple[Any, Any]:
    """Mean and scale of rows that are not kept.

    Sums are those of differences from an approximate mean: their squares do not cancel.
    """
    first = wide(xs.edge[i, 0])
    seen = number(tw.minimum(columns, by.part), first.dtype)
    about = tw.sum(first, axis=1, keepdims=True) / seen
    sums, squares = tw.zeros(first.shape, first.dtype), tw.zeros(first.shape, first.dtype)
    for j in range(whole_parts(xs)):
        part = wide(xs.whole[i, j]) - about
        sums += part
        squares += part * part
    if by.edges != NONE:
        for j in range(whole_parts(xs), all_parts(xs)):
            part = centred(wide(xs.edge[i, j]), about, columns - j * by.part)
            sums += part
            squares += part * part
    count = number(columns, first.dtype)
    off = tw.sum(sums, axis=1, keepdims=True) / count
    variance = tw.sum(squares, axis=1, keepdims=True) / count - off * off
    return about + off, tw.rsqrt(variance + eps.astype(first.dtype))


def _store_normed(parts: Any, of: Any, at: Any, found: Any, masked: bool) -> None:
    """One part read again, normed by its mean and scale, times the weights, plus the biases."""
    part, (mean, scale) = part_at(of[0], at, masked), found
    gain, offset = part_at(of[1], at[1:], masked), part_at(of[2], at[1:], masked)
    normed = (wide(part) - mean) * scale * wide(gain) + wide(offset)
    store_part(parts, normed.astype(part.dtype), at[1], masked)


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
    EDGES: Const[int] = ALL,
    LATE: Const[bool] = False,
    WIDE: Const[bool] = False,
) -> None:
    """`z = (x - mean x) / sqrt(variance x + eps) * weight + bias`.

    WIDE: kept parts are widened once, which takes more registers and less arithmetic.
    """
    by = Cutting(BM, PART, KEPT, EDGES, LATE)
    _layer_norm(z, x, z.index[0], (weight, bias), eps, by, WIDE)


@tw.kernel(deny_checks=True)
def layer_norm_strided(
    z: Mut[T, Cut[K, Literal[1]], Cut[L, Literal[1]], Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, K, L, M, N],
    weight: Ref[T, N],
    bias: Ref[T, N],
    eps: f64,
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    LATE: Const[bool] = False,
    WIDE: Const[bool] = False,
) -> None:
    """`layer_norm_rows` of rows with three axes, which have a stride each."""
    k, h, i, _ = z.index
    by = Cutting(BM, PART, KEPT, EDGES, LATE)
    _layer_norm(z[k, h], x[k, h], i, (weight, bias), eps, by, WIDE)


# --- functions of tensors -------------------------------------------------------------------------


def check_normed(caller: str, x: tw.Tensor, eps: float, **weights: tw.Tensor) -> None:
    """Check the rows and their weights, one for each column."""
    check_tensor(caller, "x", x, FLOATS)
    if not x.ndim:
        raise tw.LaunchError(f"{caller} works along the last axis, and `x` has none")
    for name, weight in weights.items():
        check_tensor(caller, name, weight, (x.dtype,))
        check_extents(caller, name, weight, x.shape[-1:])
    check_one_device(caller, x=x, **weights)
    if not real_number(caller, "eps", eps) >= 0:
        raise tw.LaunchError(f"`eps` of {caller} is added to a mean of squares: {eps} is below 0")


@tw.function
def rms_norm(
    x: tw.Tensor, weight: tw.Tensor, *, eps: float = 1e-6, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """`x / sqrt(mean(x²) + eps) * weight` along the last axis.

    `x` has any number of axes, and `weight` one element for each column, in the dtype of `x`.
    """
    check_normed("rms_norm", x, eps, weight=weight)
    z = output("rms_norm", out, x.shape, x.dtype, x)
    if not z.size:
        return tw.value(z, device=z.device)
    if not has_few_axes(x, z):
        return densely(x, lambda copy: rms_norm(copy, weight, eps=eps, out=z))
    rows, target = rows_together("rms_norm", x=x, out=z)
    config = row_config("rms_norm", rows, target)
    kernels = (rms_norm_rows, rms_norm_strided)
    launch = launch_rows(kernels, config, (target,), (rows,), weight, eps, more=weights_of)
    return giving(launch, z)


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
    check_normed(name, x, eps, weight=weight)
    check_tensor(name, "y", y, (x.dtype,))
    check_extents(name, "y", y, x.shape)
    check_one_device(name, x=x, y=y)
    given = given_outputs(name, out, 2)
    z, total = (output(name, one, x.shape, x.dtype, x) for one in given)
    if not z.size:
        return tw.value((z, total), device=z.device)
    both = (z, total)
    if not has_few_axes(x, y, *both):
        return densely(x, lambda copy: add_rms_norm(copy, y, weight, eps=eps, out=both))
    if not has_few_axes(y, x, *both):
        return densely(y, lambda copy: add_rms_norm(x, copy, weight, eps=eps, out=both))
    *ins, target, sums = rows_together(name, x=x, y=y, out=z, total=total)
    config = row_config(name, *ins, target, sums)
    kernels = (add_rms_norm_rows, add_rms_norm_strided)
    launch = launch_rows(kernels, config, (target, sums), ins, weight, eps, more=weights_of)
    return giving(launch, (z, total))


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
    check_normed("layer_norm", x, eps, weight=weight, bias=bias)
    z = output("layer_norm", out, x.shape, x.dtype, x)
    if not z.size:
        return tw.value(z, device=z.device)
    if not has_few_axes(x, z):
        return densely(x, lambda copy: layer_norm(copy, weight, bias, eps=eps, out=z))
    rows, target = rows_together("layer_norm", x=x, out=z)
    config = row_config("layer_norm", rows, target)
    kernels = (layer_norm_rows, layer_norm_strided)
    launch = launch_rows(kernels, config, (target,), (rows,), weight, bias, eps, more=_wider)
    return giving(launch, z)


def _wider(config: Config, x: tw.Tensor) -> dict[str, int]:
    """Constants of a layer norm beside those of its parts."""
    return weights_of(config, x) | {"WIDE": keeps_wide(config)}

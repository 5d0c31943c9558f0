"""Gradients of RMS norm and layer norm.

Let `h` be the normalised row (before the weight), `g = dz * weight` and `r` the scale of the row.
Layer norm has `dx = r * (g - mean g - h * mean(g * h))`, `dweight = sum of dz * h` and `dbias = sum
of dz` over all rows; RMS norm lacks the mean of g, and the bias. The forward pass keeps nothing but
`x`.

A first kernel walks rows, for `dx`, and keeps the mean and the scale of each row; a second one
walks columns, for the weights. Its blocks take spans of the rows, whose sums are then summed,
always in the same order.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, f64
from tilewright.dims import BK, BM, M, N, S, T
from tilewright.kernels.arguments import (
    check_extents,
    check_one_device,
    check_tensor,
    given_outputs,
    giving,
    output,
    rows_of,
)
from tilewright.kernels.arithmetic import (
    ALL,
    LAST,
    NONE,
    Cutting,
    all_parts,
    has_mask,
    kept,
    kept_line,
    number,
    part_at,
    parted,
    parted_output,
    require_parts,
    store_part,
    weight_at,
    whole_parts,
    wide,
    wide_dtype,
)
from tilewright.kernels.cutting import (
    column_config,
    in_parts,
    row_config,
    row_spans,
    weights_of,
)
from tilewright.kernels.elements.dense import densely, has_rows
from tilewright.kernels.placeholders import ACC
from tilewright.kernels.rows.launching import side_by_side
from tilewright.kernels.rows.norms import centred, check_normed
from tilewright.kernels.rows.reductions import SUM, launch_reduction

__all__ = [
    "layer_norm_gradient",
    "norm_gradient_columns",
    "norm_gradient_rows",
    "rms_norm_gradient",
]


def _mean(rows: Any, columns: Any) -> Any:
    return tw.sum(rows, axis=1, keepdims=True) / number(columns, rows.dtype)


def _without_mean(part: Any, mean: Any, left: Any, masked: bool) -> Any:
    """`x - mean` of a part, and zero behind the edge, `left` columns away."""
    if mean is None:
        return part
    return centred(part, mean, left) if masked else part - mean


def _statistics(row: Any, columns: Any, eps: Any, is_centred: bool, edges: int) -> Any:
    """The mean of kept rows, or None, and their scale."""
    zeros = tw.zeros(row[0].shape, wide_dtype(row[0].dtype))
    mean, squares = None, zeros
    if is_centred:
        sums = zeros
        for part in row:
            sums += wide(part)
        mean = _mean(sums, columns)
    for j in tw.static_range(len(row)):
        left, masked = columns - j * zeros.shape[1], edges != NONE and j == len(row) - 1
        part = _without_mean(wide(row[j]), mean, left, masked)
        squares += part * part
    return mean, tw.rsqrt(_mean(squares, columns) + eps.astype(squares.dtype))


def _statistics_again(xs: Any, i: Any, columns: Any, eps: Any, of: Any) -> Any:
    """The mean of rows that are not kept, or None, and their scale."""
    zeros, is_centred = of
    mean, squares = None, zeros
    if is_centred:
        sums = zeros
        for j in range(whole_parts(xs)):
            sums += wide(xs.whole[i, j])
        if xs.edges != NONE:
            for j in range(whole_parts(xs), all_parts(xs)):
                sums += wide(xs.edge[i, j])
        mean = _mean(sums, columns)
    for j in range(whole_parts(xs)):
        part = _without_mean(wide(xs.whole[i, j]), mean, columns, masked=False)
        squares += part * part
    if xs.edges != NONE:
        for j in range(whole_parts(xs), all_parts(xs)):
            left = columns - j * zeros.shape[1]
            part = _without_mean(wide(xs.edge[i, j]), mean, left, masked=True)
            squares += part * part
    return mean, tw.rsqrt(_mean(squares, columns) + eps.astype(squares.dtype))


def _terms(x: Any, dz: Any, weight: Any, found: Any) -> tuple[Any, Any]:
    """The normed part h, and g."""
    mean, scale = found
    rows = wide(x) if mean is None else wide(x) - mean
    return rows * scale, wide(dz) * wide(weight)


def _dx(h: Any, g: Any, along: Any, shift: Any, scale: Any) -> Any:
    """The gradient of a part, from the means of `g * h` and of g."""
    rest = g - h * along
    return (rest if shift is None else rest - shift) * scale


class GradientRows(NamedTuple):
    """Operands of rows i in parts: `x`, `dz` and the weights, and how they are cut."""

    xs: Any
    dzs: Any
    weights: Any
    i: Any
    columns: Any
    cut: Cutting


def _means(products: Any, sums: Any, columns: Any, is_centred: bool) -> tuple[Any, Any]:
    """The means of `g * h` and, for layer norm, of g."""
    return _mean(products, columns), _mean(sums, columns) if is_centred else None


def _kept_gradients(dxs: Any, of: GradientRows, eps: Any, is_centred: bool) -> Any:
    """Write the gradients of rows in registers; their mean and scale."""
    count, edges = of.cut.kept, of.cut.edges
    require_parts(dxs, count)
    require_parts(of.xs, count)
    row, dz = kept(of.xs, of.i, count), kept(of.dzs, of.i, count)
    gains = kept_line(of.weights, count, of.cut.late)
    found = _statistics(row, of.columns, eps, is_centred, edges)
    h, g = _terms(row[0], dz[0], weight_at(gains, of.weights, 0, count), found)
    products, sums = g * h, g
    for j in tw.static_range(1, count):
        h, g = _terms(row[j], dz[j], weight_at(gains, of.weights, j, count), found)
        products += g * h
        sums += g
    along, shift = _means(products, sums, of.columns, is_centred)
    for j in tw.static_range(count):
        h, g = _terms(row[j], dz[j], weight_at(gains, of.weights, j, count), found)
        part = _dx(h, g, along, shift, found[1]).astype(row[j].dtype)
        store_part(dxs, part, j, has_mask(edges, j, count))
    return found


def _terms_at(of: GradientRows, j: Any, found: Any, masked: bool) -> tuple[Any, Any]:
    """`_terms` of one part of rows that are not kept."""
    x, dz = part_at(of.xs, (of.i, j), masked), part_at(of.dzs, (of.i, j), masked)
    return _terms(x, dz, part_at(of.weights, (j,), masked), found)


def _gradients_again(dxs: Any, of: GradientRows, eps: Any, is_centred: bool, dtype: Any) -> Any:
    """Write the gradients of rows that are read again for each mean; their mean and scale."""
    zeros = tw.zeros((of.cut.height, of.cut.part), wide_dtype(dtype))
    found = _statistics_again(of.xs, of.i, of.columns, eps, (zeros, is_centred))
    products, sums = zeros, zeros
    for j in range(whole_parts(of.xs)):
        h, g = _terms_at(of, j, found, masked=False)
        products += g * h
        sums += g
    if of.cut.edges != NONE:
        for j in range(whole_parts(of.xs), all_parts(of.xs)):
            h, g = _terms_at(of, j, found, masked=True)
            products += g * h
            sums += g
    along, shift = _means(products, sums, of.columns, is_centred)
    for j in range(whole_parts(of.xs)):
        h, g = _terms_at(of, j, found, masked=False)
        store_part(dxs, _dx(h, g, along, shift, found[1]).astype(dtype), j, masked=False)
    if of.cut.edges != NONE:
        for j in range(whole_parts(of.xs), all_parts(of.xs)):
            h, g = _terms_at(of, j, found, masked=True)
            store_part(dxs, _dx(h, g, along, shift, found[1]).astype(dtype), j, masked=True)
    return found


@tw.kernel(deny_checks=True)
def norm_gradient_rows(
    dx: Mut[T, Cut[M, BM], Cut[N, tw.All]],
    means: Mut[ACC, Cut[M, BM]],
    scales: Mut[ACC, Cut[M, BM]],
    x: Ref[T, M, N],
    dz: Ref[T, M, N],
    weight: Ref[T, N],
    eps: f64,
    *,
    CENTRED: Const[bool] = False,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    LATE: Const[bool] = False,
) -> None:
    """The gradient of BM rows, PART columns at a time, and the mean and the scale of each row.

    CENTRED: of a layer norm; otherwise of an RMS norm, whose means are zero. KEPT: the number of
    parts of a row if all stay in registers; 0: parts are read again. EDGES: parts with a mask,
    NONE, the LAST of each row or ALL. LATE: weights are read when they are needed.
    """
    tile = (BM, PART)
    xs, dzs = parted(x, tile, EDGES), parted(dz, tile, EDGES)
    weights, parts = parted(weight, tile[1:], EDGES), parted_output(dx, tile, EDGES)
    of = GradientRows(xs, dzs, weights, dx.index[0], N, Cutting(BM, PART, KEPT, EDGES, LATE))
    if KEPT:
        mean, scale = _kept_gradients(parts, of, eps, CENTRED)
    else:
        mean, scale = _gradients_again(parts, of, eps, CENTRED, dx.dtype)
    mean = mean if CENTRED else tw.zeros((BM, 1), scale.dtype)
    means.partition(BM, exact=EDGES != ALL).store(mean.reshape(BM), 0)
    scales.partition(BM, exact=EDGES != ALL).store(scale.reshape(BM), 0)


def _summed(of: Any, j: Any, tiles: Any, zeros: Any, whole: bool) -> tuple[Any, Any]:
    """Sums of `dz * h` and of `dz` over some tiles of rows, of the columns of tile j."""
    xs, dzs, means, scales = of
    by_weight, by_bias = zeros, zeros
    for k in range(tiles[0], tiles[1]):
        dz, rows = wide(part_at(dzs, (k, j), not whole)), (zeros.shape[0], 1)
        mean = part_at(means, (k,), not whole).reshape(rows)
        scale = part_at(scales, (k,), not whole).reshape(rows)
        by_weight += dz * ((wide(part_at(xs, (k, j), not whole)) - mean) * scale)
        by_bias += dz
    return by_weight, by_bias


@tw.kernel(deny_checks=True)
def norm_gradient_columns(
    dweights: Mut[ACC, Cut[S, Literal[1]], Cut[N, BK]],
    dbiases: Mut[ACC, Cut[S, Literal[1]], Cut[N, BK]],
    x: Ref[T, M, N],
    dz: Ref[T, M, N],
    means: Ref[ACC, M],
    scales: Ref[ACC, M],
    *,
    PART: Const[int] = 16,
    SPAN: Const[int] = 1,
) -> None:
    """Sums of `dz * h` and of `dz` over SPAN tiles of PART rows, BK columns for each block."""
    tw.require(dweights.shape[0] == tw.cdiv(M, PART * SPAN))
    s, j = dweights.index
    tile = (PART, BK)
    xs, dzs = parted(x, tile, LAST), parted(dz, tile, LAST)
    of = (xs, dzs, parted(means, (PART,), LAST), parted(scales, (PART,), LAST))
    zeros = tw.zeros(tile, dweights.dtype)
    end = tw.minimum((s + 1) * SPAN, xs.edge.num_tiles(0))
    if j < N // BK:
        inside = tw.minimum(end, xs.whole.num_tiles(0))
        by_weight, by_bias = _summed(of, j, (s * SPAN, inside), zeros, whole=True)
        rest = tw.maximum(s * SPAN, xs.whole.num_tiles(0))
        more, biases = _summed(of, j, (rest, end), zeros, whole=False)
        by_weight, by_bias = by_weight + more, by_bias + biases
    else:
        by_weight, by_bias = _summed(of, j, (s * SPAN, end), zeros, whole=False)
    dweights.store(tw.sum(by_weight, axis=0, keepdims=True))
    dbiases.store(tw.sum(by_bias, axis=0, keepdims=True))


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
    return _gradients("rms_norm_gradient", (dz, x, weight), eps, given)


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
    return _gradients("layer_norm_gradient", (dz, x, weight), eps, given)


def _gradients(
    name: str,
    inputs: tuple[tw.Tensor, tw.Tensor, tw.Tensor],
    eps: float,
    out: tuple[tw.Tensor | None, ...],
) -> tw.DeviceOp[Any]:
    dz, x, weight = inputs
    check_normed(name, x, eps, weight=weight)
    check_tensor(name, "dz", dz, (x.dtype,))
    check_extents(name, "dz", dz, x.shape)
    check_one_device(name, x=x, dz=dz)
    dx, *sums = (
        output(name, one, shape, x.dtype, x)
        for one, shape in zip(out, (x.shape, weight.shape, weight.shape), strict=False)
    )
    if not dx.size:
        return giving(tw.zip(*(tw.fill(one, 0) for one in sums)), (dx, *sums))
    if not has_rows(x):
        return densely(x, lambda copy: _gradients(name, (dz, copy, weight), eps, (dx, *sums)))
    if not has_rows(dz):
        return densely(dz, lambda copy: _gradients(name, (copy, x, weight), eps, (dx, *sums)))
    rows, slopes = rows_of(name, "x", x), rows_of(name, "dz", dz)
    acc = f64 if x.dtype is f64 else f32
    found = [tw.empty(rows.shape[:1], acc, device=x.device) for _ in range(2)]
    target = rows_of(name, "out", dx)
    first = _of_rows(name, (target, *found), (rows, slopes), weight, eps, len(sums) > 1)
    second = first.then(lambda _: _of_columns(name, sums, rows, slopes, found))
    return giving(second, (dx, *sums))


def _of_rows(
    name: str,
    outs: tuple[tw.Tensor, ...],
    ins: tuple[tw.Tensor, tw.Tensor],
    weight: tw.Tensor,
    eps: float,
    is_centred: bool,
) -> tw.DeviceOp[Any]:
    """The gradient of `x`, and the mean and the scale of every row."""
    config = row_config(name, *ins, outs[0])
    launches = []
    for by, (x, dz, dx, mean, scale) in row_spans(config, *ins, *outs):
        pieces = (dx.partition(by["BM"], None), mean.partition(by["BM"]), scale.partition(by["BM"]))
        how = in_parts(by, x) | weights_of(by, x) | {"CENTRED": is_centred}
        launches.append(by.applied_to(norm_gradient_rows)(*pieces, x, dz, weight, eps, **how))
    return side_by_side(launches)


def _of_columns(
    name: str, sums: list[tw.Tensor], x: tw.Tensor, dz: tw.Tensor, found: list[tw.Tensor]
) -> tw.DeviceOp[Any]:
    """The gradients of the weights, from the mean and the scale of every row."""
    config = column_config(name, x.unsqueeze(0), dz.unsqueeze(0))
    height, columns = config["PART"] * config["SPAN"], x.shape[1]
    spans = -(-len(x) // height)
    partial = [tw.empty((spans, columns), found[0].dtype, device=x.device) for _ in range(2)]
    pieces = [one.partition(1, config["BK"]) for one in partial]
    how = {"PART": config["PART"], "SPAN": config["SPAN"]}
    launch = config.applied_to(norm_gradient_columns)(*pieces, x, dz, *found, **how)

    def finish(_: object) -> tw.DeviceOp[Any]:
        pairs = zip(sums, partial, strict=False)
        return tw.zip(*(_over_spans(into, of) for into, of in pairs))

    return launch.then(finish)


def _over_spans(into: tw.Tensor, partial: tw.Tensor) -> tw.DeviceOp[Any]:
    """The sum over the spans of rows, in the dtype of the weights."""
    spans, columns = partial.shape
    target, source = into.reshape(1, 1, columns), partial.reshape(1, spans, columns)
    return launch_reduction(SUM, target, source, partial.dtype, 1)

"""Softmax along the last axis, and the cross-entropy of logits with its gradient.

Rows come in parts. The parts of a short row stay in registers, and the row is read once. A longer
row updates its maximum and its sum of powers together, part by part, and is read again for the
result.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, f64
from tilewright.dims import BM, BN, K, L, M, N, T
from tilewright.kernels.arguments import (
    FLOATS,
    INDICES,
    check_extents,
    check_one_device,
    check_tensor,
    given_outputs,
    giving,
    has_few_axes,
    output,
    reshaped,
    rows_of,
    rows_together,
)
from tilewright.kernels.arithmetic import (
    ALL,
    LN_2,
    LOG2_E,
    NONE,
    Cutting,
    all_parts,
    has_mask,
    in_lanes,
    kept,
    lies_inside,
    part_at,
    parted,
    parted_output,
    power_of_2,
    quotient,
    require_parts,
    store_part,
    store_whole,
    whole_at,
    whole_parts,
    wide,
    wide_dtype,
)
from tilewright.kernels.cutting import (
    element_config,
    in_parts,
    lanes_of,
    logits_config,
    row_config,
    row_spans,
)
from tilewright.kernels.elements.dense import densely, has_rows
from tilewright.kernels.rows.launching import launch_rows, side_by_side

__all__ = [
    "cross_entropy",
    "cross_entropy_gradient",
    "cross_entropy_gradient_rows",
    "cross_entropy_rows",
    "softmax",
    "softmax_rows",
    "softmax_strided",
]


LOWEST_32, LOWEST_64 = -3e38, -1e308


class LABEL(tw.AnyDType):
    """Integer dtype of class labels."""


def _lowest(dtype: Any) -> float:
    """The exponent of a row of -inf: finite, so that differences of exponents are defined."""
    return LOWEST_64 if dtype == f64 else LOWEST_32


def _exponent(highest: Any) -> Any:
    """The shift of the exponents for a given highest element."""
    return tw.maximum(highest * LOG2_E, _lowest(highest.dtype))


def _powers(part: Any, shift: Any) -> Any:
    return power_of_2(part * LOG2_E - shift)


def _highest(part: Any) -> Any:
    """The highest element of each lane."""
    return tw.max(tw.max(part, axis=3), axis=1)


def _sum(part: Any) -> Any:
    return tw.sum(tw.sum(part, axis=3), axis=1)


def _joined(exponent: Any, total: Any, other: Any, other_total: Any) -> tuple[Any, Any]:
    """Combine two sums of powers, each relative to its own exponent."""
    higher = tw.maximum(exponent, other)
    total = total * power_of_2(exponent - higher) + other_total * power_of_2(other - higher)
    return higher, total


def _over_lanes(exponents: Any, totals: Any) -> tuple[Any, Any]:
    """Exponents and sums of rows, from those of their lanes; threads synchronise only once."""
    nothing = (_lowest(exponents.dtype), 0.0)
    exponent, total = tw.reduce((exponents, totals), _joined, nothing, axis=1)
    return exponent[:, None], total[:, None]


def _kept_powers(row: Any) -> tuple[Any, Any, Any]:
    """Powers of all parts of a row, relative to the exponents; exponents and sums of its lanes."""
    highest = _highest(row[0])
    for j in tw.static_range(1, len(row)):
        highest = tw.maximum(highest, _highest(row[j]))
    exponents = _exponent(highest)
    shift = exponents[:, None, :, None]
    powers: tuple[Any, ...] = ()
    totals = tw.zeros(exponents.shape, exponents.dtype)
    for part in row:
        power = _powers(part, shift)
        powers, totals = (*powers, power), totals + _sum(power)
    return powers, exponents, totals


def _in_lanes(part: Any, lanes: Any) -> Any:
    """A part, widened, in the lanes of its threads."""
    return in_lanes(wide(part), lanes)


def _kept_lanes(parts: Any, i: Any, count: int, lanes: Any) -> Any:
    """All parts of rows i in lanes, widened, in registers."""
    row: tuple[Any, ...] = ()
    for part in kept(parts, i, count):
        row = (*row, _in_lanes(part, lanes))
    return row


def _with(exponents: Any, totals: Any, part: Any) -> tuple[Any, Any]:
    """Exponents and sums of lanes with one part more; the sums follow the exponents."""
    higher = tw.maximum(exponents, _exponent(_highest(part)))
    now = _sum(_powers(part, higher[:, None, :, None]))
    return higher, totals * power_of_2(exponents - higher) + now


def _summed(xs: Any, i: Any, rows: Any, lanes: Any, dtype: Any) -> tuple[Any, Any]:
    """Exponents and sums of the lanes of rows that are not kept."""
    shape = (rows, lanes[0])
    exponents, totals = tw.full(shape, _lowest(dtype), dtype), tw.zeros(shape, dtype)
    for j in range(whole_parts(xs)):
        exponents, totals = _with(exponents, totals, _in_lanes(xs.whole[i, j], lanes))
    if xs.edges != NONE:
        for j in range(whole_parts(xs), all_parts(xs)):
            exponents, totals = _with(exponents, totals, _in_lanes(xs.edge[i, j], lanes))
    return exponents, totals


def _softmax(z: Any, x: Any, i: Any, by: Cutting, lanes: Any) -> None:
    """The softmax of rows i of a matrix."""
    tile = (by.height, by.part)
    xs, parts = parted(x, tile, by.edges, -math.inf), parted_output(z, tile, by.edges)
    if by.kept:
        require_parts(xs, by.kept)
        require_parts(parts, by.kept)
        powers, exponents, totals = _kept_powers(_kept_lanes(xs, i, by.kept, lanes))
        exponent, total = _over_lanes(exponents, totals)
        share = quotient(power_of_2(exponents - exponent), total)[:, None, :, None]
        for j in tw.static_range(by.kept):
            part = (powers[j] * share).astype(x.dtype).reshape(tile)
            store_part(parts, part, j, has_mask(by.edges, j, by.kept))
    else:
        exponents, totals = _summed(xs, i, by.height, lanes, wide_dtype(x.dtype))
        exponent, total = _over_lanes(exponents, totals)
        for j in range(whole_parts(xs)):
            _store_shares(parts, xs, (i, j), (exponent, total), masked=False)
        if by.edges != NONE:
            for j in range(whole_parts(xs), all_parts(xs)):
                _store_shares(parts, xs, (i, j), (exponent, total), masked=True)


def _store_shares(parts: Any, xs: Any, at: Any, found: Any, masked: bool) -> None:
    """One part read again, as shares of the sum."""
    part, (exponent, total) = part_at(xs, at, masked), found
    shares = _powers(wide(part), exponent) * quotient(1.0, total)
    store_part(parts, shares.astype(part.dtype), at[1], masked)


@tw.kernel(deny_checks=True)
def softmax_rows(
    z: Mut[T, Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, M, N],
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    LANES: Const[int] = 1,
    NEIGHBOURS: Const[int] = 1,
) -> None:
    """`z = exp(x - max x) / sum exp(x - max x)`, BM rows for each block, PART columns at a time.

    KEPT: the number of parts of a row if all stay in registers; 0: parts are read again. EDGES:
    parts with a mask, NONE, the LAST of each row or ALL. LANES: threads of a row, each with
    NEIGHBOURS elements in one load.
    """
    _softmax(z, x, z.index[0], Cutting(BM, PART, KEPT, EDGES), (LANES, NEIGHBOURS))


@tw.kernel(deny_checks=True)
def softmax_strided(
    z: Mut[T, Cut[K, Literal[1]], Cut[L, Literal[1]], Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, K, L, M, N],
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    LANES: Const[int] = 1,
    NEIGHBOURS: Const[int] = 1,
) -> None:
    """`softmax_rows` of rows with three axes, which have a stride each."""
    k, h, i, _ = z.index
    _softmax(z[k, h], x[k, h], i, Cutting(BM, PART, KEPT, EDGES), (LANES, NEIGHBOURS))


@tw.kernel(deny_checks=True)
def cross_entropy_rows(
    loss: Mut[f32, Cut[M, BM]],
    log_sum: Mut[f32, Cut[M, BM]],
    x: Ref[T, M, N],
    labels: Ref[LABEL, M],
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    LANES: Const[int] = 1,
    NEIGHBOURS: Const[int] = 1,
) -> None:
    """`log_sum = log sum exp x` of each row, and `loss = log_sum - x[label]`.

    A label outside the columns has no loss.
    """
    i = loss.index[0]
    xs, lanes = parted(x, (BM, PART), EDGES, -math.inf), (LANES, NEIGHBOURS)
    if KEPT:
        require_parts(xs, KEPT)
        _, exponents, totals = _kept_powers(_kept_lanes(xs, i, KEPT, lanes))
    else:
        exponents, totals = _summed(xs, i, BM, lanes, wide_dtype(x.dtype))
    exponent, total = _over_lanes(exponents, totals)
    log = ((exponent + tw.log2(total)) * LN_2).astype(f32).reshape(BM)
    label = labels.partition(BM, exact=EDGES != ALL)[i]
    rows = i * BM + tw.arange(BM)
    known = (label >= 0) & (label.astype(tw.i64) < tw.i64(N))
    picked = x.gather(rows, label).astype(f32)
    loss.partition(BM, exact=EDGES != ALL).store(tw.where(known, log - picked, 0.0), 0)
    log_sum.partition(BM, exact=EDGES != ALL).store(log, 0)


def _gradient(x: Any, of_rows: Any, columns: Any, classes: Any) -> Any:
    """The gradient of a tile, from the label, the logarithm and the gradient of each row."""
    rows = x.shape[0]
    label, log = of_rows[0].reshape(rows, 1).astype(tw.i64), of_rows[1].reshape(rows, 1)
    known = (label >= 0) & (label < tw.i64(classes))
    scale = tw.where(known, of_rows[2].reshape(rows, 1), 0.0)
    share = power_of_2((x.astype(f32) - log) * LOG2_E)
    return ((share - (columns == label).astype(f32)) * scale).astype(x.dtype)


@tw.kernel(deny_checks=True)
def cross_entropy_gradient_rows(
    dx: Mut[T, Cut[M, BM], Cut[N, BN]],
    x: Ref[T, M, N],
    labels: Ref[LABEL, M],
    log_sum: Ref[f32, M],
    dloss: Ref[f32, M],
) -> None:
    """`dx = (softmax x - [column is label]) * dloss`, and zero for a label outside the columns."""
    i, j = dx.index
    columns = (j * BN + tw.arange(BN)).astype(tw.i64)
    if lies_inside(dx, dx.index):
        one = (labels.partition(BM, whole=True)[i], log_sum.partition(BM, whole=True)[i])
        scale = dloss.partition(BM, whole=True)[i]
        store_whole(dx, _gradient(whole_at(x, dx.index, dx), (*one, scale), columns, N))
    else:
        one = (labels.partition(BM)[i], log_sum.partition(BM)[i])
        dx.store(_gradient(x.load_like(dx), (*one, dloss.partition(BM)[i]), columns, N))


# --- functions of tensors -------------------------------------------------------------------------


@tw.function
def softmax(x: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """`exp(x) / sum exp(x)` along the last axis, with no overflow.

    A row of -inf alone, or with +inf, gives NaN.
    """
    check_tensor("softmax", "x", x, FLOATS)
    z = output("softmax", out, x.shape, x.dtype, x)
    if not x.ndim:
        raise tw.LaunchError("softmax works along the last axis, and `x` has none")
    if not z.size:
        return tw.value(z, device=z.device)
    if not has_few_axes(x, z):
        return densely(x, lambda copy: softmax(copy, out=z))
    rows, target = rows_together("softmax", x=x, out=z)
    config = row_config("softmax", rows, target)
    kernels = (softmax_rows, softmax_strided)
    return giving(launch_rows(kernels, config, (target,), (rows,), more=lanes_of), z)


@tw.function
def cross_entropy(
    logits: tw.Tensor,
    labels: tw.Tensor,
    *,
    out: tuple[tw.Tensor, tw.Tensor] | None = None,
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """The loss `log sum exp x - x[label]` of each row of logits, and `log sum exp x`; both f32.

    `labels` has the shape of `logits` without its last axis. A label that is no class, such as
    -100, has loss 0. `cross_entropy_gradient` takes the second result.
    """
    name = "cross_entropy"
    check_tensor(name, "logits", logits, FLOATS[:3])
    if not has_rows(logits):
        return densely(logits, lambda copy: cross_entropy(copy, labels, out=out))
    rows, classes = _classified(name, logits, labels)
    shape = labels.shape
    given = given_outputs(name, out, 2)
    loss, log_sum = (output(name, one, shape, f32, logits) for one in given)
    if not rows.size:
        return giving(tw.zip(tw.fill(loss, 0.0), tw.fill(log_sum, -math.inf)), (loss, log_sum))
    config = logits_config(name, rows)
    lines = [_line(name, "out", one) for one in (loss, log_sum)]
    launches = []
    for by, (x, label, *into) in row_spans(config, rows, classes, *lines):
        pieces = [one.partition(by["BM"]) for one in into]
        how = in_parts(by, x) | lanes_of(by, x)
        launches.append(by.applied_to(cross_entropy_rows)(*pieces, x, label, **how))
    return giving(side_by_side(launches), (loss, log_sum))


@tw.function
def cross_entropy_gradient(
    logits: tw.Tensor,
    labels: tw.Tensor,
    log_sum: tw.Tensor,
    dloss: tw.Tensor,
    *,
    out: tw.Tensor | None = None,
) -> tw.DeviceOp[tw.Tensor]:
    """The gradient of the logits, `(softmax x - [class is label]) * dloss`.

    `log_sum` is the second result of `cross_entropy`, and `dloss` the gradient of its first: both
    f32 and of the shape of `labels`. Rows whose label is no class get zeros.
    """
    name = "cross_entropy_gradient"
    check_tensor(name, "logits", logits, FLOATS[:3])
    if not has_rows(logits):
        rest = (labels, log_sum, dloss)
        return densely(logits, lambda copy: cross_entropy_gradient(copy, *rest, out=out))
    rows, classes = _classified(name, logits, labels)
    for what, tensor in (("log_sum", log_sum), ("dloss", dloss)):
        check_tensor(name, what, tensor, (f32,))
        check_extents(name, what, tensor, labels.shape)
    check_one_device(name, logits=logits, log_sum=log_sum, dloss=dloss)
    dx = output(name, out, logits.shape, logits.dtype, logits)
    if not dx.size:
        return tw.value(dx, device=dx.device)
    target = rows_of(name, "out", dx)
    config = element_config(name, rows, target)
    pieces = target.partition(config["BM"], config["PART"])
    kernel = config.applied_to(cross_entropy_gradient_rows)
    weights = (_line(name, "log_sum", log_sum), _line(name, "dloss", dloss))
    launch = kernel(pieces, rows, classes, *weights)
    return giving(launch, dx)


def _classified(name: str, logits: tw.Tensor, labels: tw.Tensor) -> tuple[tw.Tensor, tw.Tensor]:
    """Logits as rows, with one label each."""
    check_tensor(name, "labels", labels, INDICES)
    check_one_device(name, logits=logits, labels=labels)
    rows = rows_of(name, "logits", logits)
    check_extents(name, "labels", labels, logits.shape[:-1])
    return rows, _line(name, "labels", labels)


def _line(caller: str, name: str, tensor: tw.Tensor) -> tw.Tensor:
    """All elements along one axis."""
    return reshaped(caller, name, tensor, (tensor.size,))

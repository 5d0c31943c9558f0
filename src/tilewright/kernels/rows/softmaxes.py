"""Softmax along the last axis, and the cross-entropy of logits with its gradient.

Rows come in parts. The parts of a short row stay in registers, and the row is read once. A longer
row updates its maximum and its sum of powers together, part by part, and is read again for the
result.
"""

from __future__ import annotations

import math
from typing import Any

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, f64
from tilewright.dims import BM, BN, M, N, T
from tilewright.kernels.arguments import (
    FLOATS,
    INDICES,
    check_extents,
    check_one_device,
    check_tensor,
    given_outputs,
    giving,
    output,
    reshaped,
    rows_of,
)
from tilewright.kernels.arithmetic import (
    LN_2,
    LOG2_E,
    in_lanes,
    power_of_2,
    quotient,
    wide,
    wide_dtype,
)
from tilewright.kernels.cutting import element_config, in_parts, lanes_of, logits_config, row_config

__all__ = [
    "cross_entropy",
    "cross_entropy_gradient",
    "cross_entropy_gradient_rows",
    "cross_entropy_rows",
    "softmax",
    "softmax_rows",
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


def _kept_lanes(parts: Any, i: Any, count: int, lanes: int) -> Any:
    """The first parts of rows i in lanes, widened, all in registers."""
    row: tuple[Any, ...] = ()
    for j in tw.static_range(count):
        part = parts[i, j]
        row = (*row, in_lanes(wide(part), lanes, part.dtype))
    return row


def _summed(xs: Any, i: Any, shape: Any, dtype: Any) -> tuple[Any, Any]:
    """Exponents and sums of the lanes of rows that are not kept; the sums follow the exponents."""
    exponents = tw.full(shape, _lowest(dtype), dtype)
    totals = tw.zeros(shape, dtype)
    for j in range(xs.num_tiles(1)):
        part = xs[i, j]
        part = in_lanes(wide(part), shape[1], part.dtype)
        higher = tw.maximum(exponents, _highest(part) * LOG2_E)
        now = _sum(_powers(part, higher[:, None, :, None]))
        exponents, totals = higher, totals * power_of_2(exponents - higher) + now
    return exponents, totals


@tw.kernel(deny_checks=True)
def softmax_rows(
    z: Mut[T, Cut[M, BM], Cut[N, tw.All]],
    x: Ref[T, M, N],
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    LANES: Const[int] = 1,
    EXACT: Const[bool] = False,
) -> None:
    """`z = exp(x - max x) / sum exp(x - max x)`, BM rows for each block, PART columns at a time.

    KEPT: the number of parts of a row if all stay in registers; 0: parts are read again. LANES:
    threads of a row. EXACT: tiles cover rows exactly.
    """
    i = z.index[0]
    xs = x.partition(BM, PART, padding=-math.inf, exact=EXACT)
    parts = z.partition(BM, PART, exact=EXACT)
    if KEPT:
        tw.require(xs.num_tiles(1) == KEPT and parts.num_tiles(1) == KEPT)
        powers, exponents, totals = _kept_powers(_kept_lanes(xs, i, KEPT, LANES))
        exponent, total = _over_lanes(exponents, totals)
        share = quotient(power_of_2(exponents - exponent), total)[:, None, :, None]
        for j in tw.static_range(KEPT):
            parts.store((powers[j] * share).astype(z.dtype).reshape(BM, PART), 0, j)
    else:
        exponent, total = _over_lanes(*_summed(xs, i, (BM, LANES), wide_dtype(z.dtype)))
        share = quotient(1.0, total)
        for j in range(parts.num_tiles(1)):
            parts.store((_powers(wide(xs[i, j]), exponent) * share).astype(z.dtype), 0, j)


@tw.kernel(deny_checks=True)
def cross_entropy_rows(
    loss: Mut[f32, Cut[M, BM]],
    log_sum: Mut[f32, Cut[M, BM]],
    x: Ref[T, M, N],
    labels: Ref[LABEL, M],
    *,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    LANES: Const[int] = 1,
    EXACT: Const[bool] = False,
) -> None:
    """`log_sum = log sum exp x` of each row, and `loss = log_sum - x[label]`.

    A label outside the columns has no loss.
    """
    i = loss.index[0]
    xs = x.partition(BM, PART, padding=-math.inf, exact=EXACT)
    if KEPT:
        tw.require(xs.num_tiles(1) == KEPT)
        _, exponents, totals = _kept_powers(_kept_lanes(xs, i, KEPT, LANES))
    else:
        exponents, totals = _summed(xs, i, (BM, LANES), wide_dtype(x.dtype))
    exponent, total = _over_lanes(exponents, totals)
    log = ((exponent + tw.log2(total)) * LN_2).astype(f32).reshape(BM)
    label = labels.partition(BM)[i]
    rows = i * BM + tw.arange(BM)
    known = (label >= 0) & (label.astype(tw.i64) < tw.i64(N))
    loss.store(tw.where(known, log - x.gather(rows, label).astype(f32), 0.0))
    log_sum.store(log)


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
    label = labels.partition(BM)[i].reshape(BM, 1).astype(tw.i64)
    log = log_sum.partition(BM)[i].reshape(BM, 1)
    scale = dloss.partition(BM)[i].reshape(BM, 1)
    scale = tw.where((label >= 0) & (label < tw.i64(N)), scale, 0.0)
    columns = (j * BN + tw.arange(BN)).astype(tw.i64)
    share = power_of_2((x.load_like(dx).astype(f32) - log) * LOG2_E)
    dx.store(((share - (columns == label).astype(f32)) * scale).astype(dx.dtype))


# --- functions of tensors -------------------------------------------------------------------------


@tw.function
def softmax(x: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """`exp(x) / sum exp(x)` along the last axis, with no overflow.

    A row of -inf alone, or with +inf, gives NaN.
    """
    check_tensor("softmax", "x", x, FLOATS)
    z = output("softmax", out, x.shape, x.dtype, x)
    rows, result = rows_of("softmax", "x", x), rows_of("softmax", "out", z)
    if not z.size:
        return tw.value(z, device=z.device)
    config = row_config("softmax", rows)
    pieces, kernel = result.partition(config["BM"], None), config.applied_to(softmax_rows)
    how = in_parts(config, rows) | {"LANES": lanes_of(config, rows)}
    return giving(kernel(pieces, rows, **how), z)


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
    rows, classes = _classified(name, logits, labels)
    shape = labels.shape
    given = given_outputs(name, out, 2)
    loss, log_sum = (output(name, one, shape, f32, logits) for one in given)
    if not rows.size:
        return giving(tw.zip(tw.fill(loss, 0.0), tw.fill(log_sum, -math.inf)), (loss, log_sum))
    config = logits_config(name, rows)
    pieces = (_line(name, "out", one).partition(config["BM"]) for one in (loss, log_sum))
    kernel = config.applied_to(cross_entropy_rows)
    how = in_parts(config, rows) | {"LANES": lanes_of(config, rows)}
    launch = kernel(*pieces, rows, classes, **how)
    return giving(launch, (loss, log_sum))


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
    rows, classes = _classified(name, logits, labels)
    for what, tensor in (("log_sum", log_sum), ("dloss", dloss)):
        check_tensor(name, what, tensor, (f32,))
        check_extents(name, what, tensor, labels.shape)
    check_one_device(name, logits=logits, log_sum=log_sum, dloss=dloss)
    dx = output(name, out, logits.shape, logits.dtype, logits)
    if not dx.size:
        return tw.value(dx, device=dx.device)
    config = element_config(name, rows)
    pieces = rows_of(name, "out", dx).partition(config["BM"], config["PART"])
    kernel = config.applied_to(cross_entropy_gradient_rows)
    weights = (_line(name, "log_sum", log_sum), _line(name, "dloss", dloss))
    launch = kernel(pieces, rows, classes, *weights)
    return giving(launch, dx)


def _classified(name: str, logits: tw.Tensor, labels: tw.Tensor) -> tuple[tw.Tensor, tw.Tensor]:
    """Logits as rows, with one label each."""
    check_tensor(name, "logits", logits, FLOATS[:3])
    check_tensor(name, "labels", labels, INDICES)
    check_one_device(name, logits=logits, labels=labels)
    rows = rows_of(name, "logits", logits)
    check_extents(name, "labels", labels, logits.shape[:-1])
    return rows, _line(name, "labels", labels)


def _line(caller: str, name: str, tensor: tw.Tensor) -> tw.Tensor:
    """All elements along one axis."""
    return reshaped(caller, name, tensor, (tensor.size,))

"""Running sums along an axis.

A block walks its span of a row part by part and carries the sum along. Where there are too few
rows, rows are split into spans: the sums of the spans come first, then the running sums of those,
then the running sums within each span, starting from the sum before it. Along other axes, blocks
take columns.
"""

from __future__ import annotations

from math import prod
from typing import Any

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref
from tilewright.dims import BK, BL, BM, K, L, M, N, S, T
from tilewright.kernels.arguments import (
    FLOATS,
    INTEGERS,
    axis_of,
    check_tensor,
    giving,
    output,
    three_axes,
)
from tilewright.kernels.arithmetic import afresh
from tilewright.kernels.cutting import are_exact, column_config, scan_config
from tilewright.kernels.elements.dense import can_be, densely
from tilewright.kernels.large_tiles import on_cpu
from tilewright.kernels.placeholders import ACC, FROM
from tilewright.kernels.rows.reductions import SUM, reduce_rows, sum_dtype

__all__ = ["cumsum", "scan_columns", "scan_rows"]

GROUP = 8  # consecutive elements of a row in one thread


class SPAN(tw.Dim):
    """Elements of a row in one block."""


def _behind(total: Any, _: Any, next_total: Any, next_before: Any) -> tuple[Any, Any]:
    """Combine two spans: their sum, and the sum before the last group of the second."""
    return total + next_total, total + next_before


def _running(part: Any, carry: Any, dtype: Any, grouped: bool) -> Any:
    """Running sums along rows on top of `carry`, in the dtype of `carry`.

    The first scan runs within groups, each in one thread, the second over groups. Elements are
    converted as groups, so they stay in the threads that loaded them. A CPU has no such threads.
    """
    rows, columns = part.shape
    if columns <= GROUP or not grouped:
        return (tw.cumsum(part.astype(carry.dtype), axis=1) + carry).astype(dtype)
    groups = part.reshape(rows, columns // GROUP, GROUP)
    totals = tw.sum(afresh(groups).astype(carry.dtype), axis=2)
    nothing = tw.zeros(totals.shape, totals.dtype)
    _, before = tw.scan((totals, nothing), _behind, (0, 0), axis=1)
    sums = tw.cumsum(groups.astype(carry.dtype), axis=2) + (before + carry)[:, :, None]
    return sums.astype(dtype).reshape(rows, columns)


@tw.kernel(deny_checks=True)
def scan_rows(
    z: Mut[T, Cut[M, BM], Cut[N, SPAN]],
    x: Ref[FROM, M, N],
    sums: Ref[ACC, M, S],
    *,
    PART: Const[int] = 1024,
    EXACT: Const[bool] = False,
    GROUPED: Const[bool] = True,
) -> None:
    """`z[m, n] = x[m, 0] + … + x[m, n]`; `sums[m, s]` is the sum of the spans up to s.

    EXACT: parts cover rows exactly. GROUPED: threads scan groups of elements.
    """
    i, s = z.index
    xs, parts = x.partition(BM, PART, exact=EXACT), z.partition(BM, PART, exact=EXACT)
    rows = i * BM + tw.arange(BM)
    carry = sums.gather(rows, s - 1).reshape(BM, 1)  # the first span reads index -1: zero
    if SPAN == PART:
        parts.store(_running(xs[i, s], carry, z.dtype, GROUPED), 0, 0)
    else:
        for j in range(parts.num_tiles(1)):
            part = xs[i, s * (SPAN // PART) + j]
            parts.store(_running(part, carry, z.dtype, GROUPED), 0, j)
            carry += tw.sum(part.astype(carry.dtype), axis=1, keepdims=True)


@tw.kernel(deny_checks=True)
def scan_columns(
    z: Mut[T, Cut[L, BL], Cut[N, tw.All], Cut[K, BK]], x: Ref[FROM, L, N, K],
    *, ACC: Const[type[tw.DType]], PART: Const[int] = 16,
) -> None:  # fmt: skip
    """`scan_rows` along the second of three axes, BL by BK of the others for each block."""
    i, _, k = z.index
    xs, parts = x.partition(BL, PART, BK), z.partition(BL, PART, BK)
    carry = tw.zeros((BL, 1, BK), ACC)
    for j in range(parts.num_tiles(1)):
        part = xs[i, j, k].astype(ACC)
        parts.store((tw.cumsum(part, axis=1) + carry).astype(z.dtype), 0, j, 0)
        carry += tw.sum(part, axis=1, keepdims=True)


# --- functions of tensors -------------------------------------------------------------------------


@tw.function
def cumsum(x: tw.Tensor, axis: int = -1, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """The inclusive running sum along an axis.

    Floats keep their dtype and are summed in f32 (f64 in f64); integers give i64 or u64.
    """
    check_tensor("cumsum", "x", x, (*INTEGERS, *FLOATS))
    place = axis_of("cumsum", x, axis)
    if not can_be(x, (prod(x.shape[:place]), x.shape[place], prod(x.shape[place + 1 :]))):
        return densely(x, lambda copy: cumsum(copy, axis, out=out))
    acc = sum_dtype(x.dtype)
    z = output("cumsum", out, x.shape, x.dtype if x.dtype in FLOATS else acc, x)
    if not z.size:
        return tw.value(z, device=z.device)
    source, target = (three_axes("cumsum", name, t, place) for name, t in (("x", x), ("out", z)))
    if source.shape[2] == 1:
        return giving(_along_rows(target.squeeze(2), source.squeeze(2), acc), z)
    config = column_config("cumsum", source)
    pieces = target.partition(config.values.get("BL", 1), None, config["BK"])
    kernel = config.applied_to(scan_columns)
    return giving(kernel(pieces, source, ACC=acc, PART=config["PART"]), z)


def _along_rows(z: tw.Tensor, x: tw.Tensor, acc: type[tw.DType]) -> tw.DeviceOp[Any]:
    rows, columns = x.shape
    config = scan_config("cumsum", x)
    height, part, span = (config[name] for name in ("BM", "PART", "SPAN"))
    spans = -(-columns // (part * span))
    sums = tw.empty((rows, spans), acc, device=x.device)

    def scan(starts: tw.Tensor) -> tw.DeviceOp[Any]:
        pieces, exact = z.partition(height, part * span), are_exact(x, height, part)
        how = {"PART": part, "EXACT": exact, "GROUPED": not on_cpu(x)}
        return config.applied_to(scan_rows)(pieces, x, starts, **how)

    if spans == 1:
        return scan(sums)
    how = {"KIND": SUM, "ACC": acc, "PART": part, "SPAN": span}
    first = reduce_rows(sums.partition(height, 1), x, 0, 1.0, **how)
    return first.then(lambda _: cumsum(sums)).then(scan)

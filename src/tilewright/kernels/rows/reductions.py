"""Sum, mean, maximum and minimum along one axis or of all elements.

A reduction along rows combines neighbours in memory; one along columns has neighbours that belong
to different results. Each block takes a span of the reduced axis, or whole rows where there are
enough of them; several partial results of one result are reduced once more.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, f64, i64, u64
from tilewright.dims import BK, BM, K, L, M, N, T
from tilewright.kernels.arguments import (
    FLOATS,
    INTEGERS,
    LONGEST,
    axis_of,
    check_tensor,
    giving,
    output,
    reshaped,
    rows_of,
    three_axes,
)
from tilewright.kernels.cutting import are_exact, column_config, span_config
from tilewright.kernels.elements.copying import convert
from tilewright.kernels.large_tiles import on_cpu
from tilewright.kernels.placeholders import FROM

__all__ = [
    "MAX",
    "MEAN",
    "MIN",
    "SUM",
    "launch_reduction",
    "max",
    "mean",
    "min",
    "reduce_columns",
    "reduce_rows",
    "reduce_whole_rows",
    "sum",
    "sum_dtype",
]

SUM, MEAN, MAX, MIN = range(4)  # kinds of reduction, as kernel constants
NAMES = ("sum", "mean", "max", "min")
SIGNED = INTEGERS[:4]
MANY = 8  # matrices that a tile of the CPU has room for, from which on they are reduced as rows
AT_ONCE = 4  # tiles of a row that are loaded without a loop


def _combined(kind: int, a: Any, b: Any) -> Any:
    """Combine two partial results; a NaN is both the highest and the lowest."""
    if kind <= MEAN:
        return a + b
    if a.dtype == f32 or a.dtype == f64:
        return tw.maximum(a, b, nan=True) if kind == MAX else tw.minimum(a, b, nan=True)
    return tw.maximum(a, b) if kind == MAX else tw.minimum(a, b)


def _finished(kind: int, kept: Any, scale: Any) -> Any:
    """A tile of partial results reduced along its second axis."""
    if kind == SUM:
        return tw.sum(kept, axis=1, keepdims=True)
    if kind == MEAN:
        return tw.sum(kept, axis=1, keepdims=True) * scale.astype(kept.dtype)
    if kept.dtype == f32 or kept.dtype == f64:
        if kind == MAX:
            return tw.max(kept, axis=1, keepdims=True, nan=True)
        return tw.min(kept, axis=1, keepdims=True, nan=True)
    if kind == MAX:
        return tw.max(kept, axis=1, keepdims=True)
    return tw.min(kept, axis=1, keepdims=True)


def _reduced_if(each: bool, kind: int, part: Any) -> Any:
    """A tile, or its partial results if each tile is reduced by itself."""
    return _finished(SUM if kind == MEAN else kind, part, None) if each else part


def _padding(kind: int, masked: bool) -> float:
    """The padding of floats behind the edge; integers have only zero, and are masked."""
    if kind <= MEAN or masked:
        return 0.0
    return -math.inf if kind == MAX else math.inf


def _kept_tiles(tiles: Any, i: Any, begin: Any, count: int) -> Any:
    """Some consecutive tiles of rows i, all loaded before any arithmetic."""
    row: tuple[Any, ...] = ()
    for j in tw.static_range(count):
        row = (*row, tiles[i, begin + j])
    return row


def _at_once(kind: int, row: Any, acc: Any) -> Any:
    """Combine several tiles into one."""
    kept = row[0].astype(acc)
    for j in tw.static_range(1, len(row)):
        kept = _combined(kind, kept, row[j].astype(acc))
    return kept


def _inside(part: Any, columns: Any, nothing: Any, masked: bool) -> Any:
    """A tile with `nothing` behind the edge, if it is masked."""
    if masked:
        return tw.where(tw.arange(part.shape[1]) < columns, part, nothing)
    return part


def _above(part: Any, rows: Any, nothing: Any, masked: bool) -> Any:
    """A tile of columns with `nothing` below the edge, if it is masked."""
    if masked:
        inside = tw.arange(part.shape[1]) < rows
        return tw.where(inside.reshape(1, part.shape[1], 1), part, nothing)
    return part


@tw.kernel(deny_checks=True)
def reduce_rows(
    z: Mut[T, Cut[M, BM], Literal[1]],
    x: Ref[FROM, M, N],
    first: T,
    scale: f64,
    *,
    KIND: Const[int],
    ACC: Const[type[tw.DType]],
    MASKED: Const[bool] = False,
    PART: Const[int] = 1024,
    SPAN: Const[int] = 1,
    EXACT: Const[bool] = False,
    EACH: Const[bool] = False,
) -> None:
    """SPAN tiles of PART columns of each row, reduced in the dtype ACC, starting with `first`.

    KIND is SUM, MEAN (the sum times `scale`), MAX or MIN. MASKED: `first` replaces elements behind
    the edge, where no padding does. EXACT: spans cover `x` exactly. EACH: every tile is reduced
    by itself, as suits the CPU; otherwise tiles are combined, and reduced at last.
    """
    tw.require(z.shape[1] == tw.cdiv(N, PART * SPAN))
    i, s = z.index
    xs = x.partition(BM, PART, padding=_padding(KIND, MASKED), exact=EXACT)
    nothing = first.astype(ACC)
    if SPAN == 1:
        kept = _inside(xs[i, s].astype(ACC), N - s * PART, nothing, MASKED)
    elif EXACT and SPAN <= AT_ONCE:
        kept = _at_once(KIND, _kept_tiles(xs, i, s * SPAN, SPAN), ACC)
    else:
        kept = tw.full((BM, 1 if EACH else PART), nothing, ACC)
        for j in range(s * SPAN, tw.minimum((s + 1) * SPAN, xs.num_tiles(1))):
            part = _inside(xs[i, j].astype(ACC), N - j * PART, nothing, MASKED)
            kept = _combined(KIND, kept, _reduced_if(EACH, KIND, part))
    z.store(_finished(KIND, kept, scale).astype(z.dtype))


@tw.kernel(deny_checks=True)
def reduce_whole_rows(
    z: Mut[T, Cut[M, BM]],
    x: Ref[FROM, M, N],
    first: T,
    scale: f64,
    *,
    KIND: Const[int],
    ACC: Const[type[tw.DType]],
    MASKED: Const[bool] = False,
    PART: Const[int] = 1024,
    SPAN: Const[int] = 1,
    EXACT: Const[bool] = False,
    EACH: Const[bool] = False,
) -> None:
    """`reduce_rows` of all tiles of each row: SPAN at most, and exactly SPAN if EXACT."""
    i = z.index[0]
    xs = x.partition(BM, PART, padding=_padding(KIND, MASKED), exact=EXACT)
    nothing = first.astype(ACC)
    if SPAN == 1:
        tw.require(xs.num_tiles(1) == 1)
        kept = _inside(xs[i, 0].astype(ACC), N, nothing, MASKED)
    elif EXACT and SPAN <= AT_ONCE:
        tw.require(xs.num_tiles(1) == SPAN)
        kept = _at_once(KIND, _kept_tiles(xs, i, 0, SPAN), ACC)
    else:
        kept = tw.full((BM, 1 if EACH else PART), nothing, ACC)
        for j in range(xs.num_tiles(1)):
            part = _inside(xs[i, j].astype(ACC), N - j * PART, nothing, MASKED)
            kept = _combined(KIND, kept, _reduced_if(EACH, KIND, part))
    result = _finished(KIND, kept, scale).reshape(BM).astype(z.dtype)
    z.partition(BM, exact=EXACT).store(result, 0)


@tw.kernel(deny_checks=True)
def reduce_columns(
    z: Mut[T, Cut[L, Literal[1]], Literal[1], Cut[K, BK]],
    x: Ref[FROM, L, N, K],
    first: T,
    scale: f64,
    *,
    KIND: Const[int],
    ACC: Const[type[tw.DType]],
    MASKED: Const[bool] = False,
    PART: Const[int] = 16,
    SPAN: Const[int] = 1,
    EACH: Const[bool] = False,
) -> None:
    """`reduce_rows` along the second of three axes."""
    tw.require(z.shape[1] == tw.cdiv(N, PART * SPAN))
    i, s, k = z.index
    xs = x.partition(1, PART, BK, padding=_padding(KIND, MASKED))
    nothing = first.astype(ACC)
    if SPAN == 1:
        kept = _above(xs[i, s, k].astype(ACC), N - s * PART, nothing, MASKED)
    else:
        kept = tw.full((1, 1 if EACH else PART, BK), nothing, ACC)
        for j in range(s * SPAN, tw.minimum((s + 1) * SPAN, xs.num_tiles(1))):
            part = _above(xs[i, j, k].astype(ACC), N - j * PART, nothing, MASKED)
            kept = _combined(KIND, kept, _reduced_if(EACH, KIND, part))
    z.store(_finished(KIND, kept, scale).astype(z.dtype))


# --- functions of tensors -------------------------------------------------------------------------


@tw.function
def sum(
    x: tw.Tensor, axis: int | None = None, *, keepdims: bool = False, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """The sum along an axis, or of all elements.

    Floats keep their dtype and are summed in f32 (f64 in f64); integers give i64 or u64.
    """
    return _reduced(SUM, x, axis, keepdims, out)


@tw.function
def mean(
    x: tw.Tensor, axis: int | None = None, *, keepdims: bool = False, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """The mean of floats along an axis, or of all elements, summed in f32 (f64 in f64)."""
    return _reduced(MEAN, x, axis, keepdims, out)


@tw.function
def max(
    x: tw.Tensor, axis: int | None = None, *, keepdims: bool = False, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """The maximum along an axis, or of all elements; a NaN wins, as in NumPy."""
    return _reduced(MAX, x, axis, keepdims, out)


@tw.function
def min(
    x: tw.Tensor, axis: int | None = None, *, keepdims: bool = False, out: tw.Tensor | None = None
) -> tw.DeviceOp[tw.Tensor]:
    """The minimum along an axis, or of all elements; a NaN wins, as in NumPy."""
    return _reduced(MIN, x, axis, keepdims, out)


def _reduced(
    kind: int, x: tw.Tensor, axis: int | None, keepdims: bool, out: tw.Tensor | None
) -> tw.DeviceOp[tw.Tensor]:
    name = NAMES[kind]
    check_tensor(name, "x", x, FLOATS if kind == MEAN else (*INTEGERS, *FLOATS))
    place = None if axis is None else axis_of(name, x, axis)
    reduced = x.shape if place is None else x.shape[place : place + 1]
    if place is None:
        shape: tuple[int, ...] = (1,) * x.ndim if keepdims else ()
    else:
        shape = (*x.shape[:place], *((1,) if keepdims else ()), *x.shape[place + 1 :])
    acc = sum_dtype(x.dtype) if kind <= MEAN or x.dtype in FLOATS else x.dtype
    z = output(name, out, shape, acc if x.dtype in INTEGERS else x.dtype, x)
    if not z.size:
        return tw.value(z, device=z.device)
    if not prod(reduced):
        return giving(_of_nothing(kind, z), z)
    if place is None:
        return giving(_of_everything(kind, z.reshape(1, 1, 1), x, acc), z)
    source = three_axes(name, "x", x, place)
    target = reshaped(name, "out", z, (source.shape[0], 1, source.shape[2]))
    return giving(launch_reduction(kind, target, source, acc, prod(reduced)), z)


def _of_everything(kind: int, z: tw.Tensor, x: tw.Tensor, acc: type[tw.DType]) -> tw.DeviceOp[Any]:
    """Reduce all elements as one row, or each row first and then the partial results."""
    if x.is_contiguous and x.size <= LONGEST:
        return launch_reduction(kind, z, x.reshape(1, x.size, 1), acc, x.size)
    rows = rows_of(NAMES[kind], "x", x)
    partial = tw.empty((rows.shape[0], 1, 1), acc, device=x.device)
    of_rows = SUM if kind == MEAN else kind
    launch = launch_reduction(of_rows, partial, rows.unsqueeze(2), acc, 1)
    rest = partial.reshape(1, rows.shape[0], 1)
    return launch.then(lambda _: launch_reduction(kind, z, rest, acc, x.size))


def sum_dtype(dtype: type[tw.DType]) -> type[tw.DType]:
    """The dtype of the sums."""
    if dtype in FLOATS:
        return f64 if dtype is f64 else f32
    return i64 if dtype in SIGNED else u64


def _of_nothing(kind: int, z: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    """The result along an empty axis."""
    if kind in (MAX, MIN):
        raise tw.LaunchError(f"{NAMES[kind]} along an empty axis: there is no {NAMES[kind]}")
    return tw.fill(z, 0 if kind == SUM else math.nan)


def _nothing(kind: int, x: tw.Tensor) -> float:
    """The identity element of a reduction."""
    if kind <= MEAN:
        return 0
    if x.dtype in FLOATS:
        return -math.inf if kind == MAX else math.inf
    bits, signed = 8 * x.itemsize, x.dtype in SIGNED
    if kind == MAX:
        return -(1 << bits - 1) if signed else 0
    return (1 << bits - signed) - 1


def _by_rows(
    kind: int, z: tw.Tensor, x: tw.Tensor, acc: type[tw.DType], count: int
) -> tw.DeviceOp[Any]:
    """Reduce many small matrices along their columns, as rows of a copy."""
    outer, n, inner = x.shape
    rows = tw.empty((outer, inner, n), x.dtype, device=x.device)
    target = tw.empty((outer * inner, 1, 1), z.dtype, device=x.device)
    source = rows.reshape(outer * inner, n, 1)
    launch = convert(rows, x.permute(0, 2, 1))
    launch = launch.then(lambda _: launch_reduction(kind, target, source, acc, count))
    return launch.then(lambda _: convert(z, target.reshape(outer, 1, inner)))


def launch_reduction(
    kind: int, z: tw.Tensor, x: tw.Tensor, acc: type[tw.DType], count: int
) -> tw.DeviceOp[Any]:
    """Reduce [outer, n, inner] to [outer, 1, inner] in one or two steps; `count` divides a mean."""
    outer, n, inner = x.shape
    in_rows = inner == 1
    source = x.squeeze(2) if in_rows else x
    name = NAMES[kind]
    config = span_config(name, source) if in_rows else column_config(name, source)
    if config.values.get("BL", 1) > MANY:
        return _by_rows(kind, z, x, acc, count)
    spans = -(-n // (config["PART"] * config["SPAN"]))
    target = z if spans == 1 else tw.empty((outer, spans, inner), acc, device=x.device)
    how = {
        "KIND": SUM if spans > 1 and kind == MEAN else kind,
        "ACC": acc,
        "MASKED": kind >= MAX and x.dtype in INTEGERS,
        "PART": config["PART"],
        "SPAN": config["SPAN"],
        "EACH": on_cpu(x),
    }
    if not in_rows:
        kernel, pieces = reduce_columns, target.partition(1, 1, config["BK"])
    elif spans == 1:
        kernel, pieces = reduce_whole_rows, z.squeeze(2).squeeze(1).partition(config["BM"])
    else:
        kernel, pieces = reduce_rows, target.squeeze(2).partition(config["BM"], 1)
    if in_rows:
        how["EXACT"] = are_exact(source, config["BM"], config["PART"] * config["SPAN"])
    launch = config.applied_to(kernel)(pieces, source, _nothing(kind, x), 1 / count, **how)
    if spans == 1:
        return launch
    return launch.then(lambda _: launch_reduction(kind, z, target, acc, count))

"""Sum, mean, maximum and minimum along one axis or of all elements.

A reduction along rows combines neighbours in memory; one along columns has neighbours that belong
to different results. Each block takes a span of the reduced axis, or whole rows where there are
enough of them; several partial results of one result are reduced once more.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any, Literal, NamedTuple

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
    has_few_axes,
    output,
    reshaped,
    rows_of,
    rows_together,
    three_axes,
)
from tilewright.kernels.arithmetic import (
    ALL,
    LAST,
    NONE,
    Cutting,
    all_parts,
    kept,
    part_at,
    parted,
    require_parts,
    whole_parts,
)
from tilewright.kernels.cutting import (
    column_config,
    edges_of,
    loads_at_once,
    row_spans,
    span_config,
    strided_config,
)
from tilewright.kernels.elements.copying import convert
from tilewright.kernels.elements.dense import can_be, densely, has_rows
from tilewright.kernels.large_tiles import on_cpu
from tilewright.kernels.placeholders import FROM
from tilewright.kernels.rows.launching import side_by_side
from tilewright.tune import Config

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
    "reduce_strided",
    "reduce_whole_rows",
    "sum",
    "sum_dtype",
]

SUM, MEAN, MAX, MIN = range(4)  # kinds of reduction, as kernel constants
NAMES = ("sum", "mean", "max", "min")
SIGNED = INTEGERS[:4]
MANY = 8  # matrices that a tile of the CPU has room for, from which on they are reduced as rows
AT_ONCE = 128  # bytes of a row that a thread loads without a loop


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


def _at_once(kind: int, row: Any, acc: Any) -> Any:
    """Combine several tiles into one."""
    whole = row[0].astype(acc)
    for j in tw.static_range(1, len(row)):
        whole = _combined(kind, whole, row[j].astype(acc))
    return whole


class Limit(NamedTuple):
    """The edge of rows: their columns, a number to put behind them, and whether one is needed."""

    columns: Any
    nothing: Any
    masked: bool


def _over(kind: int, xs: Any, i: Any, tiles: Any, start: Any, limit: Limit) -> Any:
    """Combine the parts of rows i from one number to another, on top of `start`.

    A start with one column has every part reduced by itself.
    """
    result, each = start, start.shape[1] == 1
    for j in range(tiles[0], tw.minimum(tiles[1], whole_parts(xs))):
        part = xs.whole[i, j].astype(start.dtype)
        result = _combined(kind, result, _reduced_if(each, kind, part))
    if xs.edges != NONE:
        for j in range(tw.maximum(tiles[0], whole_parts(xs)), tiles[1]):
            part = xs.edge[i, j].astype(start.dtype)
            left = limit.columns - j * part.shape[1]
            part = _inside(part, left, limit.nothing, limit.masked)
            result = _combined(kind, result, _reduced_if(each, kind, part))
    return result


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
    EDGES: Const[int] = ALL,
    EACH: Const[bool] = False,
) -> None:
    """SPAN tiles of PART columns of each row, reduced in the dtype ACC, starting with `first`.

    KIND is SUM, MEAN (the sum times `scale`), MAX or MIN. MASKED: `first` replaces elements behind
    the edge, where no padding does. EDGES: parts with a mask, NONE, the LAST of each row or ALL.
    EACH: every tile is reduced by itself, as suits the CPU; otherwise tiles are combined, and
    reduced at last.
    """
    tw.require(z.shape[1] == tw.cdiv(N, PART * SPAN))
    i, s = z.index
    xs, nothing = parted(x, (BM, PART), EDGES, _padding(KIND, MASKED)), first.astype(ACC)
    if SPAN == 1 and EDGES != LAST:
        part = part_at(xs, (i, s), EDGES == ALL).astype(ACC)
        result = _inside(part, N - s * PART, nothing, MASKED)
    else:
        tiles = (s * SPAN, tw.minimum((s + 1) * SPAN, xs.edge.num_tiles(1)))
        start = tw.full((BM, 1 if EACH else PART), nothing, ACC)
        result = _over(KIND, xs, i, tiles, start, Limit(N, nothing, MASKED))
    z.store(_finished(KIND, result, scale).astype(z.dtype))


class RowReduction(NamedTuple):
    """Constants of a reduction of whole rows."""

    kind: int
    acc: Any
    masked: bool
    cut: Cutting
    each: bool


def _reduce_whole(z: Any, x: Any, i: Any, first: Any, scale: Any, by: RowReduction) -> None:
    """Reduce rows i of a matrix."""
    rows, part, count, edges = by.cut.height, by.cut.part, by.cut.kept, by.cut.edges
    nothing = first.astype(by.acc)
    xs = parted(x, (rows, part), edges, _padding(by.kind, by.masked))
    if count:
        require_parts(xs, count)
        result = _at_once(by.kind, kept(xs, i, count), by.acc)
        if edges != NONE and by.masked:
            tw.static_assert(count == 1)
            result = _inside(result, x.shape[1], nothing, by.masked)
    else:
        start = tw.full((rows, 1 if by.each else part), nothing, by.acc)
        limit = Limit(x.shape[1], nothing, by.masked)
        result = _over(by.kind, xs, i, (0, all_parts(xs)), start, limit)
    found = _finished(by.kind, result, scale).reshape(rows).astype(z.dtype)
    z.partition(rows, exact=edges != ALL).store(found, 0)


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
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    EACH: Const[bool] = False,
) -> None:
    """`reduce_rows` of all parts of each row, KEPT of them where all are loaded at once."""
    by = RowReduction(KIND, ACC, MASKED, Cutting(BM, PART, KEPT, EDGES), EACH)
    _reduce_whole(z, x, z.index[0], first, scale, by)


@tw.kernel(deny_checks=True)
def reduce_strided(
    z: Mut[T, Cut[K, Literal[1]], Cut[L, Literal[1]], Cut[M, BM]],
    x: Ref[FROM, K, L, M, N],
    first: T,
    scale: f64,
    *,
    KIND: Const[int],
    ACC: Const[type[tw.DType]],
    MASKED: Const[bool] = False,
    PART: Const[int] = 1024,
    KEPT: Const[int] = 0,
    EDGES: Const[int] = ALL,
    EACH: Const[bool] = False,
) -> None:
    """`reduce_whole_rows` of rows with three axes, which have a stride each."""
    k, h, i = z.index
    by = RowReduction(KIND, ACC, MASKED, Cutting(BM, PART, KEPT, EDGES), EACH)
    _reduce_whole(z[k, h], x[k, h], i, first, scale, by)


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
    nothing, xs = first.astype(ACC), parted(x, (1, PART, BK), LAST, _padding(KIND, MASKED))
    if SPAN == 1 and EACH:
        result = _above(xs.edge[i, s, k].astype(ACC), N - s * PART, nothing, MASKED)
    else:
        end, begin = tw.minimum((s + 1) * SPAN, xs.edge.num_tiles(1)), s * SPAN
        result = tw.full((1, 1 if EACH else PART, BK), nothing, ACC)
        if k < K // BK:
            for j in range(begin, tw.minimum(end, xs.whole.num_tiles(1))):
                part = xs.whole[i, j, k].astype(ACC)
                result = _combined(KIND, result, _reduced_if(EACH, KIND, part))
            begin = tw.maximum(begin, xs.whole.num_tiles(1))
        for j in range(begin, end):
            part = _above(xs.edge[i, j, k].astype(ACC), N - j * PART, nothing, MASKED)
            result = _combined(KIND, result, _reduced_if(EACH, KIND, part))
    z.store(_finished(KIND, result, scale).astype(z.dtype))


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
    if place == x.ndim - 1 and not has_rows(x):
        return giving(_of_strided(kind, z if not keepdims else z.squeeze(place), x, acc), z)
    if not can_be(x, (prod(x.shape[:place]), x.shape[place], prod(x.shape[place + 1 :]))):
        return giving(densely(x, lambda copy: _reduced(kind, copy, axis, keepdims, z)), z)
    source = three_axes(name, "x", x, place)
    target = reshaped(name, "out", z, (source.shape[0], 1, source.shape[2]))
    return giving(launch_reduction(kind, target, source, acc, prod(reduced)), z)


def _of_everything(kind: int, z: tw.Tensor, x: tw.Tensor, acc: type[tw.DType]) -> tw.DeviceOp[Any]:
    """Reduce all elements as one row, or each row first and then the partial results."""
    if x.is_contiguous and x.size <= LONGEST:
        return launch_reduction(kind, z, x.reshape(1, x.size, 1), acc, x.size)
    of_rows, count = SUM if kind == MEAN else kind, x.size // x.shape[-1]
    partial: tw.Tensor = tw.empty(x.shape[:-1], acc, device=x.device)
    if has_rows(x):
        rows = rows_of(NAMES[kind], "x", x).unsqueeze(2)
        launch = launch_reduction(of_rows, partial.reshape(count, 1, 1), rows, acc, 1)
    else:
        launch = _of_strided(of_rows, partial, x, acc)
    rest = partial.reshape(1, count, 1)
    return launch.then(lambda _: launch_reduction(kind, z, rest, acc, x.size))


def _of_strided(kind: int, z: tw.Tensor, x: tw.Tensor, acc: type[tw.DType]) -> tw.DeviceOp[Any]:
    """Reduce rows with several axes along the last one."""
    if not has_few_axes(x, z.unsqueeze(z.ndim)):
        return densely(x, lambda copy: _of_strided(kind, z, copy, acc))
    rows, target = rows_together(NAMES[kind], x=x, out=z.unsqueeze(z.ndim))
    how: dict[str, Any] = {"KIND": kind, "ACC": acc, "EACH": on_cpu(x)}
    how["MASKED"] = kind >= MAX and x.dtype in INTEGERS
    config = strided_config(NAMES[kind], rows)
    scalars = (_nothing(kind, x), 1 / x.shape[-1])
    return _whole_rows(config, target.squeeze(target.ndim - 1), rows, scalars, how)


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


def _kept_parts(config: Config, x: tw.Tensor, how: dict[str, Any]) -> int:
    """The number of parts of a row, if they are few enough to be loaded at once; else 0."""
    parts = -(-x.shape[-1] // config["PART"])
    if how["MASKED"] and how["EDGES"] != NONE and parts > 1:
        return 0
    return parts if loads_at_once(config, x) <= AT_ONCE else 0


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
        "EACH": on_cpu(x),
    }
    scalars = (_nothing(kind, x), 1 / count)
    if in_rows and spans == 1:
        return _whole_rows(config, z.squeeze(2).squeeze(1), source, scalars, how)
    how["SPAN"] = config["SPAN"]
    if in_rows:
        how["EDGES"] = edges_of(source, config["BM"], config["PART"])
        kernel, pieces = reduce_rows, target.squeeze(2).partition(config["BM"], 1)
    else:
        kernel, pieces = reduce_columns, target.partition(1, 1, config["BK"])
    launch = config.applied_to(kernel)(pieces, source, *scalars, **how)
    if spans == 1:
        return launch
    return launch.then(lambda _: launch_reduction(kind, z, target, acc, count))


def _whole_rows(
    config: Config,
    z: tw.Tensor,
    x: tw.Tensor,
    scalars: tuple[float, float],
    how: dict[str, Any],
) -> tw.DeviceOp[Any]:
    """Reduce whole rows: those that tiles cover exactly, and the rest of them."""
    launches = []
    kernel, units = reduce_strided if x.ndim > 2 else reduce_whole_rows, (1,) * (x.ndim - 2)
    for by, (rows, target) in row_spans(config, x, z.unsqueeze(z.ndim)):
        how = how | {"PART": by["PART"], "EDGES": edges_of(rows, by["BM"], by["PART"])}
        how["KEPT"] = _kept_parts(by, rows, how)
        pieces = target.squeeze(target.ndim - 1).partition(*units, by["BM"])
        launches.append(by.applied_to(kernel)(pieces, rows, *scalars, **how))
    return side_by_side(launches)

"""Rankings along the last axis: argmax, and the k highest elements.

An element and its index form one 64-bit key. The upper half holds the bits of the element, mapped
so that integers compare as floats do (a NaN above all); the lower half holds the index, counted
backwards, so that the first of equal elements wins. The highest key is the answer; the highest key
below the last one found is the next.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref, f32, i32, i64
from tilewright.dims import BM, K, M, N, T
from tilewright.kernels.arguments import (
    FLOATS,
    check_tensor,
    given_outputs,
    giving,
    output,
    rows_of,
    whole_number,
)
from tilewright.kernels.arithmetic import (
    ALL,
    LAST,
    NONE,
    afresh,
    in_lanes,
    part_at,
    parted,
    whole_parts,
)
from tilewright.kernels.cutting import (
    edges_of,
    lanes_of,
    power_of_two,
    rank_config,
    row_spans,
    rows_at_once,
)
from tilewright.kernels.elements.dense import densely, has_rows
from tilewright.kernels.rows.launching import side_by_side

__all__ = ["argmax", "argmax_rows", "top_k", "top_k_of_keys", "top_keys_of_parts"]

MOST = 256  # results of a row; each costs a pass over its tiles
LONGEST_PART = 4096  # elements that one block ranks
MOST_KEYS = 16384  # keys of a row that the last step ranks
LOWEST = -(1 << 63)  # below every key
PLACES = (1 << 32) - 1
MAGNITUDE = 0x7FFFFFFF  # all bits of an f32 but the sign
NOWHERE = (1 << 31) - 1  # behind every index


def _keys(rows: Any, places: Any) -> Any:
    """Elements and their indices as keys."""
    bits = tw.bitcast(rows.astype(f32) + 0.0, i32)  # -0.0 + 0.0 is 0.0: both zeros are equal
    ordered = tw.where(bits < 0, bits ^ MAGNITUDE, bits)
    ordered = tw.where(rows.astype(f32) == rows.astype(f32), ordered, MAGNITUDE)
    return (ordered.astype(i64) << 32) | (PLACES - places.astype(i64))


def _parts(x: Any, rows: Any, part: int, edges: int) -> Any:
    """Elements or keys in parts; elements behind the edge are the lowest."""
    return parted(x, (rows, part), edges, 0.0 if x.dtype == i64 else -math.inf)


def _elements(keys: Any) -> Any:
    """The elements of keys, f32."""
    ordered = (keys >> 32).astype(i32)
    return tw.bitcast(tw.where(ordered < 0, ordered ^ MAGNITUDE, ordered), f32)


def _places(keys: Any) -> Any:
    return PLACES - (keys & PLACES)


def _first_highest(tile: Any, lanes: Any) -> tuple[Any, Any]:
    """The highest element of each lane of a tile, and its first index in the tile."""
    columns = tile.shape[1]
    seen = in_lanes(tile.astype(f32), lanes)
    rows = in_lanes(afresh(tile).astype(f32), lanes)
    places = in_lanes(tw.arange(columns).reshape(1, columns), lanes)
    top = tw.max(tw.max(seen, axis=3, nan=True), axis=1, nan=True)
    is_top = (rows == top[:, None, :, None]) | (rows != rows)
    return top, tw.min(tw.min(tw.where(is_top, places, NOWHERE), axis=3), axis=1)


def _better(best: Any, at: Any, tile: Any, j: Any, lanes: Any) -> tuple[Any, Any]:
    """The highest elements of lanes and their indices, with those of part j."""
    top, place = _first_highest(tile, lanes)
    is_better = (top > best) | ((top != top) & (best == best))
    place += j * tile.shape[1]
    return tw.where(is_better, top, best), tw.where(is_better, place, at)


def _highest(xs: Any, i: Any, tiles: Any, shape: Any, lanes: Any) -> Any:
    """The highest key of each lane, over some tiles of elements.

    A thread compares its own elements before it makes a key, without the other threads.
    """
    shared = (shape[0], lanes[0])
    best, at = tw.full(shared, -math.inf, f32), tw.full(shared, 0, i32)
    at += tiles[0] * shape[1]
    for j in range(tiles[0], tw.minimum(tiles[1], whole_parts(xs))):
        best, at = _better(best, at, xs.whole[i, j], j, lanes)
    if xs.edges != NONE:
        for j in range(tw.maximum(tiles[0], whole_parts(xs)), tiles[1]):
            best, at = _better(best, at, xs.edge[i, j], j, lanes)
    return _keys(best, at)


def _highest_keys(xs: Any, i: Any, tiles: Any, shape: Any, columns: Any) -> Any:
    """The highest key of each column of a tile, over some tiles of keys."""
    keys = tw.full(shape, LOWEST, i64)
    for j in range(tiles[0], tiles[1]):
        inside = j * shape[1] + tw.arange(shape[1]) < columns
        keys = tw.maximum(keys, tw.where(inside, xs.edge[i, j], LOWEST))
    return keys


def _ranked(x: Any, xs: Any, place: Any, shape: Any, span: int, lanes: Any) -> Any:
    """The highest keys of the lanes, over a span of rows."""
    i, s = place
    tiles = (s * span, tw.minimum((s + 1) * span, xs.edge.num_tiles(1)))
    if x.dtype == i64:
        return _highest_keys(xs, i, tiles, shape, x.shape[1])
    if span > 1:
        return _highest(xs, i, tiles, shape, lanes)
    if xs.edges == LAST:
        top, at = _first_highest_at_edge(xs, i, s, lanes)
    else:
        top, at = _first_highest(part_at(xs, (i, s), xs.edges == ALL), lanes)
    return _keys(top, s * shape[1] + at)


def _first_highest_at_edge(xs: Any, i: Any, s: Any, lanes: Any) -> tuple[Any, Any]:
    """`_first_highest` of part s, which may be the partial last one."""
    if s < whole_parts(xs):
        top, at = _first_highest(xs.whole[i, s], lanes)
    else:
        top, at = _first_highest(xs.edge[i, s], lanes)
    return top, at


@tw.kernel(deny_checks=True)
def argmax_rows(
    z: Mut[i64, Cut[M, BM], Literal[1]],
    x: Ref[T, M, N],
    *,
    PART: Const[int] = 1024,
    SPAN: Const[int] = 1,
    EDGES: Const[int] = ALL,
    LANES: Const[int] = 1,
    NEIGHBOURS: Const[int] = 1,
    FINAL: Const[bool] = True,
) -> None:
    """The highest key of SPAN tiles of PART columns of each row; FINAL: its index instead.

    `x` may hold keys already, those of the spans of a row. EDGES: parts with a mask, NONE, the LAST
    of each row or ALL. LANES: threads of a row, each with NEIGHBOURS elements in one load.
    """
    tw.require(z.shape[1] == tw.cdiv(N, PART * SPAN))
    xs = _parts(x, BM, PART, EDGES)
    keys = _ranked(x, xs, z.index, (BM, PART), SPAN, (LANES, NEIGHBOURS))
    highest = tw.max(keys, axis=1, keepdims=True)
    z.store(_places(highest) if FINAL else highest)


@tw.kernel(deny_checks=True)
def top_keys_of_parts(
    z: Mut[i64, Cut[M, BM], Literal[1], tw.All], x: Ref[T, M, N], *, PART: Const[int] = 1024
) -> None:
    """The highest keys of PART columns of BM rows, in order, as many as `z` has room for."""
    tw.require(z.shape[1] == tw.cdiv(N, PART))
    i, s, _ = z.index
    parts = z.partition(BM, 1, 1)
    rows = x.partition(BM, PART, padding=-math.inf)[i, s]
    keys = _keys(rows, s * PART + tw.arange(PART))
    for k in range(parts.num_tiles(2)):
        highest = tw.max(keys, axis=1, keepdims=True)
        parts.store(highest.reshape(BM, 1, 1), 0, 0, k)
        keys = tw.where(keys == highest, LOWEST, keys)


@tw.kernel(deny_checks=True)
def top_k_of_keys(
    values: Mut[T, Cut[M, BM], Cut[K, tw.All]],
    places: Mut[i64, Cut[M, BM], Cut[K, tw.All]],
    keys: Ref[i64, M, N],
    *,
    PART: Const[int] = 1024,
) -> None:
    """The elements and indices of the highest keys of BM rows, in order."""
    tw.require(N <= PART)
    i = values.index[0]
    elements, numbers = values.partition(BM, 1), places.partition(BM, 1)
    left = tw.where(tw.arange(PART) < N, keys.partition(BM, PART)[i, 0], LOWEST)
    for k in range(elements.num_tiles(1)):
        highest = tw.max(left, axis=1, keepdims=True)
        elements.store(_elements(highest).astype(values.dtype), 0, k)
        numbers.store(_places(highest), 0, k)
        left = tw.where(left == highest, LOWEST, left)


# --- functions of tensors -------------------------------------------------------------------------


@tw.function
def argmax(x: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """The index (i64) of the highest element along the last axis: the first of equals; a NaN wins.

    The result has the shape of `x` without that axis.
    """
    check_tensor("argmax", "x", x, FLOATS[:3])
    if not has_rows(x):
        return densely(x, lambda copy: argmax(copy, out=out))
    rows = rows_of("argmax", "x", x)
    if not rows.shape[1]:
        raise tw.LaunchError("argmax along an empty axis: there is no highest element")
    z = output("argmax", out, x.shape[:-1], i64, x)
    if not z.size:
        return tw.value(z, device=z.device)
    target = rows_of("argmax", "out", z.unsqueeze(z.ndim))
    return giving(_argmax_of(target, rows), z)


def _argmax_of(z: tw.Tensor, x: tw.Tensor) -> tw.DeviceOp[Any]:
    """The indices of the highest elements of rows, or of the keys of their spans."""
    rows, columns = x.shape
    config = rank_config("argmax", x)
    spans = -(-columns // (config["PART"] * config["SPAN"]))
    target = z if spans == 1 else tw.empty((rows, spans), i64, device=x.device)
    launches = []
    for by, (source, into) in row_spans(config, x, target):
        how = {
            "PART": by["PART"],
            "SPAN": by["SPAN"],
            "EDGES": edges_of(source, by["BM"], by["PART"]),
            "FINAL": spans == 1,
        } | lanes_of(by, source)
        launches.append(by.applied_to(argmax_rows)(into.partition(by["BM"], 1), source, **how))
    launch = side_by_side(launches)
    if spans == 1:
        return launch
    return launch.then(lambda _: _argmax_of(z, target))


@tw.function
def top_k(
    x: tw.Tensor, k: int, *, out: tuple[tw.Tensor, tw.Tensor] | None = None
) -> tw.DeviceOp[tuple[tw.Tensor, tw.Tensor]]:
    """The k highest elements along the last axis, in descending order, and their indices (i64).

    Both results have k in place of the last extent of `x`. Of equal elements the first comes first;
    a NaN is higher than all numbers. k is at most 256, and the cost grows with it.
    """
    check_tensor("top_k", "x", x, FLOATS[:3])
    if not has_rows(x):
        return densely(x, lambda copy: top_k(copy, k, out=out))
    rows = rows_of("top_k", "x", x)
    count, columns = rows.shape
    k = whole_number("top_k", "k", k)
    if not 0 < k <= min(columns, MOST):
        most = f"the {columns} that there are" if columns < MOST else f"{MOST}"
        raise tw.LaunchError(f"top_k finds 1 to {MOST} elements, at most {most}, not {k}")
    part = min(power_of_two(columns), LONGEST_PART)
    spans = -(-columns // part)
    if spans * k > MOST_KEYS:
        raise tw.LaunchError(
            f"top_k of {k} from rows of {columns} elements: at most {MOST_KEYS // k * part}"
        )
    given, shape = given_outputs("top_k", out, 2), (*x.shape[:-1], k)
    values = output("top_k", given[0], shape, x.dtype, x)
    places = output("top_k", given[1], shape, i64, x)
    if not values.size:
        return tw.value((values, places), device=x.device)
    keys = tw.empty((count, spans, k), i64, device=x.device)

    def finish(_: object) -> tw.DeviceOp[Any]:
        found, whole = keys.reshape(count, spans * k), power_of_two(spans * k)
        targets = (rows_of("top_k", "out", one) for one in (values, places))
        height = rows_at_once(x, count, whole)
        pieces = (target.partition(height, None) for target in targets)
        return top_k_of_keys(*pieces, found, PART=whole)

    pieces = keys.partition(rows_at_once(x, count, part), 1, None)
    launch = top_keys_of_parts(pieces, rows, PART=part)
    return giving(launch.then(finish), (values, places))

"""Arithmetic shared by the library kernels; inlined into kernels, never run on the host.

Floats narrower than f32 are computed in f32, f64 in f64. Quotients and powers in f32 are the fast
approximations of the GPU: at most two units in the last place off, and 0 in place of a subnormal.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tilewright as tw
from tilewright import bf16, f16, f32, f64

__all__ = [
    "ALL",
    "LAST",
    "LN_2",
    "LOG2_E",
    "NONE",
    "Cutting",
    "RowParts",
    "afresh",
    "all_parts",
    "gated",
    "has_mask",
    "in_lanes",
    "kept",
    "kept_line",
    "lies_inside",
    "normal_share",
    "number",
    "once_more",
    "part_at",
    "parted",
    "parted_output",
    "power_of_2",
    "quotient",
    "require_parts",
    "store_part",
    "store_whole",
    "weight_at",
    "whole_at",
    "whole_parts",
    "wide",
    "wide_dtype",
]

LOG2_E = math.log2(math.e)  # exp(x) is exp2(x * LOG2_E)
LN_2 = math.log(2)  # and log(x) is log2(x) * LN_2

# RowParts of rows that need a mask.
NONE, LAST, ALL = range(3)

# Tail of the normal distribution beyond a >= 0: log2(tail * exp(a² / 2) / t) as a polynomial in
# t = 1 / (1 + 0.4 a), lowest power first. Minimax fit with a relative error of 9e-8.
TAIL = (
    -2.64752279, 1.43861034, 0.536041699, -0.258473809, 0.774262245, -2.51524796, 2.80124731,
    -1.40286147, 0.27394456,
)  # fmt: skip
NO_TAIL = 16.0  # the tail beyond this underflows f32


def wide_dtype(dtype: Any) -> Any:
    """The dtype in which a float dtype is computed."""
    return f64 if dtype == f64 else f32


def wide(x: Any) -> Any:
    """A tile converted to its wide dtype."""
    return x.astype(wide_dtype(x.dtype))


def number(n: Any, dtype: Any) -> Any:
    """An extent converted to a dtype of arithmetic."""
    return n.astype(dtype)


def quotient(a: Any, b: Any) -> Any:
    """`a / b`, where `b` is a wide tile."""
    if b.dtype == f64:
        return a / b
    return tw.divide(a, b, rounding="approx", ftz=True)


def power_of_2(x: Any) -> Any:
    """`2 ** x`, where `x` is a wide tile."""
    return tw.exp2(x) if x.dtype == f64 else tw.exp2(x, ftz=True)


def gated(x: Any, gate: Any) -> Any:
    """`x * sigmoid(gate)`, which is `x / (1 + exp(-gate))`."""
    return quotient(x, 1.0 + power_of_2(gate * -LOG2_E))


class Cutting(NamedTuple):
    """How a block takes its rows: `height` rows in parts of `part` columns.

    `kept` is the number of parts of a row if all stay in registers; 0: parts are read again.
    `edges` are the parts with a mask. Weights that are `late` are read after the row is summed.
    """

    height: Any  # a dim of the kernel
    part: int
    kept: int
    edges: int
    late: bool = False


class RowParts(NamedTuple):
    """Rows in parts: those that lie inside the rows, without a mask, and those at the edge.

    `edges` are the parts with a mask: NONE of them, the LAST of each row, or ALL where the tiles
    exceed the number of rows as well.
    """

    whole: Any
    edge: Any
    edges: int


def parted(x: Any, tile: tuple[Any, ...], edges: int, padding: float = 0.0) -> RowParts:
    """An input in parts; elements behind the edge read as `padding`."""
    edge = x.partition(tile, padding=padding)
    if edges == ALL:
        return RowParts(edge, edge, edges)
    return RowParts(x.partition(tile, exact=edges == NONE, whole=edges == LAST), edge, edges)


def parted_output(z: Any, tile: tuple[Any, ...], edges: int) -> RowParts:
    """An output in parts."""
    edge = z.partition(tile)
    if edges == ALL:
        return RowParts(edge, edge, edges)
    return RowParts(z.partition(tile, exact=edges == NONE, whole=edges == LAST), edge, edges)


def whole_parts(parts: RowParts) -> Any:
    """The number of parts of a row without a mask."""
    return 0 if parts.edges == ALL else parts.whole.num_tiles(1)


def all_parts(parts: RowParts) -> Any:
    """The number of parts of a row."""
    return parts.whole.num_tiles(1) if parts.edges == NONE else parts.edge.num_tiles(1)


def require_parts(parts: RowParts, count: int) -> None:
    """Require `count` parts of a row, all of them whole but the ones with a mask."""
    if parts.edges == NONE:
        tw.require(parts.whole.num_tiles(1) == count)
    else:
        tw.require(parts.edge.num_tiles(1) == count)
    if parts.edges == LAST:
        tw.require(parts.whole.num_tiles(1) == count - 1)


def has_mask(edges: int, j: int, count: int) -> bool:
    """Whether part j of `count` has a mask."""
    return edges == ALL or (edges == LAST and j == count - 1)


def part_at(parts: RowParts, at: tuple[Any, ...], masked: bool) -> Any:
    """One part of rows."""
    return parts.edge[at] if masked else parts.whole[at]


def store_part(parts: RowParts, tile: Any, j: Any, masked: bool) -> None:
    """Overwrite part j of this block's rows."""
    if masked:
        parts.edge.store(tile, 0, j)
    else:
        parts.whole.store(tile, 0, j)


def kept(parts: RowParts, i: Any, count: int) -> Any:
    """All `count` parts of rows i, loaded into registers before any arithmetic."""
    row: tuple[Any, ...] = ()
    for j in tw.static_range(count):
        row = (*row, part_at(parts, (i, j), has_mask(parts.edges, j, count)))
    return row


def kept_line(parts: RowParts, count: int, late: bool) -> Any:
    """All `count` parts of one line of weights, loaded before any sum needs them.

    Weights that are read late are not loaded here, since registers hold the row alone.
    """
    row: tuple[Any, ...] = ()
    if not late:
        for j in tw.static_range(count):
            row = (*row, part_at(parts, (j,), has_mask(parts.edges, j, count)))
    return row


def weight_at(line: Any, parts: RowParts, j: int, count: int) -> Any:
    """Part j of `count` of a line of weights, from registers or, if it is late, from memory."""
    return line[j] if len(line) > 0 else part_at(parts, (j,), has_mask(parts.edges, j, count))


def lies_inside(z: Any, at: Any) -> Any:
    """Whether this block's piece of a matrix, number `at`, lies inside it: it needs no mask."""
    height, width = z.tile
    return at[0] < z.shape[0] // height and at[1] < z.shape[1] // width


def whole_at(x: Any, at: Any, z: Any) -> Any:
    """The tile of `x` at piece `at` of `z`, which lies inside."""
    return x.partition(z.tile, whole=True)[at]


def store_whole(z: Any, tile: Any) -> None:
    """Overwrite the piece of `z`, which lies inside."""
    z.partition(z.tile, whole=True).store(tile, 0, 0)


def afresh(x: Any) -> Any:
    """A copy of a narrow tile for one step of the kernel; -0.0 becomes 0.0.

    The assembler merges equal expressions of two steps and keeps the result alive between them; a
    wide copy takes twice the registers of the narrow tile. A distinct copy for each step keeps only
    the narrow tile alive.
    """
    return x + 0.0 if _is_narrow(x) else x


def once_more(x: Any) -> Any:
    """A second distinct copy, for a third step; a NaN becomes -inf."""
    return tw.maximum(x, -math.inf) if _is_narrow(x) else x


def _is_narrow(x: Any) -> bool:
    """Whether a tile holds floats that are computed in f32."""
    return bool(x.dtype == f16 or x.dtype == bf16)


def in_lanes(tile: Any, lanes: Any) -> Any:
    """A tile of rows as [row, load, lane, neighbour]; `lanes` are their number and neighbours.

    A thread loads several neighbours at once, and those that follow belong to the next thread. With
    one lane for each thread of a row, a reduction along `load` and `neighbour` stays in a thread.
    A single lane has all of the row in order, as on the CPU.
    """
    rows, columns = tile.shape
    return tile.reshape(rows, columns // (lanes[0] * lanes[1]), lanes[0], lanes[1])


def normal_share(x: Any) -> Any:
    """GELU of an f32 tile: `x * P(X < x)` for a normally distributed X."""
    a = tw.minimum(tw.abs(x), NO_TAIL, nan=True)
    t = quotient(1.0, 1.0 + 0.4 * a)
    exponent = tw.full(x.shape, TAIL[-1], x.dtype)
    for power in tw.static_range(len(TAIL) - 2, -1, -1):
        exponent = exponent * t + TAIL[power]
    beyond = t * power_of_2(exponent - a * a * (LOG2_E / 2))
    return tw.maximum(x, 0.0, nan=True) - a * beyond

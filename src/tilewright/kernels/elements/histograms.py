"""Histograms of integers.

Up to 256 bins form a square, where a bin v has the row v // 16 and the column v % 16. The number of
elements at or beyond each row and column is a matrix product: one factor has a one for each element
and each row that it reaches, the other likewise for columns. Elements are packed four to a word, so
that one addition makes four of those ones. The time does not depend on the data.

More bins are counted by atomic additions. Blocks that add to the same bin would wait for each
other, so the counts have several rows, each shared by some of the blocks, and the rows are summed.
"""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import Accum, Const, Mut, Ref, i8, i16, i32, u8, u16
from tilewright.dims import BN, K, M, N, R, T
from tilewright.kernels.arguments import (
    INTEGERS,
    check_tensor,
    giving,
    lines_of,
    output,
    whole_number,
)
from tilewright.kernels.cutting import are_exact, element_config, power_of_two
from tilewright.kernels.large_tiles import on_cpu
from tilewright.kernels.rows.reductions import SUM, launch_reduction

__all__ = ["histogram", "histogram_bins", "histogram_elements", "histogram_products"]

EDGE = 16  # rows and columns of a square of bins
BYTES = 0x0101_0101  # a one in each byte of a word
HALVES = 0x0001_0001
GROUPS = 4  # groups of elements that are counted separately, one by each warp
TOGETHER = 2048  # elements of one product
BLOCKS = 2048  # blocks that share all elements
MOST_SPAN = 1 << 12  # tiles of a block; their counts fit in i32
MOST_ROWS = 64  # rows of counts
MOST_BINS = 1 << 16  # bins in all rows together


def _joined(parts: Any, bits: int) -> Any:
    """Pairs along the last axis packed into words, `bits` apart."""
    return tw.sum(parts << (tw.arange(2) * bits), axis=len(parts.shape) - 1)


def _as_numbers(x: Any) -> Any:
    """Integers in a dtype that holds the number of every bin."""
    is_narrow = x.dtype == u8 or x.dtype == u16 or x.dtype == i8 or x.dtype == i16
    return x.astype(i32) if is_narrow else x


def _digits(numbers: Any) -> tuple[Any, Any]:
    """Rows and columns of four elements each, packed into bytes; a valid row has EDGE added.

    Elements are at most EDGE * EDGE, the number of an element that has no bin.
    """
    pairs = _joined(numbers, 16)
    rows = ((pairs // EDGE) ^ (EDGE * HALVES)) & ((2 * EDGE - 1) * HALVES)
    return _joined(rows, 8), _joined(pairs & ((EDGE - 1) * HALVES), 8)


@tw.kernel(deny_checks=True, num_worker_warps=4, occupancy=8, allow_tma=False)
def histogram_products(
    reached: Accum[i32, R, K], x: Ref[T, M, N], ones: i32,
    *, PART: Const[int] = 2048, SPAN: Const[int] = 1, EXACT: Const[bool] = False,
) -> None:  # fmt: skip
    """Add to `reached[r, c]` the number of elements v with v // 16 >= r and v % 16 >= c.

    A block counts SPAN tiles. EXACT: tiles cover the rows exactly. `ones` is BYTES, passed by the
    launch: for a constant the assembler emits a branch for each thread, with the addition in each.
    """
    scale = 2 * EDGE * EDGE  # of a product of two bytes
    tw.static_assert(PART // GROUPS * SPAN * scale < 1 << 31, "i32 holds what a block counts")
    i, s = tw.block_id(0), tw.block_id(1)
    xs = x.partition(1, PART, exact=EXACT)
    rest = (EDGE - tw.arange(EDGE)).reshape(1, EDGE, 1) * ones
    found = tw.zeros((GROUPS, EDGE, EDGE), i32)
    for j in range(s * SPAN, tw.minimum((s + 1) * SPAN, xs.num_tiles(1))):
        numbers = _as_numbers(xs[i, j])
        is_bin = (numbers >= 0) & (numbers < EDGE * EDGE)
        if not EXACT:
            is_bin = is_bin & (j * PART + tw.arange(PART) < N)
        number = tw.where(is_bin, numbers, EDGE * EDGE).astype(i32)
        row, column = _digits(number.reshape(GROUPS, 1, PART // GROUPS // 4, 2, 2))
        # A digit plus its distance to a row or column carries into the next bit if it reaches it.
        rows = tw.pack((row + rest) & (2 * EDGE * BYTES))
        columns = tw.pack((column + rest) & (EDGE * BYTES))
        found = tw.mma(rows, columns.permute(0, 2, 1), found)
    bins = tw.arange(EDGE)
    counted = tw.sum(found // scale, axis=0)
    reached.add_at(counted, bins.reshape(EDGE, 1), bins.reshape(1, EDGE))


@tw.kernel(deny_checks=True)
def histogram_bins(z: Mut[i32, BN], reached: Ref[i32, R, K]) -> None:
    """Counts of single bins, as differences of the counts at or beyond each row and column."""
    bins = z.index[0] * BN + tw.arange(BN)
    row, column = bins // EDGE, bins % EDGE
    in_row = reached.gather(row, column) - reached.gather(row, column + 1)
    below = reached.gather(row + 1, column) - reached.gather(row + 1, column + 1)
    z.store(in_row - below)


@tw.kernel(deny_checks=True)
def histogram_elements(
    counts: Accum[i32, R, K], x: Ref[T, M, N], *, ROWS: Const[int] = 1, PART: Const[int] = 1024
) -> None:
    """`counts[row, v] += 1` for every v in x, in one of ROWS rows; other values are dropped."""
    i, j = tw.block_id(0), tw.block_id(1)
    columns = j * PART + tw.arange(PART)
    numbers = _as_numbers(x.partition(1, PART)[i, j])
    counts.add_at(1, (i + j) % ROWS, numbers, mask=(columns < N).reshape(1, PART))


@tw.function
def histogram(x: tw.Tensor, bins: int, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """Counts (i32) of the numbers 0, 1, … bins - 1 in `x`; other numbers are not counted."""
    check_tensor("histogram", "x", x, INTEGERS)
    bins = whole_number("histogram", "bins", bins)
    if bins < 1:
        raise tw.LaunchError(f"histogram counts in at least one bin, not {bins}")
    result = output("histogram", out, (bins,), i32, x)
    if not x.size:
        return tw.fill(result, 0)
    (line,) = lines_of("histogram", x=x)
    if bins <= EDGE * EDGE and not on_cpu(x):
        return giving(_in_a_square(result, line), result)
    config = element_config("histogram", line)
    part = config["PART"]
    grid = (line.shape[0], -(-line.shape[1] // part))
    most = 1 if on_cpu(x) else MOST_ROWS
    rows = max(min(most, MOST_BINS // power_of_two(bins), power_of_two(grid[0] * grid[1])), 1)
    counts = tw.empty((rows, bins), i32, device=x.device) if rows > 1 else result.reshape(1, bins)
    run = config.applied_to(histogram_elements).grid(*grid)
    counted = tw.fill(counts, 0).then(lambda _: run(counts, line, ROWS=rows, PART=part))
    if rows == 1:
        return giving(counted, result)
    target, source = result.reshape(1, 1, bins), counts.reshape(1, rows, bins)
    return giving(counted.then(lambda _: launch_reduction(SUM, target, source, i32, 1)), result)


def _in_a_square(result: tw.Tensor, line: tw.Tensor) -> tw.DeviceOp[Any]:
    """Count up to 256 bins; of the square, the first `bins` are the result."""
    rows, columns = line.shape
    span = min(power_of_two(-(-columns // (TOGETHER * max(BLOCKS // rows, 1)))), MOST_SPAN)
    how = {"PART": TOGETHER, "SPAN": span, "EXACT": are_exact(line, 1, TOGETHER)}
    reached = tw.empty((EDGE, EDGE), i32, device=line.device)
    run = histogram_products.grid(rows, -(-columns // (TOGETHER * span)))
    counted = tw.fill(reached, 0).then(lambda _: run(reached, line, BYTES, **how))
    return counted.then(lambda _: histogram_bins(result.partition(EDGE * EDGE), reached))

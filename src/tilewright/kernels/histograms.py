"""How often each number occurs.

Few bins are a square: a number has a row and a column, and what a block counts is the product of
two matrices with a one for each number, in its row and in its column. That takes as long whatever
the numbers are. In more bins blocks count by atomic additions; many would wait for the same bin, so
several rows of bins are counted in, each by some of the blocks, and summed.
"""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright import Accum, Const, Ref, f16, f32, i32
from tilewright.dims import K, M, N, R, T
from tilewright.kernels.arguments import (
    INDICES,
    check_tensor,
    giving,
    lines_of,
    output,
    whole_number,
)
from tilewright.kernels.cutting import element_config, power_of_two
from tilewright.kernels.reductions import SUM, launch_reduction

__all__ = ["histogram", "histogram_elements", "histogram_products"]

EDGE = 16  # bins of a square, along either side
GROUPS = 4  # of numbers that are counted apart, by a warp each
TOGETHER = 512  # numbers of a product
BLOCKS = 2048  # that share all numbers
MOST_SPAN = 1 << 14  # tiles of a block: f32 counts so many
MOST_ROWS = 64  # of bins
MOST_BINS = 1 << 16  # in all rows


@tw.kernel(deny_checks=True, num_worker_warps=4, occupancy=3, allow_tma=False)
def histogram_products(
    counts: Accum[i32, R, K], x: Ref[T, M, N], *, PART: Const[int] = 512, SPAN: Const[int] = 1
) -> None:
    """`counts[v // 16, v % 16] += 1` for every v in SPAN tiles of PART, if it is a bin."""
    i, s = tw.block_id(0), tw.block_id(1)
    xs = x.partition(1, PART)
    bins, each = tw.arange(EDGE), PART // GROUPS
    found = tw.zeros((GROUPS, EDGE, EDGE), f32)
    for j in range(s * SPAN, tw.minimum((s + 1) * SPAN, xs.num_tiles(1))):
        numbers = xs[i, j].reshape(PART)
        is_bin = (numbers >= 0) & (numbers < EDGE * EDGE) & (j * PART + tw.arange(PART) < N)
        number = tw.where(is_bin, numbers, EDGE * EDGE).astype(i32)  # no row is that of no bin
        row = (number // EDGE).reshape(GROUPS, 1, each) == bins.reshape(1, EDGE, 1)
        column = (number % EDGE).reshape(GROUPS, each, 1) == bins.reshape(1, 1, EDGE)
        found = tw.mma(row.astype(f16), column.astype(f16), found)
    counts.add(tw.sum(found, axis=0).astype(i32), 0, 0)


@tw.kernel(deny_checks=True)
def histogram_elements(
    counts: Accum[i32, R, K], x: Ref[T, M, N], *, ROWS: Const[int] = 1, PART: Const[int] = 1024
) -> None:
    """`counts[row, v] += 1` for every v in x, blocks in ROWS rows; what is no bin is dropped."""
    i, j = tw.block_id(0), tw.block_id(1)
    columns = j * PART + tw.arange(PART)
    numbers = x.partition(1, PART)[i, j]
    counts.add_at(1, (i + j) % ROWS, numbers, mask=(columns < N).reshape(1, PART))


@tw.function
def histogram(x: tw.Tensor, bins: int, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """How often each of the numbers 0, 1, … bins - 1 occurs in `x`, i32; others do not count."""
    check_tensor("histogram", "x", x, INDICES)
    bins = whole_number("histogram", "bins", bins)
    if bins < 1:
        raise tw.LaunchError(f"histogram counts in at least one bin, not {bins}")
    result = output("histogram", out, (bins,), i32, x)
    if not x.size:
        return tw.fill(result, 0)
    (line,) = lines_of("histogram", x=x)
    if bins <= EDGE * EDGE:
        return giving(_in_a_square(result, line, bins), result)
    config = element_config("histogram", line)
    part = config["PART"]
    grid = (line.shape[0], -(-line.shape[1] // part))
    rows = max(min(MOST_ROWS, MOST_BINS // power_of_two(bins), power_of_two(grid[0] * grid[1])), 1)
    counts = tw.empty((rows, bins), i32, device=x.device) if rows > 1 else result.reshape(1, bins)
    run = config.applied_to(histogram_elements).grid(*grid)
    counted = tw.fill(counts, 0).then(lambda _: run(counts, line, ROWS=rows, PART=part))
    if rows == 1:
        return giving(counted, result)
    target, source = result.reshape(1, 1, bins), counts.reshape(1, rows, bins)
    return giving(counted.then(lambda _: launch_reduction(SUM, target, source, i32, 1)), result)


def _in_a_square(result: tw.Tensor, line: tw.Tensor, bins: int) -> tw.DeviceOp[Any]:
    """Count few bins; of a square of more, the first are those that were asked for."""
    rows, columns = line.shape
    span = min(power_of_two(-(-columns // (TOGETHER * max(BLOCKS // rows, 1)))), MOST_SPAN)
    counts = tw.empty((EDGE, EDGE), i32, device=line.device)
    run = histogram_products.grid(rows, -(-columns // (TOGETHER * span)))
    counted = tw.fill(counts, 0).then(lambda _: run(counts, line, PART=TOGETHER, SPAN=span))
    target, source = result.reshape(1, 1, bins), counts.reshape(1, 1, EDGE * EDGE)[:, :, :bins]
    return counted.then(lambda _: launch_reduction(SUM, target, source, i32, 1))

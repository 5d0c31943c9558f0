"""How often each number occurs.

Blocks count by atomic additions. Where there are few bins many of them would wait for the same one,
so several rows of bins are counted in, each by some of the blocks, and summed.
"""

from __future__ import annotations

import tilewright as tw
from tilewright import Accum, Const, Ref, i32
from tilewright.dims import K, M, N, R, T
from tilewright.kernels.arguments import INDICES, check_tensor, giving, lines_of, output
from tilewright.kernels.cutting import element_config, power_of_two
from tilewright.kernels.reductions import SUM, launch_reduction

__all__ = ["histogram", "histogram_elements"]

MOST_ROWS = 64  # of bins
MOST_BINS = 1 << 16  # in all rows


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
    if bins < 1:
        raise tw.LaunchError(f"histogram counts in at least one bin, not {bins}")
    result = output("histogram", out, (bins,), i32, x)
    if not x.size:
        return tw.fill(result, 0)
    (line,) = lines_of("histogram", x)
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

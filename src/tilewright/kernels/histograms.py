"""How often each number occurs."""

from __future__ import annotations

import tilewright as tw
from tilewright import Accum, Const, Ref, i32
from tilewright.dims import K, M, N, T
from tilewright.kernels.arguments import INDICES, check_tensor, giving, lines_of, output
from tilewright.kernels.cutting import element_config

__all__ = ["histogram", "histogram_elements"]


@tw.kernel(deny_checks=True)
def histogram_elements(counts: Accum[i32, K], x: Ref[T, M, N], *, PART: Const[int] = 1024) -> None:
    """`counts[v] += 1` for every v in x; what is no bin is not counted."""
    i, j = tw.block_id(0), tw.block_id(1)
    columns = j * PART + tw.arange(PART)
    counts.add_at(1, x.partition(1, PART)[i, j], mask=(columns < N).reshape(1, PART))


def histogram(x: tw.Tensor, bins: int, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """How often each of the numbers 0, 1, … bins - 1 occurs in `x`, i32; others do not count."""
    check_tensor("histogram", "x", x, INDICES)
    if bins < 1:
        raise tw.LaunchError(f"histogram counts in at least one bin, not {bins}")
    counts = output("histogram", out, (bins,), i32, x)
    cleared = tw.fill(counts, 0)
    if not x.size:
        return cleared
    (line,) = lines_of("histogram", x)
    config = element_config("histogram", line)
    part = config["PART"]
    kernel = config.applied_to(histogram_elements)
    grid = kernel.grid(line.shape[0], -(-line.shape[1] // part))
    return giving(cleared.then(lambda _: grid(counts, line, PART=part)), counts)

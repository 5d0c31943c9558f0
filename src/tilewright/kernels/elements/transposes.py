"""Transposition of the last two axes into new memory."""

from __future__ import annotations

from math import prod
from typing import Literal

import tilewright as tw
from tilewright import Const, Cut, Mut, Ref
from tilewright.dims import BM, BN, L, M, N, T
from tilewright.kernels.arguments import (
    MOVED,
    check_tensor,
    giving,
    output,
    reshaped,
)
from tilewright.kernels.cutting import square_config
from tilewright.kernels.elements.copying import convert
from tilewright.kernels.large_tiles import on_cpu

__all__ = ["transpose", "transpose_tiles"]


@tw.kernel(deny_checks=True)
def transpose_tiles(
    z: Mut[T, Cut[L, Literal[1]], Cut[N, BN], Cut[M, BM]],
    x: Ref[T, L, M, N],
    *,
    EXACT: Const[bool] = False,
) -> None:
    """`z[l, n, m] = x[l, m, n]`. EXACT: tiles cover both tensors exactly."""
    at, j, i = z.index
    tile = x.partition(1, BM, BN, exact=EXACT)[at, i, j].permute(0, 2, 1)
    z.partition(1, BN, BM, exact=EXACT).store(tile, 0, 0, 0)


@tw.function
def transpose(x: tw.Tensor, *, out: tw.Tensor | None = None) -> tw.DeviceOp[tw.Tensor]:
    """`x` with its last two axes exchanged: `z[..., n, m] = x[..., m, n]`.

    `x.T` and `x.permute(…)` are views of the same memory and cost nothing. A copy pays where the
    result is read along its rows.
    """
    check_tensor("transpose", "x", x, MOVED)
    if x.ndim < 2:
        raise tw.LaunchError(f"transpose exchanges two axes, and shape {x.shape} has {x.ndim}")
    *outer, m, n = x.shape
    z = output("transpose", out, (*outer, n, m), x.dtype, x)
    if not z.size:
        return tw.value(z, device=z.device)
    source = reshaped("transpose", "x", x, (prod(outer), m, n))
    target = reshaped("transpose", "out", z, (prod(outer), n, m))
    if on_cpu(z):
        return giving(convert(target, source.permute(0, 2, 1)), z)
    config = square_config("transpose", source)
    pieces = target.partition(1, config["BN"], config["BM"])
    exact = m % config["BM"] == 0 and n % config["BN"] == 0
    return giving(config.applied_to(transpose_tiles)(pieces, source, EXACT=exact), z)

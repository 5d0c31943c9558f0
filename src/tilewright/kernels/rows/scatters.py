"""Scatter of rows: `out[index[k]] = x[k]`.

No block owns the row that an index names, since two indices may be equal. A first kernel inverts
the index: every k is written to the row it names, and the greatest k stays, a maximum that blocks
may take in any order. In a second kernel each block owns rows of the output and reads, for each,
the row of `x` found for it.
"""

from __future__ import annotations

from math import prod

import tilewright as tw
from tilewright import Accum, Const, Mut, Ref, i32
from tilewright.dims import BM, BN, K, M, N, T
from tilewright.kernels.arguments import (
    INDICES,
    MOVED,
    check_one_device,
    check_tensor,
    giving,
    reshaped,
)
from tilewright.kernels.large_tiles import tile_for
from tilewright.kernels.placeholders import ID

__all__ = ["last_places", "scatter", "scatter_rows"]

PART = 1024  # elements of a block


@tw.kernel(deny_checks=True)
def last_places(places: Accum[i32, M], index: Ref[ID, K], *, SIZE: Const[int] = PART) -> None:
    """`places[index[k]] = max(places[index[k]], k)`; an index without a row is dropped."""
    at = tw.block_id(0) * SIZE + tw.arange(SIZE)
    places.max_at(at, index.gather(at), mask=at < K)


@tw.kernel(deny_checks=True)
def scatter_rows(z: Mut[T, BM, BN], places: Ref[i32, M], x: Ref[T, K, N]) -> None:
    """`z[m] = x[places[m]]`; a row whose place is negative keeps its elements."""
    tw.require(z.shape[0] == M)
    tw.require(z.shape[1] == N)
    i, j = z.index
    at = places.partition(BM, padding=0)[i][:, None]
    columns = (j * BN + tw.arange(BN))[None, :]
    z.store(x.gather(at, columns), mask=at >= 0)


@tw.function
def scatter(x: tw.Tensor, index: tw.Tensor, *, out: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
    """`out[index[k]] = x[k]` for every row `k` of `x`; the other rows of `out` stay unchanged.

    Where an index occurs more than once, the last of those rows is written, the same on every run.
    An index without a row in `out`, negative ones included, is skipped. `x` is [K, …], `out` is
    [M, …] with the same axes behind, and `index` is [K].
    """
    check_tensor("scatter", "x", x, MOVED)
    check_tensor("scatter", "index", index, INDICES)
    check_tensor("scatter", "out", out, (x.dtype,))
    check_one_device("scatter", x=x, index=index, out=out)
    if not x.ndim or index.shape != x.shape[:1] or out.shape[1:] != x.shape[1:] or not out.ndim:
        raise tw.LaunchError(
            f"scatter puts rows of `x`, shape {x.shape}, into `out`, shape {out.shape}: `index` "
            f"has a number for each row, not shape {index.shape}, and the axes behind are the same"
        )
    if not x.size or not out.size:
        return tw.value(out, device=out.device)
    width = prod(x.shape[1:])
    rows = reshaped("scatter", "x", x, (len(x), width))
    target = reshaped("scatter", "out", out, (len(out), width))
    size = tile_for(out, PART)
    columns = min(tw.next_power_of_2(width), size)
    places = tw.empty((len(out),), i32, device=out.device)
    found = last_places.grid(tw.cdiv(len(x), size))
    marked = tw.fill(places, -1).then(lambda _: found(places, index, SIZE=size))
    pieces = (size // columns, columns)
    return giving(marked.then(lambda _: scatter_rows(target.partition(*pieces), places, rows)), out)

"""Products whose work is dealt out evenly, whatever the number of tiles.

An output of few tiles leaves much of a GPU idle in its last round. Here all steps of all sums stand
in one line, tile behind tile, and each block has an equal stretch of it: the end of one tile, some
whole ones, the start of another. What a block has of a tile is a part of its sums; a second kernel
adds the parts in the order of the line, so results are the same at every run.
"""

from __future__ import annotations

from typing import Any, Literal

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, A, B, C, K, M, N, P, T, X, Y, Z
from tilewright.kernels.epilogues import BIAS, OUT, RESIDUAL, finished
from tilewright.kernels.products import Product, only_matrix, specialised
from tilewright.kernels.views import kept
from tilewright.tune import Config

__all__ = ["add_shares_kernel", "launch_shares", "matmul_shares_kernel", "parts_of_shares"]

ADDED_TILE = (16, 128)  # of the kernel that adds parts, at most


class SLOTS(tw.Dim):
    """Tiles that a block can have something of."""


@tw.kernel(deny_checks=True)
def matmul_shares_kernel(
    parts: Mut[f32, SLOTS, BM, BN], a: Ref[T, M, K], b: Ref[T, K, N],
    *, FACTOR: Const[type[tw.DType]], BK: Const[int] = 64, LATENCY: Const[int] = 0,
    IS_FAST: Const[bool] = False,
) -> None:  # fmt: skip
    """What this block has of the sums of `a @ b`, tile by tile."""
    left, right = a.partition(BM, BK), b.partition(BK, BN)
    rows, columns, steps = left.num_tiles(0), right.num_tiles(1), left.num_tiles(1)
    line = rows * columns * steps
    share = tw.cdiv(line, tw.num_blocks(0))
    begin = tw.block_id(0) * share
    end = min(begin + share, line)
    first, own = begin // steps, parts.partition(1, BM, BN)
    for slot in range(min((end - 1) // steps - first + 1, own.num_tiles(0))):
        tile = first + slot
        # Tiles that follow each other have the same columns, so that they share what is read.
        i, j = left.clip(tile % rows, 0), right.clip(tile // rows, 1)
        acc = tw.zeros((BM, BN), f32)
        for k in range(max(begin - tile * steps, 0), min(end - tile * steps, steps)):
            x = left.load(i, k, latency=LATENCY or None).astype(FACTOR)
            y = right.load(k, j, latency=LATENCY or None).astype(FACTOR)
            acc = tw.mma(x, y, acc, fast_acc=IS_FAST)
        own.store(acc.reshape(1, BM, BN), slot, 0, 0)


# The dims of `bias` and `residual` are tied to no others, because a stand-in may have any.
@tw.kernel(deny_checks=True, occupancy=4)  # it only reads: as much as possible at a time
def add_shares_kernel(
    out: Mut[OUT, Literal[1], BM, BN], parts: Ref[f32, P, M, N],
    bias: Ref[BIAS, A, B, C], residual: Ref[RESIDUAL, X, Y, Z],
    rows: i32, steps: i32, share: i32, *, SLOTS: Const[int],
    HAS_BIAS: Const[bool] = False, ACTIVATION: Const[int] = 0, HAS_RESIDUAL: Const[bool] = False,
) -> None:  # fmt: skip
    """`out = activation(sum of its parts + bias) + residual`; tiles of parts are `[M, N]`."""
    _, i, j = out.index
    tiles = parts.partition(1, BM, BN)
    biases = bias.partition(1, 1, BN) if HAS_BIAS else None
    residuals = residual.partition(1, BM, BN) if HAS_RESIDUAL else None
    down, across = tiles.num_tiles(1), tiles.num_tiles(2)  # pieces of a tile
    tile = j // across * rows + i // down
    acc = tw.zeros((BM, BN), f32)
    for block in range(tile * steps // share, ((tile + 1) * steps - 1) // share + 1):
        part = tiles.clip(block * SLOTS + tile - block * share // steps, 0)
        acc += tiles[part, i % down, j % across].reshape(BM, BN)
    result = finished(acc, (0, i, j), biases, ACTIVATION, residuals)
    out.store(result.astype(out.dtype).reshape(1, BM, BN))


def parts_of_shares(m: int, n: int, k: int, config: Config) -> tuple[int, int, int, int]:
    """Rows of tiles, steps of a tile, steps of a block, and tiles that it can have parts of."""
    rows, columns, steps = (
        -(-extent // config[name]) for extent, name in ((m, "BM"), (n, "BN"), (k, "BK"))
    )
    share = -(-rows * columns * steps // config["SHARES"])
    return rows, steps, share, -(-(share - 1) // steps) + 1


def launch_shares(wanted: Product, config: Config) -> tw.DeviceOp[Any]:
    """The launches of a product of one matrix with a configuration that has SHARES."""
    rows, steps, share, slots = parts_of_shares(*wanted.form.shape, config)
    height, width = config["BM"], config["BN"]
    device = wanted.out.device
    parts = tw.empty((config["SHARES"] * slots, height, width), f32, device=device)
    kernel, constants = specialised(matmul_shares_kernel, wanted.form, config, is_last=False)
    factors = (kept(one, only_matrix) for one in (wanted.a, wanted.b))
    sums = kernel(parts.partition(slots, height, width), *factors, **constants)
    piece = (min(height, ADDED_TILE[0]), min(width, ADDED_TILE[1]))
    return sums.then(
        lambda _: add_shares_kernel(
            wanted.out.partition(1, *piece), parts, wanted.bias, wanted.residual,
            rows, steps, share, SLOTS=slots, **wanted.form.epilogue,
        )
    )  # fmt: skip

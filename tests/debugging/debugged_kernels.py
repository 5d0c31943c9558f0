"""Kernels that stop in the debugger, or whose tiles are looked at."""

from typing import NamedTuple

import tilewright as tw
from tilewright import Accum, Cut, Mapped, Mut, Ref, bf16, f32, i32, u8
from tilewright.dims import BM, B, K, M, N


class Pair(NamedTuple):
    low: tw.Tile[f32]
    high: tw.Tile[f32]


@tw.kernel
def scaled(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], by: f32) -> None:
    tile = x.load_like(z)
    product = tile * by
    breakpoint()
    z.store(product)


@tw.kernel
def stops_in_a_branch(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
    tile = x.load_like(z)
    if z.index[0] == 1:
        half = tile / 2
        breakpoint()
        tile = half
    z.store(tile)


@tw.kernel
def stops_with_arguments(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
    breakpoint(1)
    z.store(x.load_like(z))


@tw.kernel
def row_sums(z: Mut[f32, Cut[M, BM]], x: Ref[bf16, M, K]) -> None:
    xs = x.partition(BM, 8)
    acc = tw.zeros((BM,), f32)
    for k in range(xs.num_tiles(1)):
        part = xs[z.index[0], k].astype(f32)
        acc += tw.sum(part, axis=1)
    z.store(acc)


@tw.kernel
def walked(z: Mapped[u8, Cut[N, B]], x: Ref[u8, N]) -> None:
    for at in z.indices():
        tile = x.partition(B)[at[0]]
        ends = Pair(tile.astype(f32), (tile + 1).astype(f32))
        flags = tile > 250
        z.store(tw.where(flags, ends.low, ends.high).astype(u8), at)


@tw.kernel
def nameless(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


@tw.kernel
def counted(total: Accum[i32, K], x: Ref[i32, N]) -> None:
    mine = tw.sum(x.partition(16)[tw.block_id(0)])
    total.add_at(mine, 0)

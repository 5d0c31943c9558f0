"""Kernels of the programs in this folder."""

import tilewright as tw
from tilewright import Accum, Const, Cut, Mapped, Mut, Ref, f32, i32
from tilewright.dims import B, K, N


@tw.kernel
def add(z: Mut[f32, Cut[N, B]], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@tw.kernel(deny_checks=True)
def scale(z: "Mut[f32, Cut[N, B]]", x: "Ref[f32, N]", *, BY: Const[int] = 2) -> None:
    z.store(x.load_like(z) * BY)


@tw.kernel
def walk(z: Mapped[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
    for at in z.indices():
        z.store(x.partition(B)[at[0]], at)


@tw.kernel
def count(bins: Accum[i32, K], x: Ref[i32, N], *, SIZE: Const[int] = 16) -> None:
    i = tw.block_id(0)
    bins.add_at(1, x.partition(SIZE)[i], mask=i * SIZE + tw.arange(SIZE) < N)


@tw.function
def doubled(x: tw.Tensor, *, out: tw.Tensor) -> tw.DeviceOp[tuple[tw.Tensor, ...]]:
    return scale(out.partition(16), x)

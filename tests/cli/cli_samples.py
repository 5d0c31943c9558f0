"""Kernels that the tests of the command line look at, and other things with a name."""

import enum

import tilewright as tw
from tilewright import Const, DType, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, K, M, N, T

LIMIT = 3


@tw.kernel
def copy(z: Mut[T, BM, BN], x: Ref[T, M, N]) -> None:
    z.store(x.load_like(z))


@tw.kernel
def widened(
    z: Mut[f32, B], x: Ref[T, N], *, TWICE: Const[bool], TO: Const[type[DType]] = f32
) -> None:
    tile = x.load_like(z).astype(TO)
    z.store(tile + tile if TWICE else tile)


@tw.kernel
def scaled(z: Mut[f32, B], x: Ref[f32, N], *, BY: Const[float] = 2.0) -> None:
    z.store(x.load_like(z) * BY)


class Kind(enum.Enum):
    PLAIN = 0
    DOUBLE = 2
    FREE = "as given"
    OTHER = "2"  # its text is that of DOUBLE's


@tw.kernel
def chosen(
    z: Mut[f32, B], x: Ref[f32, N], *, KIND: Const[Kind] = Kind.DOUBLE, BY: Const[int] = 1
) -> None:
    tile = x.load_like(z) * BY
    z.store(tile + tile if KIND is Kind.DOUBLE else tile)


@tw.kernel
def widths(z: Mut[f32, B], x: Ref[f32, N], *, N: Const[int]) -> None:
    z.store(x.load_like(z) * N)


def part(x, i):
    return x.partition(16)[i]


@tw.kernel
def picked(z: Mut[f32, B], x: Ref[f32, N], rows: Ref[i32, K], step: i32) -> None:
    tw.require(N % 16 == 0)
    i = rows.partition(1)[z.index[0] // step].item()
    z.store(tw.sum(part(x, i)) + tw.zeros((B,), f32))


@tw.kernel
def constant(z: Mut[f32, B]) -> None:
    z.store(tw.ones((B,), f32))


@tw.kernel(deny_checks=True)
def denied(z: Mut[f32, B], x: Ref[f32, N], rows: Ref[i32, K]) -> None:
    z.store(x.partition(B)[rows.partition(1)[0].item()])


@tw.kernel
def stepped(z: Mut[i32, B], step: i32) -> None:
    total = 0
    for k in range(0, 8, step):
        total += k
    z.store(tw.full((B,), total, i32))

"""Mistakes that both checkers must report, on the marked lines and nowhere else. Never run."""

from __future__ import annotations

from tilewright.dims import BM, BN, B, K, M, N
from tilewright.dtypes import f16, f32, i32
from tilewright.lang import functions as tw
from tilewright.lang import unsafe as raw
from tilewright.lang.accumulator import Accum
from tilewright.lang.annotations import Const, Index, Mapped, Mut, Ref
from tilewright.lang.dimensions import Cut
from tilewright.lang.pointers import Ptr
from tilewright.lang.tile import Tile


def stores(z: Mut[f32, B], x: Ref[f32, N], h: Ref[f16, N], t: Tile[f32]) -> None:
    x.store(t)  # flagged: shared read-only
    x.partition(128).store(t, 0)  # flagged: shared read-only
    z.store(h.load_like(z))  # flagged: f16 into f32
    z.store(t, 0)  # flagged: a Mut has no place to name
    z.store(0.0)  # flagged: not a tile
    z.partition(16).store(h.load_like(z), 0)  # flagged: f16 into f32
    z.dtype = f32  # flagged: cannot be assigned


def cut_outputs(
    z: Mut[f32, Cut[N, B]],
    y: Mut[f32, Cut[N]],  # flagged: no tile
    t: Tile[f32],
) -> None:
    z.store(t.astype(f16))  # flagged: f16 into f32


def walks(z: Mapped[f32, BM, BN], t: Tile[f32]) -> None:
    z.store(t)  # flagged: no place
    z.store(t, 0)  # flagged: a number is no place of the walk
    z.store(t, (0, 1))  # flagged: neither are two
    for at in z.indices():
        z.store(t.astype(f16), at)  # flagged: f16 into f32
        z.load(at + 1)  # flagged: places cannot be computed with
    z.load(Index())  # flagged: nor made


def sums(total: Accum[f32, N], t: Tile[f32], h: Tile[f16], x: Ref[f32, N]) -> None:
    total.load()  # flagged: nobody reads an accumulator
    total.store(t)  # flagged: nor stores to it
    total[0]  # flagged: nor reads it so
    total.partition(128)  # flagged: nor cuts it
    total.add(h, 0)  # flagged: f16 into f32
    total.add(t, h)  # flagged: a tile places no tile
    total.add_at(h, 0)  # flagged: f16 into f32
    total.add_at(t, 0, mask=t)  # flagged: no truth values
    t + total  # flagged: nobody reads an accumulator
    x.add(t, 0)  # flagged: shared read-only


def ranges(z: Mapped[f32, B], y: Mut[f32, B], alpha: f32, t: Tile[i32], n: i32) -> None:
    z.indices_within((0.5, n))  # flagged: not whole
    z.indices_within((0, alpha))  # flagged: a float scalar
    z.indices_within(n)  # flagged: a pair
    z.indices_within((0, n, 2))  # flagged: no step
    z.indices_with(y)  # flagged: pieces are not walked
    z.indices_with(z, within=(0, n))  # flagged: one range for each axis
    z.piece(0)  # flagged: only a walk makes an index
    z.piece((0,))  # flagged: only a walk makes an index
    z.partition(4)  # flagged: take a piece first
    for at in z.indices():
        z.piece(at).store(t)  # flagged: i32 into f32
        at + 1  # flagged: a place, not a number
    z.indices_within((0, t))  # flagged: a tile is no number


def indices(x: Ref[f32, M, K], alpha: f32, t: Tile[i32], at: Index) -> None:
    xs = x.partition(BM, 64)
    xs[0.5, 0]  # flagged: not whole
    xs[alpha, 0]  # flagged: a float scalar
    xs[t, 0]  # flagged: a tile is no index
    xs[at, 0]  # flagged: unpack it
    xs["a", 0]  # flagged: text
    x.partition(0.5)  # flagged: not whole
    xs.num_tiles(alpha)  # flagged: not an axis
    x[0, 0] + 1  # flagged: a tensor without axes, `.item()` is its element
    range(alpha)  # flagged: not whole


def mixtures(a: Tile[f32], b: Tile[f16], alpha: f16, n: i32) -> None:
    a + b  # flagged: two dtypes
    a * alpha  # flagged: two dtypes
    alpha * a  # flagged: two dtypes
    alpha + n  # flagged: two dtypes
    a @ b  # flagged: two dtypes
    _ = a < b  # flagged: two dtypes
    _ = a == b  # flagged: two dtypes
    tw.maximum(a, b)  # flagged: two dtypes
    tw.fma(a, a, b)  # flagged: two dtypes
    tw.where(a > 0, a, b)  # flagged: two dtypes
    tw.where(a, a, a)  # flagged: not a condition
    alpha & 1  # flagged: bits of a float


def functions(a: Tile[f32], z: Mut[f32, B], *, BK: Const[int] = 64) -> None:
    tw.exp("a")  # flagged: text
    tw.sum(z)  # flagged: load it first
    tw.sum(a, axis=0.5)  # flagged: not an axis
    tw.zeros((BM, BN), float)  # flagged: not a dtype
    a.astype(float)  # flagged: not a dtype
    a.store(a)  # flagged: tiles are values
    BK.bit_length("a")  # flagged: BK is an int
    tw.exq(a)  # flagged: no such function
    Tile()  # flagged: tiles come from loads and functions
    if a > 0:  # flagged by pyright: a tile is no truth value
        tw.require(not a)  # flagged by pyright: here neither


def unsafety(p: Ptr[f32], a: Tile[i32], x: Ref[f32, B]) -> None:
    raw.store(p, a)  # flagged: another dtype
    raw.load(x)  # flagged: not a pointer
    raw.load(p, ordering="release")  # flagged: a load releases nothing
    raw.store(p, 1.0, ordering="acquire")  # flagged: a store acquires nothing
    raw.atomic_add(p, 1.0, ordering="weak")  # flagged: never weak
    raw.load(p, scope="grid")  # flagged: no such scope
    p * 2  # flagged: pointers are moved, not multiplied
    p[0]  # flagged: pointers are loaded from
    x.partition(4).store_unchecked(a, 0)  # flagged: shared read-only

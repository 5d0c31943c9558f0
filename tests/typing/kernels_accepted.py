"""Kernels that must pass mypy --strict and pyright (standard and strict) without a word.

Never run: `test_typing_checkers.py` hands this file to the checkers.
"""

# pyright: strict

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

from tilewright.dims import BD, BH, BK, BM, BN, BS, B, D, H, K, M, N, S, T
from tilewright.dtypes import (
    AnyDType,
    DType,
    bool_,
    f8e4m3fn,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    i4,
    i8,
    i32,
    i64,
    u8,
)
from tilewright.lang import functions as tw
from tilewright.lang import unsafe as raw
from tilewright.lang.accumulator import Accum
from tilewright.lang.annotations import Const, Index, Mapped, Mut, Partition, Ref
from tilewright.lang.dimensions import All, Dim
from tilewright.lang.pointers import Ptr
from tilewright.lang.tile import Tile

F = TypeVar("F", bound=Callable[..., None])


def kernel(function: F) -> F:
    return function


class HEADS(Dim): ...


class WIDE(AnyDType): ...


Elem = TypeVar("Elem", bound=DType)


@kernel
def add(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


@kernel
def saxpy(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N], alpha: f32) -> None:
    z.store(alpha * x.load_like(z) + y.load_like(z))


@kernel
def softmax(z: Mut[f32, B, D], x: Ref[f32, M, N]) -> None:
    t = x.load_like(z)
    e = tw.exp(t - tw.max(t, axis=1, keepdims=True))
    z.store(e / tw.sum(e, axis=1, keepdims=True))


@kernel
def gemm(z: Mut[f32, BM, BN], x: Ref[f32, M, K], y: Ref[f32, K, N], *, BK: Const[int] = 64) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)


@kernel
def persistent_gemm(
    z: Mapped[T, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 64
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc.astype(z.dtype), at)


def put(z: Mapped[f32, BM, All], at: Index, tile: Tile[f32]) -> Index:
    z.piece(at).partition(BM, 64).store(tile, 0, 0)
    return at


@kernel
def walks(
    z: Mapped[f32, BM, All], y: Mapped[f32, BM, All], w: Mapped[i32, B],
    x: Ref[f32, M, N], first: Ref[i32, Literal[1]], n: i32,
) -> None:  # fmt: skip
    start = first.partition(1)[0].item()
    for at in z.indices_with(y, within=((start, start + M), None)):
        row, _ = put(z, at, x.partition(BM, 64)[0, 0])
        piece = y.piece(at)
        parts = piece.partition(BM, 64)
        for c in range(parts.num_tiles(1)):
            parts.store(parts[0, c] * 2 + x.partition(BM, 64)[row - start, c], 0, c)
    for place in w.indices_within((n, 8)):
        w.store(w.load(place) + place[0], place)
        w.piece(place).store(w.load(place))


@kernel
def permute_heads(z: Mut[T, BS, BH, BM, BD], x: Ref[T, B, HEADS, S, D]) -> None:
    b, h, s, d = z.index
    t = x.partition(BS, BM, BH, BD)[b, s, h, d]
    z.store(t.permute(0, 2, 1, 3))


@kernel
def rms_norm(z: Mut[T, B, BD], x: Ref[T, M, N], w: Ref[T, N], eps: f32) -> None:
    tw.require(N % BD == 0)
    xs, ws = x.partition(B, BD), w.partition(BD)
    row, _ = z.index
    squares = tw.zeros((B,), f32)
    for k in range(xs.num_tiles(1)):
        part = xs[row, k].astype(f32)
        squares += tw.sum(part * part, axis=1)
    scale = tw.rsqrt(squares / N + eps)
    weights = ws[z.index[1]].astype(f32)
    z.store((x.load_like(z).astype(f32) * scale[:, None] * weights[None, :]).astype(z.dtype))


@kernel
def parts(z: Mut[f32, BM, Literal[2560]], x: Ref[f32, M, Literal[2560]]) -> None:
    out, rows = z.partition(BM, 512), x.partition(BM, 512)
    i = z.index[0]
    for k in range(out.num_tiles(1)):
        out.store(rows[i, k] + out[0, k], 0, k)


@kernel
def gathered(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M], n: i32, flag: bool_) -> None:
    i = ids.partition(1)[tw.block_id(0)].item()
    t = x.partition(B)[tw.clamp(i, 0, n)]
    if flag and n > 4 and BM == 64 and BM * 2 < N:
        t = t + x.partition(B)[2 * tw.block_id() + 1]
    for k in range(0, n, BK):
        t = t + x.partition(B)[k // BK]
    z.store(t + z.load())


@kernel
def scalars(z: Mut[f32, BM, BN], alpha: f32, beta: f32, n: i32) -> None:
    gamma = -alpha * 2.0 + beta / (1 - alpha) ** 2
    scale = 1.0 / math.sqrt(D) + 1 / BM + BM**2 + (BM << 1) - 2 * BN // 3
    count = tw.cdiv(n, BM) + tw.num_blocks(0) + n * BM + BM * n % 4
    tw.static_assert(BM >= BN, "tall tiles only")
    t = z.load()
    t = tw.fma(t, alpha, 1.0) + tw.fma(2.0, t, beta) + tw.fma(gamma, beta, t) + tw.exp(gamma)
    t = tw.where(t > 0, t, 0.0) + tw.where(t == 0.0, 1, t) + tw.where(t < alpha, alpha, 1.0)
    t = t + tw.where(t > 0, 1, 0) + tw.where(t > 0, 0.5, 0)
    t = tw.where(gamma > 1, t, t) if alpha == 0.0 else tw.where((t != 1) & ~(t >= 2), t, beta)
    t = tw.maximum(t, 0) + tw.minimum(0, t) + tw.maximum(alpha, t) + tw.maximum(alpha, beta)
    t = tw.clamp(t, -1, alpha) + tw.clamp(gamma, 0, 1) + (2.0 - t) / N + scale
    z.store(abs(t) ** 2 % 3 // 4 if count > 1 else t)


@kernel
def shapes(z: Mut[f32, BM, BN], x: Ref[f32, BN, BM], *, DEEP: Const[bool] = True) -> None:
    t: Tile[f32] = x.partition(BN, BM)[0, 0]
    columns = tw.arange(BN)[None, :].broadcast_to(BM, BN)
    flat = t.T.reshape(BM * BN).reshape((BM, BN))
    if DEEP:
        flat = flat.permute(1, 0).T
    z.store(doubled(flat, z.dtype) + columns.astype(f32) + tw.full((BM, BN), 0.5, f32))


@kernel
def formulas(
    z: Mut[f32, B],
    x: Ref[f32, N],
    s: f32,
    *,
    ACT: Const[Callable[[Tile[f32]], Tile[f32]]],
    MODE: Const[str] = "fast",
) -> None:
    t: Tile[f32] = x.windows(B, step=B, start=-1)[0]
    t = tw.erf(t) + tw.log1p(t) + tw.expm1(t) + tw.sigmoid(t) + tw.round(t) + tw.erf(s)
    numbers: Tile[bool_] = tw.isfinite(t) & ~tw.isnan(t) & ~tw.isinf(t)
    one: bool_ = tw.isnan(s)
    first, second = tw.split(t, interleaved=True)
    t = tw.join(first, second, interleaved=True) + tw.mean(t, axis=0, keepdims=True)
    width: int = tw.next_power_of_2(BN) + tw.log2(8) + tw.cdiv(100, BN)
    t = tw.where(numbers & one, ACT(t), float(width + width.bit_length()))
    places: Tile[i32] = tw.argsort(t, descending=True)
    greatest, where = tw.top_k(tw.sort(t), 4)
    t = tw.take_along_axis(t, places, 0, padding=1.0) + tw.sum(greatest)
    z.scatter(t, places, mask=t > 0)
    z.scatter(1.0, tw.sum(where).item())
    z.store(t, mask=numbers)
    z.store(t if MODE == "fast" else t + t)


def doubled(x: Tile[Elem], dtype: type[f32]) -> Tile[f32]:
    return (x + x).astype(dtype)


@kernel
def converted(z: Mut[WIDE, B], x: Ref[T, N]) -> None:
    z.store(x.load_like(z).astype(z.dtype))


def first(x: Partition[f32], at: Index) -> Tile[f32]:
    return x[at[0], 0]


@kernel
def row_max(z: Mut[T, B], x: Ref[T, M, N], *, ACC: Const[type[DType]] = f32) -> None:
    rows = x.partition(B, 128, padding=-math.inf)
    best = tw.full((B,), -math.inf, ACC)
    for k in range(rows.num_tiles(1)):
        best = tw.maximum(best, tw.max(rows[z.index[0], k].astype(ACC), axis=1))
    z.store(best.astype(z.dtype))


@kernel
def products(z: Mut[f32, BM, BN], a: Ref[f16, BM, BK], b: Ref[i8, BM, BK], c: Ref[f64, H]) -> None:
    half: Tile[f32] = a.partition(BM, BK)[0, 0] @ a.partition(BK, BN)[0, 0]
    whole: Tile[i32] = b.partition(BM, BK)[0, 0] @ b.partition(BK, BN)[0, 0]
    double: Tile[f64] = c.partition(16)[0][:, None] @ c.partition(16)[0][None, :]
    z.store(half + whole.astype(f32) + double.astype(f32))


@kernel
def owned_rows(z: Mut[f32, BM, All], x: Ref[f32, M, N]) -> None:
    parts = z.partition(1, 64)
    begin, end = z.rows
    for i in range(end - begin):
        for j in range(parts.num_tiles(1)):
            parts.store(x.partition(1, 64)[begin + i, j] * parts[i, j], i, j)


@kernel
def ragged(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    low, high = z.segment
    at: Tile[i32] = tw.arange(B) + low
    row: Tile[f32] = x.gather(at, mask=at < high)
    z.store(x.load_like(z) + tw.sum(row).item())


@kernel
def accumulate(
    done: Mut[i32, B], sums: Accum[f32, M, N], counts: Accum[i32, K], x: Ref[f32, M, N], n: i32
) -> None:
    i = done.index[0]
    tile = x.partition(16, 16)[i, 0]
    sums.add(tile * 2, i, 0)
    sums.add_at(1.0, tw.arange(4)[:, None], tw.arange(16), mask=tw.arange(16) < n)
    counts.add(n, 0)
    counts.add_at(1, done.load(), mask=done.load() > 0)
    counts.add_at(done.load(), n)
    sums.add(tw.zeros(sums.shape, sums.dtype), i, n + 1)


def pointers(z: Mut[f32, B], x: Ref[f32, N], p: Ptr[f32], n: i32) -> None:
    with raw.unsafe("only the checkers read this"):
        at = p + tw.arange(B)
        rows = (p - n)[:, None] + (4 + at.reshape(B, 1).broadcast_to(B, B))
        loaded: Tile[f32] = raw.load(at, mask=tw.arange(B) < n, padding=1.0, ordering="acquire")
        raw.store(rows, loaded, ordering="release", scope="system")
        before: Tile[f32] = raw.atomic_add(at, 1.0, ordering="acquire_release")
        raw.assume(n >= 0 and z.shape[0] > 4)
        bounded: i32 = raw.assume_bounds(n, 0, upper=7)
        aligned: Ptr[f32] = raw.assume_divisible(at, 16)
        raw.atomic_cas(aligned, before, loaded)
        parts = z.partition(32)
        parts.store_unchecked(parts.load_unchecked(0), 1)
        z.store(x.partition(B).load_unchecked(tw.block_id()) + raw.load(p + bounded).item())


@kernel
def reading(
    z: Mut[f32, BM, BN], x: Ref[f32, M, N], ids: Ref[i64, K], scale: Ref[f32], at: i64
) -> None:
    places: Tile[i32] = z.index[0] * BM + tw.arange(BM, i32)
    rows = ids.gather(places, padding=-1, latency=3)
    picked = x.gather(rows[:, None], tw.arange(BN, i32), mask=rows[:, None] > 0, padding=0.5)
    first: i64 = ids.gather(0).item()
    second: i64 = ids.gather(first + 1, mask=first > 2, padding=-1) + 1
    turned = x.partition(BM, BN, order=(1, 0))
    around = x.windows(BM, BN, step=(2, 4), padding=math.inf)
    tile: Tile[f32] = turned.load(turned.clip(first, 0), 0, latency=2, allow_tma=False)
    z.store(picked * scale.item() + tile + around[around.clip(at, 0), second])


@dataclass(frozen=True)
class Running:
    best: Tile[f32]
    count: int = 0


class Bounds(NamedTuple):
    low: int
    high: int


LIMITS = Bounds(0, 7)


def first_above(p: Partition[f32], limit: float, *, start: int = 0) -> int:
    for i in range(start, p.num_tiles(0)):
        if tw.max(p[i]).item() > limit:
            return i
    return LIMITS.high


@kernel
def leaving(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    xs = x.partition(B)
    state = Running(tw.zeros((B,), f32))
    low, high = LIMITS
    for step in tw.static_range(1, 3):
        state = replace(state, count=state.count + step * low)
    i = first_above(xs, 0.5, start=1)
    while i < high:
        i += 1
        if i == n:
            continue
        if i >= xs.num_tiles(0):
            break
        assert i > 0, "counts up"
        state = Running(tw.maximum(state.best, xs[i]), state.count + 1)
    if state.count > n:
        print(f"{i} of {n}", state.best)  # noqa: T201
        return
    z.store(state.best)


def larger(a: f32, i: i32, b: f32, j: i32) -> tuple[f32, i32]:
    return (a if a > b else b), (i if a > b else j)


@kernel
def functions(z: Mut[f32, B], x: Ref[f32, N], y: Ref[i32, N], n: i32) -> None:
    t, k = x.load_like(z), y.load_like(z)
    maths: Tile[f32] = tw.tan(t) + tw.atan2(t, 1.0) + tw.pow(t, k) + t**2 + tw.cosh(t)
    rounded = tw.sqrt(t, rounding="zero", ftz=True) + tw.divide(t, 3, rounding="approx")
    rounded += tw.add(t, n.astype(f32)) + tw.fma(t, t, 1, rounding="up") + tw.exp2(t, ftz=True)
    ends: Tile[f32] = tw.maximum(t, 0, nan=True) + tw.max(t, axis=(0,), nan=True)
    whole: Tile[i32] = tw.mulhi(k, 3) + tw.argmax(t, axis=-1) + tw.cumsum(k, 0, reverse=True)
    truth: Tile[bool_] = tw.any(t > 0) & tw.all(k, axis=0, keepdims=True)
    total: Tile[f32] = tw.reduce(t, lambda a, b: a + b, 0.0)
    best, place = tw.reduce((t, k), larger, (-math.inf, 0), axis=0)
    running = tw.scan(t, lambda a, b: a * b, 1.0, axis=0, reverse=True)
    parts = tw.insert(t, tw.extract(t, n, 16), (n,)) + tw.cat((t, t), axis=0)
    bits: Tile[u8] = tw.pack(tw.unpack(k.astype(u8), i4)) + tw.bitcast(k.astype(i8), u8)
    four: tuple[Tile[f32], Tile[f32], Tile[f32], Tile[f32]] = tw.rand4x(k, f32, seed=n)
    chance = tw.rand((B,), f32, seed=n, offset=z.index[0]) + tw.prod(t) + tw.cumprod(t) + four[1]
    short: Tile[f16] = t.astype(f16, rounding="zero")
    z.store(
        maths + rounded + ends + whole.astype(f32) + truth.astype(f32) + total + best + parts
        + running + bits.astype(f32) + chance + short.astype(f32) + place.astype(f32)
    )  # fmt: skip


@kernel
def scaled(z: Mut[f32, BM, BN], x: Ref[f8e4m3fn, M, K], s: Ref[f8e8m0fnu, M, K]) -> None:
    a, scale = x.partition(BM, 64)[0, 0], s.partition(BM, 2)[0, 0]
    acc: Tile[f32] = tw.zeros((BM, BN), f32)
    acc = tw.mma_scaled(a, a.T, acc, scale, scale.T)
    z.store(tw.mma(a, a.T, acc, fast_acc=True))

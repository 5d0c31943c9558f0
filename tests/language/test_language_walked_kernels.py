"""Kernels as one writes them for walked outputs, each with no check left inside."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mapped, Ref, bf16, f32, i32
from tilewright.dims import BD, BM, BN, B, D, K, M, N, T


@tw.kernel(deny_checks=True)
def gemm(z: Mapped[f32, BM, BN], x: Ref[T, M, K], y: Ref[T, K, N], *, BK: Const[int] = 16) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc, at)


@pytest.mark.parametrize("group", [1, (2, 1), (2, 2)])
@pytest.mark.parametrize("blocks", [1, 5, None])
def test_persistent_gemm(blocks, group):
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(s, np.float32) for s in ((70, 33), (33, 50)))
    z = tw.full((70, 50), np.nan, f32)
    with tw.race_check():
        cut = z.partition(16, 16).persistent(blocks=blocks, group=group)
        gemm(cut, tw.from_numpy(x), tw.from_numpy(y)).sync()
    np.testing.assert_allclose(z.numpy(), x @ y, rtol=1e-5, atol=1e-5)


class HEADS(tw.Dim): ...


@tw.kernel(deny_checks=True)
def append_to_cache(
    keys: Mapped[T, 1, 1, BD],
    values: Mapped[T, 1, 1, BD],
    new_keys: Ref[T, HEADS, M, D],
    new_values: Ref[T, HEADS, M, D],
    position: Ref[i32, 1],
) -> None:
    """Put `M` new rows behind those that both caches hold; the GPU knows how many those are."""
    tw.require(keys.shape[0] == HEADS)
    tw.require(keys.shape[2] == D)
    first = position.partition(1)[0].item()
    ks, vs = new_keys.partition(1, 1, BD), new_values.partition(1, 1, BD)
    for at in keys.indices_with(values, within=(None, (first, first + M), None)):
        head, row, part = at
        keys.store(ks[head, row - first, part], at)
        values.store(vs[head, row - first, part], at)


@pytest.mark.parametrize("first", [0, 5, 14, 16, 900, -2, 2**31 - 1])
def test_append_to_a_cache_at_a_position_that_the_device_knows(first):
    rng = np.random.default_rng(2)
    new = [rng.standard_normal((3, 2, 12), np.float32) for _ in range(2)]
    caches = [rng.standard_normal((3, 16, 12), np.float32) for _ in range(2)]
    tensors = [tw.from_numpy(cache) for cache in caches]
    cuts = [cache.partition(1, 1, 8).persistent(blocks=4) for cache in tensors]
    with tw.race_check():
        place = tw.from_numpy(np.array([first], np.int32))
        append_to_cache(*cuts, *map(tw.from_numpy, new), place).sync()
    rows = [(row, row + first) for row in range(2) if 0 <= row + first < 16]
    for cache, added, tensor in zip(caches, new, tensors, strict=True):
        for source, target in rows if first + 2 < 2**31 else []:
            cache[:, target] = added[:, source]
        np.testing.assert_array_equal(tensor.numpy(), cache)


@tw.kernel(deny_checks=True)
def add_rms_norm(
    z: Mapped[T, 1, BD], total: Mapped[T, 1, BD], x: Ref[T, M, N], y: Ref[T, M, N], w: Ref[T, N]
) -> None:
    """`total = x + y`, and z its rows scaled to a mean square of one; a row is one tile."""
    tw.require(N <= BD)
    tw.require(z.shape[0] == M)
    xs, ys, ws = x.partition(1, BD), y.partition(1, BD), w.partition(BD)
    for at in z.indices_with(total):
        i, j = at
        if j < ws.num_tiles(0):
            row = xs[i, j].astype(f32) + ys[i, j].astype(f32)
            total.store(row.astype(total.dtype), at)
            scale = tw.rsqrt(tw.sum(row * row) / N.astype(f32) + 1e-6)
            z.store((row * scale * ws[j].astype(f32)[None, :]).astype(z.dtype), at)


@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("shape", [(7, 29), (1, 32), (64, 3), (0, 8)], ids=str)
def test_two_outputs_of_one_walk(shape, dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(shape, np.float32).astype(dtype.element.numpy) for _ in range(2))
    w = rng.standard_normal(shape[1], np.float32).astype(dtype.element.numpy)
    z, total = tw.zeros(shape, dtype), tw.zeros(shape, dtype)
    with tw.race_check():
        cuts = (out.partition(1, 32).persistent(blocks=4) for out in (z, total))
        add_rms_norm(*cuts, *map(tw.from_numpy, (x, y, w))).sync()
    row = x.astype(np.float32) + y.astype(np.float32)
    scaled = row / np.sqrt((row**2).mean(1, keepdims=True) + 1e-6) * w.astype(np.float32)
    rtol = 1e-5 if dtype is f32 else 2e-2
    np.testing.assert_allclose(total.numpy().astype(np.float32), row, rtol=rtol)
    np.testing.assert_allclose(z.numpy().astype(np.float32), scaled, rtol=rtol, atol=1e-6)


@tw.kernel(deny_checks=True)
def split_sums(parts: Mapped[f32, 1, B], x: Ref[f32, M, N], share: i32) -> None:
    """Row s of `parts` sums the rows from s*share to (s+1)*share of x: a sum over M, split."""
    tw.require(share > 0)
    xs = x.partition(1, B)
    for at in parts.indices():
        s, j = at
        acc = tw.zeros((1, B), f32)
        for step in range(share):
            row = s * share + step
            if row >= 0 and row < xs.num_tiles(0) and j < xs.num_tiles(1):
                acc += xs[row, j]
        parts.store(acc, at)


@pytest.mark.parametrize("share", [1, 3, 10])
def test_a_split_sum(share):
    x = np.arange(10 * 21, dtype=np.float32).reshape(10, 21)
    parts = tw.full((-(-10 // share), 21), np.nan, f32)
    with tw.race_check():
        split_sums(parts.partition(1, 8).persistent(blocks=3), tw.from_numpy(x), share).sync()
    np.testing.assert_array_equal(parts.numpy().sum(0), x.sum(0))


@tw.kernel(deny_checks=True)
def scaled_in_parts(z: Mapped[f32, 6, 12], x: Ref[f32, M, N]) -> None:
    """Tiles that are no powers of two, each done in parts that are."""
    tw.require(z.shape[0] == M)
    tw.require(z.shape[1] == N)
    xs = x.partition(2, 4)
    for at in z.indices():
        piece = z.piece(at)
        i, j = piece.index
        parts = piece.partition(2, 4)
        for r in range(parts.num_tiles(0)):
            for c in range(parts.num_tiles(1)):
                parts.store(parts[r, c] + xs[i * 3 + r, j * 3 + c], r, c)


@pytest.mark.parametrize("shape", [(12, 24), (13, 25), (5, 7), (6, 50)], ids=str)
def test_tiles_that_are_no_powers_of_two(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    z = tw.from_numpy(x * 10)
    with tw.race_check():
        scaled_in_parts(z.partition(6, 12).persistent(blocks=2), tw.from_numpy(x)).sync()
    np.testing.assert_array_equal(z.numpy(), x * 11)


@tw.kernel(deny_checks=True)
def rms_norm(z: Mapped[T, 1, tw.All], x: Ref[T, M, N], w: Ref[T, N], *, BN: Const[int]) -> None:
    """Rows of any length, each owned by one step of the walk and done in parts."""
    tw.require(z.shape[0] == M)
    tw.require(z.shape[1] == N)
    xs, ws = x.partition(1, BN), w.partition(BN)
    for at in z.indices():
        parts = z.piece(at).partition(1, BN)
        squares = tw.zeros((1, BN), f32)
        for c in range(parts.num_tiles(1)):
            part = xs[at[0], c].astype(f32)
            squares += part * part
        scale = tw.rsqrt(tw.sum(squares) / N.astype(f32) + 1e-6)
        for c in range(parts.num_tiles(1)):
            part = xs[at[0], c].astype(f32) * scale * ws[c].astype(f32)[None, :]
            parts.store(part.astype(z.dtype), 0, c)


@pytest.mark.parametrize("shape", [(7, 29), (1, 32), (5, 3), (3, 0), (0, 3), (2, 100)], ids=str)
@pytest.mark.parametrize("blocks", [1, 3, 99])
def test_a_walk_over_rows_that_are_owned_whole(shape, blocks):
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal(shape, np.float32), rng.standard_normal(shape[1], np.float32)
    z = tw.full(shape, np.nan, f32)
    with tw.race_check():
        cut = z.partition(1, None).persistent(blocks=blocks)
        rms_norm(cut, tw.from_numpy(x), tw.from_numpy(w), BN=8).sync()
    scale = np.sqrt((x**2).sum(1, keepdims=True) / max(shape[1], 1) + 1e-6)
    np.testing.assert_allclose(z.numpy(), x / scale * w, rtol=1e-5, atol=1e-6)


@tw.kernel(deny_checks=True)
def owned_middle(
    z: Mapped[i32, 1, tw.All, 2], y: Mapped[i32, 1, tw.All, 2], first: Ref[i32, 1], n: i32
) -> None:
    """Ranges, a group and a partner beside an owned axis, which may have a range as well."""
    start = first.partition(1)[0].item()
    for at in z.indices_with(y, within=((start, 9), (0, n), None)):
        i, own, k = at
        ours, theirs = z.piece(at).partition(1, 4, 2), y.piece(at).partition(1, 2, 2)
        for c in range(ours.num_tiles(1)):
            ours.store(ours[0, c, 0] + (1 + i * 100 + own * 10 + k), 0, c, 0)
        for c in range(theirs.num_tiles(1)):
            theirs.store(theirs[0, c, 0] + 1, 0, c, 0)


@pytest.mark.parametrize(("n", "steps"), [(1, 1), (5, 1), (0, 0), (-3, 0)])
@pytest.mark.parametrize("group", [1, (1, 2, 2)])
def test_ranges_and_partners_beside_an_owned_axis(n, steps, group):
    z, y = tw.full((4, 6, 5), 7, i32), tw.full((4, 3, 5), 7, i32)
    with tw.race_check():
        cuts = [out.partition(1, None, 2).persistent(blocks=3, group=group) for out in (z, y)]
        owned_middle(*cuts, tw.from_numpy(np.array([1], np.int32)), n).sync()
    i, _, k = np.ogrid[:4, :6, :5]
    inside = (i >= 1) & (steps == 1)
    wanted = np.broadcast_to(np.where(inside, 8 + i * 100 + k // 2, 7), z.shape)
    np.testing.assert_array_equal(z.numpy(), wanted)
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(np.where(inside, 8, 7), y.shape))


@tw.kernel(deny_checks=True)
def all_owned(z: Mapped[i32, tw.All, tw.All]) -> None:
    for at in z.indices():
        parts = z.piece(at).partition(2, 4)
        for r in range(parts.num_tiles(0)):
            for c in range(parts.num_tiles(1)):
                parts.store(parts[r, c] + 1 + at[0] + at[1], r, c)


@pytest.mark.parametrize("shape", [(5, 9), (1, 1), (0, 4)], ids=str)
def test_an_output_that_is_one_tile_belongs_to_one_block(shape):
    z = tw.zeros(shape, i32)
    with tw.race_check():
        all_owned(z.partition(None, None).persistent(blocks=4)).sync()
    assert (z.numpy() == 1).all()

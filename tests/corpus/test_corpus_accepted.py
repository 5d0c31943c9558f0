"""Kernels that must be accepted with no check inside: `deny_checks` makes one an error."""

import numpy as np
import pytest
from ledgers import X, outcomes, tensor

import tilewright as tw
from tilewright import All, Const, Mapped, Mut, Ref, f32, i32
from tilewright.check.ledger import Rung
from tilewright.dims import BM, BN, B, K, M, N, P, Q

PROVED, LAUNCH = Rung.PROVED, Rung.LAUNCH
RNG = np.random.default_rng(4)


def zeros(*shape, dtype=i32):
    return tw.zeros(shape, dtype)


# --- persistent_gemm, cross_tensor_gemm_undeclared ---


@tw.kernel(deny_checks=True)
def persistent_gemm(
    z: Mapped[f32, BM, BN], x: Ref[f32, M, K], y: Ref[f32, K, N], *, BK: Const[int] = 16
) -> None:
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    for at in z.indices():
        i, j = at
        acc = tw.zeros((BM, BN), f32)
        for k in range(xs.num_tiles(1)):
            acc = tw.mma(xs[i, k], ys[k, j], acc)
        z.store(acc, at)


@tw.kernel(deny_checks=True)
def untied_gemm(z: Mut[f32, BM, BN], x: Ref[f32, M, K], y: Ref[f32, P, N]) -> None:
    i, j = z.index
    xs, ys = x.partition(BM, 16), y.partition(16, BN)
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)


def factors(m, k, n):
    pair = RNG.standard_normal((m, k)), RNG.standard_normal((k, n))
    return [array.astype(np.float32) for array in pair]


@pytest.mark.parametrize(("m", "k", "n"), [(64, 64, 64), (37, 53, 41), (16, 1, 16), (5, 0, 7)])
def test_persistent_gemm(m, k, n):
    x, y = factors(m, k, n)
    z = zeros(m, n, dtype=f32)
    call = z.partition(16, 16).persistent(blocks=3, group=(2, 1)), *map(tw.from_numpy, (x, y))
    persistent_gemm(*call).sync()
    np.testing.assert_allclose(z.numpy(), x @ y, rtol=1e-3, atol=1e-3)
    # Rows and columns of the operands are not tied to those of the output: the launch compares.
    assert outcomes(persistent_gemm, *call, subject="x") == [LAUNCH, PROVED]
    assert outcomes(persistent_gemm, *call, subject="y") == [PROVED, LAUNCH]


def test_cross_tensor_gemm_undeclared():
    x, y = factors(32, 48, 32)
    z = zeros(32, 32, dtype=f32)
    call = z.partition(16, 16), *map(tw.from_numpy, (x, y))
    untied_gemm(*call).sync()
    np.testing.assert_allclose(z.numpy(), x @ y, rtol=1e-3, atol=1e-3)
    assert outcomes(untied_gemm, *call).count(LAUNCH) == 3
    longer = np.pad(y, ((0, 40), (0, 0)))
    untied_gemm(z.partition(16, 16), tw.from_numpy(x), tw.from_numpy(longer)).sync()
    # As many tiles are enough: the last one may be shorter.
    band = tw.from_numpy(np.ascontiguousarray(y[:33]))
    untied_gemm(z.partition(16, 16), tw.from_numpy(x), band).sync()
    with pytest.raises(tw.LaunchError, match="`y`, axis 0"):
        untied_gemm(z.partition(16, 16), tw.from_numpy(x), tw.from_numpy(y[:32].copy()))


# --- block ids ---


@tw.kernel(deny_checks=True)
def block_id_indexed(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    parts = z.partition(2)
    t = x.partition(B)[tw.block_id(0)]
    for j in range(parts.num_tiles(0)):
        parts.store(tw.full((2,), tw.sum(t), i32), j)


@tw.kernel(deny_checks=True)
def repacked(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    pair = (tw.block_id(0), 7)
    i, _ = pair
    far = i + 2147483647 - 2147483647
    z.store(x.partition(B)[far])


@tw.kernel(deny_checks=True)
def chosen_by_constant(z: Mut[i32, B], x: Ref[i32, N], *, SHIFTED: Const[bool] = False) -> None:
    i = tw.block_id(0)
    if SHIFTED:
        i = i + 100
    z.store(x.partition(B)[i])


def test_block_id_indexed_load_and_store():
    z = zeros(16)
    block_id_indexed(z.partition(4), tensor(range(16))).sync()
    assert z.numpy().tolist() == np.repeat([6, 22, 38, 54], 4).tolist()
    with pytest.raises(tw.LaunchError, match="`x`, axis 0"):
        block_id_indexed(zeros(20).partition(4), tensor(range(16)))


def test_wrapping_identity_of_a_block_id():
    z = zeros(16)
    repacked(z.partition(4), tensor(range(16))).sync()
    assert z.numpy().tolist() == list(range(16))
    assert outcomes(repacked, z.partition(4), tensor(range(16))) == [LAUNCH]


def test_const_if_index_identity():
    z = zeros(16)
    chosen_by_constant(z.partition(4), tensor(range(16))).sync()
    assert z.numpy().tolist() == list(range(16))
    with pytest.raises(tw.LaunchError, match="goes from 100 to 103"):
        chosen_by_constant(z.partition(4), tensor(range(16)), SHIFTED=True)


# --- loops over tiles ---


@tw.kernel(deny_checks=True)
def plain_num_tiles(z: Mut[i32, B], x: Ref[i32, N]) -> None:
    xs = x.partition(B)
    total = tw.zeros((B,), i32)
    for i in range(xs.num_tiles(0)):
        total += xs[i]
    z.store(total)


@tw.kernel(deny_checks=True)
def nested_loops(z: Mut[i32, B], x: Ref[i32, M, N]) -> None:
    xs = x.partition(1, B)
    total = tw.zeros((1, B), i32)
    for i in range(xs.num_tiles(0)):
        for j in range(0, xs.num_tiles(1), 2):
            total += xs[i, j]
        for j in range(xs.num_tiles(1) - 1, -1, -1):
            total -= xs[i, j]
    z.store(total.reshape((B,)))


@tw.kernel(deny_checks=True)
def parts_of_a_piece(z: Mut[i32, BM, BN], x: Ref[i32, M, N]) -> None:
    i, j = z.index
    parts, xs = z.partition(2, BN), x.partition(BM, BN)
    t = xs[i, j]
    for part in range(parts.num_tiles(0)):
        parts.store(tw.full((2, BN), tw.sum(t) + part, i32), part, 0)


@pytest.mark.parametrize("n", [16, 13, 1, 0])
def test_plain_num_tiles_loops(n):
    z, x = zeros(4), np.pad(X[:n], (0, -n % 4))
    call = z.partition(4), tensor(X[:n])
    plain_num_tiles(*call).sync()
    assert z.numpy().tolist() == x.reshape(-1, 4).sum(0).tolist()
    assert outcomes(plain_num_tiles, *call) == [PROVED]


def test_nested_loops_with_steps_up_and_down():
    x, z = X.reshape(4, 16), zeros(4)
    nested_loops(z.partition(4), tensor(x)).sync()
    tiles = x.reshape(4, 4, 4)
    assert z.numpy().tolist() == (tiles[:, ::2].sum((0, 1)) - tiles.sum((0, 1))).tolist()


@pytest.mark.parametrize("shape", [(8, 8), (6, 7), (3, 1)])
def test_partition_mut_with_a_num_tiles_loop(shape):
    x = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    z = zeros(*shape)
    parts_of_a_piece(z.partition(4, 4), tensor(x)).sync()
    wanted = np.zeros(shape, np.int32)
    for i, j in np.ndindex(*(-(-n // 4) for n in shape)):
        piece = np.s_[4 * i : 4 * i + 4, 4 * j : 4 * j + 4]
        wanted[piece] = x[piece].sum() + (np.arange(len(wanted[piece])) // 2)[:, None]
    np.testing.assert_array_equal(z.numpy(), wanted)


# --- walks ---


@tw.kernel(deny_checks=True)
def mapped_copy(z: Mapped[i32, BM, BN], x: Ref[i32, M, N]) -> None:
    xs = x.partition(BM, BN)
    for at in z.indices():
        i, j = at
        z.store(xs[i, j], at)


@tw.kernel(deny_checks=True)
def shared_map_dual_store(
    y: Mapped[i32, BM, BN], z: Mapped[i32, BM, BN], x: Ref[i32, P, Q]
) -> None:
    for at in y.indices_with(z):
        i, j = at
        t = x.partition(BM, BN)[i, j]
        y.store(t, at)
        z.store(t + 1, at)


@pytest.mark.parametrize("group", [(1, 1), (2, 1), (2, 2)])
def test_mapped_copy_of_full_axes(group):
    x, z = np.arange(77, dtype=np.int32).reshape(7, 11), zeros(7, 11)
    mapped_copy(z.partition(2, 4).persistent(blocks=3, group=group), tensor(x)).sync()
    np.testing.assert_array_equal(z.numpy(), x)


def test_shared_map_dual_store():
    x, y, z = np.arange(77, dtype=np.int32).reshape(7, 11), zeros(7, 11), zeros(7, 11)
    cut = [t.partition(2, 4).persistent(blocks=3) for t in (y, z)]
    shared_map_dual_store(*cut, tensor(x)).sync()
    np.testing.assert_array_equal(y.numpy(), x)
    np.testing.assert_array_equal(z.numpy(), x + 1)


@tw.kernel(deny_checks=True)
def owned_axis(z: Mapped[i32, BM, All], x: Ref[i32, M, N]) -> None:
    for at in z.indices():
        parts = z.piece(at).partition(BM, 4)
        for j in range(parts.num_tiles(1)):
            parts.store(x.partition(BM, 4)[at[0], j], 0, j)


def test_owned_axis_composite():
    x, z = np.arange(77, dtype=np.int32).reshape(7, 11), zeros(7, 11)
    owned_axis(z.partition(2, None).persistent(blocks=3), tensor(x)).sync()
    np.testing.assert_array_equal(z.numpy(), x)


@tw.kernel(deny_checks=True)
def owned_axis_within(z: Mapped[i32, BM, All], x: Ref[i32, M, N], first: i32) -> None:
    for at in z.indices_within((first, first + 2), (0, 1)):
        parts = z.piece(at).partition(BM, 4)
        for j in range(parts.num_tiles(1)):
            parts.store(x.partition(BM, 4)[at[0], j], 0, j)


@pytest.mark.parametrize("first", [-1, 0, 1, 3])
def test_a_range_beside_an_owned_axis(first):
    x, z = np.arange(77, dtype=np.int32).reshape(7, 11), zeros(7, 11)
    owned_axis_within(z.partition(2, None).persistent(blocks=3), tensor(x), first).sync()
    walked = np.isin(np.arange(7) // 2, range(max(first, 0), first + 2))
    np.testing.assert_array_equal(z.numpy(), np.where(walked[:, None], x, 0))

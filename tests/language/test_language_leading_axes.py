"""Tensors at places of their leading axes: `q[b, h]` has the axes that are left."""

import re
import warnings
from typing import Literal

import numpy as np
import pytest
from running import assert_same, run

import tilewright as tw
from tilewright import All, Const, Cut, Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, D, H, K, L, M, N, S
from tilewright.frontend.signature.samples import sample_specialization

pytestmark = pytest.mark.filterwarnings("error::tilewright.ExtentWarning")

X = np.random.default_rng(0).standard_normal((2, 3, 10, 6)).astype(np.float32)


@tw.kernel(deny_checks=True)
def heads(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BN]],
    q: Ref[f32, B, H, S, D],
) -> None:
    b, h, i, j = z.index
    z[b, h].store(q[b, h].partition(BM, BN)[i, j] * 2)


@tw.kernel(deny_checks=True)
def walked(
    z: Mapped[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BN]],
    q: Ref[f32, B, H, S, D],
) -> None:
    for at in z.indices():
        b, h, i, j = at
        z.piece(at)[b, h].store(q[b][h].partition(BM, BN)[i, j] * 2)


@tw.kernel(deny_checks=True)
def alike(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BN]],
    q: Ref[f32, B, H, S, D],
) -> None:
    b, h, _, _ = z.index
    own = z[b, h]
    own.store(q[b, h].load_like(own) * 2)
    own.store(own.load())


@tw.kernel(deny_checks=True)
def in_parts(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, All], Cut[D, BN]],
    q: Ref[f32, B, H, S, D],
) -> None:
    b, h, _, j = z.index
    rows, parts = q[b, h].partition(4, BN), z[b, h].partition(4, BN)
    for i in range(rows.num_tiles(0)):
        parts.store(rows[i, j], i, 0)
        parts.store(parts[i, 0] * 2, i, 0)


@tw.kernel(deny_checks=True)
def gathered(
    z: Mut[f32, Cut[B, Literal[1]], Cut[H, Literal[1]], Cut[S, BM], Cut[D, BN]],
    q: Ref[f32, B, H, S, D],
) -> None:
    b, h, i, j = z.index
    rows, columns = i * BM + tw.arange(BM), j * BN + tw.arange(BN)
    z[b, h].store(
        q[b, h].gather(rows[:, None], columns) * q[b].gather(h, 0, 0) / q[b, h, 0, 0].item() * 2
    )


@pytest.mark.parametrize("kernel", [heads, walked, alike, in_parts, gathered])
def test_matrices_of_heads(kernel):
    z = tw.full(X.shape, 9, f32)
    cut = z.partition(1, 1, None if kernel is in_parts else 4, 4)
    cut = cut.persistent(blocks=5) if kernel is walked else cut
    kernel(cut, tw.from_numpy(X)).sync()
    np.testing.assert_allclose(z.numpy(), X * 2, rtol=1e-5)


@pytest.mark.parametrize("kernel", [heads, walked, alike, in_parts])
def test_every_place_is_proved_by_the_signature(kernel):
    compiled = kernel.specialized(sample_specialization(kernel.signature, "cpu"))
    assert compiled.ledger.counts.proved >= 2
    assert compiled.facts.launch_checks == ()


def test_windows_orders_and_counts():
    @tw.kernel
    def turned(z: Mut[f32, Cut[N, BN], Cut[M, BM]], x: Ref[f32, K, M, N]) -> None:
        j, i = z.index
        last = x[K - 1]
        tiles = last.partition(BN, BM, order=(1, 0))
        tw.require(tiles.num_tiles(0) == tw.cdiv(N, BN) and last.shape[0] == M)
        z.store(tiles[j, i] + last.windows(4, 4, step=(1, 2))[0, 0][:, :] * 0)

    x = X[0, :, :8, :4].copy()
    z = tw.zeros((4, 8), f32)
    turned(z.partition(4, 4), tw.from_numpy(x)).sync()
    assert_same(z.numpy(), x[2].T)


def test_elements():
    @tw.kernel
    def diagonal(z: Mut[f32, Cut[M, Literal[1]]], x: Ref[f32, M, M]) -> None:
        i = z.index[0]
        z.store(tw.full((1,), x[i, i].item() + x[i][i].item(), f32))

    x = X[0, 0, :6].copy()
    assert_same(run(diagonal, ((6,), f32), 1, x), 2 * np.diagonal(x))


def test_places_that_only_the_kernel_knows_are_checked_in_it():
    @tw.kernel
    def picked(
        z: Mut[f32, Cut[L, Literal[1]], Cut[D, BN]], x: Ref[f32, M, D], at: Ref[i32, L]
    ) -> None:
        i, j = z.index
        z[i].store(x[at[i].item()].partition(BN)[j])

    x, z = tw.from_numpy(X[0, 0]), tw.zeros((3, 6), f32)
    picked(z.partition(1, 4), x, tw.from_numpy(np.array([2, 9, 0], np.int32))).sync()
    assert_same(z.numpy(), X[0, 0][[2, 9, 0]])
    for wrong in (10, -1):
        with pytest.raises(tw.OutOfBoundsError) as failed:
            picked(z.partition(1, 4), x, tw.from_numpy(np.array([2, wrong, 0], np.int32))).sync()
        assert (failed.value.axis, failed.value.index, failed.value.extent) == (0, wrong, 10)


def test_places_that_the_launch_knows_are_compared_there():
    @tw.kernel(deny_checks=True)
    def shifted(z: Mut[f32, Cut[D, BN]], x: Ref[f32, M, D], row: i32) -> None:
        z.store(x[row].partition(BN)[z.index[0]])

    z, x = tw.zeros((6,), f32), tw.from_numpy(X[0, 0])
    shifted(z.partition(4), x, 9).sync()
    assert_same(z.numpy(), X[0, 0][9])
    text = "`x`, axis 0: index 10, but the axis has 10 tiles, 0 to 9"
    with pytest.raises(tw.LaunchError, match=re.escape(text)):
        shifted(z.partition(4), x, 10)
    with pytest.raises(tw.LaunchError, match="index -1"):
        shifted(z.partition(4), x, -1)


def test_a_place_that_is_never_there():
    @tw.kernel
    def before(z: Mut[f32, Cut[D, BN]], x: Ref[f32, M, D]) -> None:
        z.store(x[-1].partition(BN)[z.index[0]])

    with pytest.raises(tw.CompileError, match="index -1 is below the start of `x` along axis 0"):
        before(tw.zeros((6,), f32).partition(4), tw.from_numpy(X[0, 0]))


def test_functions_take_them_like_any_tensor():
    def total(rows, j, width):
        return tw.sum(rows.partition(4, width)[0, j], axis=0)

    @tw.kernel
    def sums(z: Mut[f32, Cut[B, Literal[1]], Cut[D, BN]], x: Ref[f32, B, M, D]) -> None:
        tw.require(M <= 4)
        b, j = z.index
        z[b].store(total(x[b], j, BN))

    x = X[0, :, :4].copy()
    z = tw.zeros((3, 6), f32)
    sums(z.partition(1, 4), tw.from_numpy(x)).sync()
    np.testing.assert_allclose(z.numpy(), x.sum(axis=1), rtol=1e-5)


def test_padding_that_takes_part_in_a_reduction_is_still_seen():
    @tw.kernel
    def largest(z: Mut[f32, Cut[B, Literal[1]]], x: Ref[f32, B, N], *, W: Const[int] = 8) -> None:
        z.store(tw.max(x[z.index[0]].partition(W)[0], axis=0, keepdims=True))

    x = tw.from_numpy(-np.ones((2, 6), np.float32))
    with pytest.warns(tw.PaddingWarning, match="axis 1 of `x` has 6 elements"):
        largest(tw.zeros((2,), f32).partition(1), x).sync()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        largest(tw.zeros((2,), f32).partition(1), tw.ones((2, 8), f32)).sync()


def test_an_index_along_a_leading_axis_ties_the_output():
    @tw.kernel
    def loose(z: Mut[f32, Literal[1], Cut[D, BN]], x: Ref[f32, M, D]) -> None:
        i, j = z.index
        z[i].store(x[i].partition(BN)[j])

    with pytest.warns(
        tw.ExtentWarning, match=r"write `z: Mut\[f32, Cut\[M, Literal\[1\]\], Cut\[D, BN"
    ):
        loose(tw.zeros((3, 6), f32).partition(1, 4), tw.ones((3, 6), f32)).sync()

"""Indices that are inside, proved under deny_checks: next to each refusal of bounds."""

from typing import Literal

import numpy as np
import pytest
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, M, N

IDS = np.array([1, 0], np.int32)


@neighbour_of("bounds/constant_past_the_end")
def test_the_last_tile_of_a_fixed_extent():
    @tw.kernel(deny_checks=True)
    def last(z: Mut[f32, B], x: Ref[f32, Literal[256]]) -> None:
        z.store(x.partition(B)[1])

    np.testing.assert_array_equal(launched(last, X), np.tile(X[128:], 2))


@neighbour_of("bounds/negative_constant")
def test_the_last_tile_counted_from_the_end():
    @tw.kernel(deny_checks=True)
    def last(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        xs = x.partition(B)
        z.store(xs[xs.num_tiles(0) - 1])

    np.testing.assert_array_equal(launched(last, X), np.tile(X[128:], 2))
    with pytest.raises(tw.LaunchError, match="the axis is empty"):
        launched(last, X[:0])


@neighbour_of("bounds/negative_loop_start", "bounds/loop_one_too_far")
def test_a_loop_over_all_tiles_but_one():
    @tw.kernel(deny_checks=True)
    def summed(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        xs = x.partition(B)
        acc = tw.zeros((B,), f32)
        for i in range(1, xs.num_tiles(0)):
            acc += xs[i] + xs[i - 1]
        z.store(acc)

    wanted = X.reshape(4, 64)
    total = wanted[1:].sum(0) + wanted[:-1].sum(0)
    got = launched(summed, X, shape=(64,), tile=(64,))
    np.testing.assert_allclose(got, total, rtol=1e-6)


@neighbour_of("bounds/denied_device_read_index", "bounds/denied_part_index")
def test_a_guard_proves_a_device_read_index():
    @tw.kernel(deny_checks=True)
    def gather(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
        parts, xs = z.partition(32), x.partition(32)
        tile = tw.zeros((32,), f32)
        z.store(tw.zeros((B,), f32))
        b = z.index[0]
        if b < M:
            i = ids.partition(1)[b].item()
            if i >= 0 and i < xs.num_tiles(0):
                tile = xs[i]
            if 0 <= i < parts.num_tiles(0):
                parts.store(tile, i)

    wanted = np.zeros((2, 4, 32), np.float32)
    wanted[0, 1], wanted[1, 0] = X.reshape(8, 32)[1], X.reshape(8, 32)[0]
    np.testing.assert_array_equal(launched(gather, X, IDS), wanted.reshape(-1))


@neighbour_of(
    "bounds/denied_divisor", "bounds/division_by_zero", "bounds/division_of_constants_by_zero"
)
def test_a_guard_proves_a_divisor():
    @tw.kernel(deny_checks=True)
    def divided(z: Mut[i32, B], ids: Ref[i32, M]) -> None:
        n = ids.partition(1)[0].item()
        share = 0
        if n > 0:
            share = 100 // n + 100 % n
        z.store(tw.full((B,), share + 64 // 4, i32) // 3)

    got = launched(divided, np.array([7], np.int32), dtype=i32)
    assert (got == (100 // 7 + 100 % 7 + 16) // 3).all()


@neighbour_of("bounds/part_past_the_piece")
def test_the_last_part_of_a_piece():
    @tw.kernel(deny_checks=True)
    def last(z: Mut[f32, B]) -> None:
        z.store(tw.zeros((B,), f32))
        parts = z.partition(32)
        if parts.num_tiles(0) > 3:
            parts.store(tw.ones((32,), f32), 3)

    np.testing.assert_array_equal(launched(last), np.arange(256) % 128 >= 96)
    got = launched(last, shape=(200,))
    np.testing.assert_array_equal(got, (np.arange(200) >= 96) & (np.arange(200) < 128))


@neighbour_of(
    "bounds/require_of_a_device_value", "bounds/require_of_a_loop_variable",
    "bounds/require_that_is_false", "bounds/require_that_cannot_hold",
    "bounds/require_divided_by_zero",
)  # fmt: skip
def test_preconditions_on_what_a_launch_knows():
    @tw.kernel(deny_checks=True)
    def required(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M], n: i32) -> None:
        xs = x.partition(B)
        tw.require(B % 64 == 0)
        tw.require(N > 0 and xs.num_tiles(0) <= 4)
        tw.require(0 <= n < xs.num_tiles(0))
        tile = xs[n]
        if ids.partition(1)[0].item() > 0:
            tile = -tile
        z.store(tile)

    np.testing.assert_array_equal(launched(required, X, IDS, 1), -np.tile(X[128:], 2))
    with pytest.raises(tw.LaunchError, match=r"the kernel requires `0 <= n < xs\.num_tiles"):
        launched(required, X, IDS, 2)


@neighbour_of("bounds/step_read_from_memory", "bounds/step_below_zero")
def test_steps_that_are_above_zero():
    @tw.kernel(deny_checks=True)
    def stepped(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M], n: i32) -> None:
        step, tile = ids.partition(1)[0].item(), x.load_like(z)
        if step > 0:
            for _ in range(0, 3, step):
                tile = tile * 2
        for _ in range(0, 3, n):
            tile = -tile
        z.store(tile)

    np.testing.assert_array_equal(launched(stepped, X, IDS, 2), X * 8)
    with pytest.raises(tw.LaunchError, match=r"the step of `range`, `n`, is 0, not above zero"):
        launched(stepped, X, IDS, 0)

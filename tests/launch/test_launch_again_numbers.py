"""Scalars of launches made before: what is equal is not always the same."""

import math

import numpy as np
import pytest
from launch_ways import prepare

import tilewright as tw
from tilewright import Mut, Ref, f32, f64, i32
from tilewright.dims import B, N


@tw.kernel
def scaled(z: Mut[f64, B], x: Ref[f64, N], a: f64) -> None:
    z.store(x.load_like(z) * a)


@tw.kernel
def shifted(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    z.store(x.partition(B)[z.index[0] + n])


@pytest.mark.parametrize("values", [(0.0, -0.0), (-0.0, 0.0), (1, 1.0), (0.1, np.float32(0.1))])
def test_numbers_that_are_equal_and_not_the_same(values):
    z, x = tw.zeros(16, f64), tw.full(16, 1, f64)
    for value in values * 4:
        scaled(z.partition(16), x, value).sync()
        got = z.numpy()[0]
        assert got == float(value)
        assert math.copysign(1, got) == math.copysign(1, value)


def test_nan_and_infinity():
    z, x = tw.zeros(16, f64), tw.full(16, 1, f64)
    for value in (math.nan, math.inf, math.nan, -math.inf, math.inf, math.nan):
        scaled(z.partition(16), x, value).sync()
        np.testing.assert_array_equal(z.numpy(), [value] * 16)


def test_what_is_no_number_is_refused_after_one():
    z, x = tw.zeros(16, f64), tw.full(16, 1, f64)
    prepare(scaled, z.partition(16), x, 1.0)
    for wrong, text in ((True, "not True"), ("1", "not '1'"), (np.bool_(True), "not True")):
        with pytest.raises(tw.LaunchError, match=f"is a scalar of f64, {text}"):
            scaled(z.partition(16), x, wrong)


def test_launch_checks_that_depend_on_a_scalar():
    z, x = tw.zeros(32, f32), tw.from_numpy(np.arange(64, dtype=np.float32))
    prepare(shifted, z.partition(16), x, 1)
    for n, fits in ((2, True), (3, False), (1, True), (-1, False), (0, True)):
        if fits:
            shifted(z.partition(16), x, n).sync()
            assert z.numpy()[0] == 16 * n
        else:
            with pytest.raises(tw.LaunchError, match="kernel `shifted`"):
                shifted(z.partition(16), x, n)


@tw.kernel(deny_checks=True)
def guarded_clip(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    p = x.partition(B)
    z.store(tw.zeros((B,), f32))
    if n > 2:
        z.store(p[p.clip(7, 0)])


@tw.kernel(deny_checks=True)
def guarded_place(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    z.store(tw.zeros((B,), f32))
    if n > 2:
        z.store(x.partition(B)[3])


@tw.kernel(deny_checks=True)
def looped_place(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    z.store(tw.zeros((B,), f32))
    for _ in range(n - 2):
        z.store(x.partition(B)[3])


@pytest.mark.parametrize("kernel", [guarded_clip, guarded_place, looped_place])
def test_a_scalar_that_only_guards_a_check_is_looked_at_again(kernel):
    """The check does not speak of `n`, but whether it is reached depends on it."""
    z, x = tw.zeros((16,), f32), tw.zeros((0,), f32)
    for n in (0, 2, 1, 2):
        kernel(z.partition(16), x, n).sync()
    for n in (3, 4):
        with pytest.raises(tw.LaunchError, match=r"since an index is clipped|axis is empty"):
            kernel(z.partition(16), x, n)
    kernel(z.partition(16), x, 2).sync()

"""Plain Python functions are inlined where they are called; constants come from where they live."""

import math

import inlined_parts
import numpy as np
import pytest
from inlined_parts import WEIGHTS, first_of, load_and_add, normalised, scaled, several, store_twice
from running import LENGTH, assert_same, floats, run

import tilewright as tw
from tilewright import Const, Mut, Ref, f16, f32, i32
from tilewright.dims import B, N, T

LOCAL = 3
PAIR = (2, (0.5, f16))


def doubled(t):
    return t + t


def test_functions_of_this_and_of_another_module():
    @tw.kernel
    def called(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(inlined_parts.scaled(doubled(x.load_like(z)), 0.5, shift=LOCAL))

    assert_same(run(called, ((LENGTH,), f32), 32, floats(f32)), floats(f32) + 3)


def test_defaults_and_keywords():
    @tw.kernel
    def called(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        z.store(scaled(t) + scaled(factor=3, t=t) + scaled(t, shift=1))

    x = floats(f32)
    np.testing.assert_allclose(run(called, ((LENGTH,), f32), 32, x), 7 * x + 1, rtol=1e-5)


def test_functions_that_call_functions():
    @tw.kernel
    def called(z: Mut[f32, B], x: Ref[T, N]) -> None:
        z.store(normalised(x.load_like(z)))

    x = floats(f16)
    pieces = x.astype(np.float32).reshape(2, 32)
    wanted = (pieces - pieces.mean(1, keepdims=True)) * 2 + 1e-5
    got = run(called, ((LENGTH,), f32), 32, x)
    np.testing.assert_allclose(got, wanted.reshape(-1), rtol=1e-4, atol=1e-5)


def test_variadic_functions_tuples_and_stores_in_functions():
    @tw.kernel
    def called(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        one, two, three = several(first_of(t, t, t))
        store_twice(z, load_and_add(x.partition(B), z.index[0], one + two + three))

    x = floats(f32)
    wanted = x + 3 * (x + 3) + 3 + 1
    np.testing.assert_allclose(run(called, ((LENGTH,), f32), 32, x), wanted, rtol=1e-5)


def test_a_constant_branch_ends_a_function():
    def chosen(t, mode):
        if mode == 0:
            return t
        if mode == 1:
            return t + 10
        return t + 20

    @tw.kernel
    def called(z: Mut[f32, B], x: Ref[f32, N], *, MODE: Const[int]) -> None:
        z.store(chosen(x.load_like(z), MODE))
        if MODE == 2:
            return
        z.store(chosen(x.load_like(z), MODE) + 100)

    x = floats(f32)
    for mode, shift in ((0, 100), (1, 110), (2, 20)):
        got = run(called, ((LENGTH,), f32), 32, x, MODE=mode)
        np.testing.assert_allclose(got, x + shift, rtol=1e-5)


def test_a_function_without_a_return_gives_none():
    def nothing(t):
        t + 1

    @tw.kernel
    def called(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        if nothing(x.load_like(z)) is None:
            z.store(x.load_like(z))

    assert_same(run(called, ((LENGTH,), f32), 32, floats(f32)), floats(f32))


def test_constants_tuples_and_modules():
    @tw.kernel
    def constants(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        count, (half, narrow) = PAIR
        t = x.load_like(z).astype(narrow).astype(f32)
        z.store(t * count * half + WEIGHTS[2][1] + WEIGHTS[-1][0] + math.floor_of_pi)

    math.floor_of_pi = 3
    try:
        got = run(constants, ((LENGTH,), f32), 32, floats(f32))
    finally:
        del math.floor_of_pi
    assert_same(got, floats(f32).astype(np.float16).astype(np.float32) + 8)


@pytest.mark.parametrize("factor", [2, 5])
def test_closures_over_constants_and_dtypes(factor):
    def make(factor, dtype):
        @tw.kernel
        def scale(z: Mut[dtype, B], x: Ref[dtype, N]) -> None:
            z.store(x.load_like(z) * factor)

        return scale

    x = np.arange(LENGTH, dtype=np.int32)
    assert_same(run(make(factor, i32), ((LENGTH,), i32), 32, x), x * factor)
    x = floats(f32)
    assert_same(run(make(factor, f32), ((LENGTH,), f32), 32, x), x * factor)


def test_a_local_name_hides_an_outer_one():
    @tw.kernel
    def hidden(z: Mut[i32, B]) -> None:
        LOCAL = 8
        PAIR = LOCAL + 1
        z.store(tw.full((B,), PAIR, i32))

    assert (run(hidden, ((4,), i32), 4) == 9).all()
    assert (LOCAL, PAIR[0]) == (3, 2)


def test_a_parameter_may_be_given_a_new_value():
    @tw.kernel
    def renamed(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        n = n + 1
        x = x.load_like(z) * n.astype(f32)
        z.store(x)

    assert_same(run(renamed, ((LENGTH,), f32), 32, floats(f32), 2), floats(f32) * 3)

"""The functions of the language against NumPy: mathematics, choice, reductions, creation."""

import math

import numpy as np
import pytest
from running import (
    LENGTH,
    apply_binary,
    apply_unary,
    assert_same,
    floats,
    integers,
    numpy_of,
    run,
    special_floats,
)

import tilewright as tw
from tilewright import Const, Mut, Ref, bf16, bool_, f16, f32, i32, u32
from tilewright.dims import BM, BN, B, M, N, T

FLOATS = [f16, bf16, f32]
MATHEMATICS = {
    tw.exp: np.exp,
    tw.exp2: np.exp2,
    tw.log: np.log,
    tw.log2: np.log2,
    tw.sqrt: np.sqrt,
    tw.rsqrt: lambda x: 1 / np.sqrt(x),
    tw.sin: np.sin,
    tw.cos: np.cos,
    tw.tanh: np.tanh,
    tw.ceil: np.ceil,
    tw.floor: np.floor,
    tw.abs: np.abs,
}
TOLERANCE = {f16: 2e-3, bf16: 2e-2, f32: 2e-6}


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.label)
@pytest.mark.parametrize("function", MATHEMATICS, ids=lambda f: f.name)
def test_mathematics(function, dtype):
    @tw.kernel
    def applied(z: Mut[T, B], x: Ref[T, N]) -> None:
        z.store(function(x.load_like(z)))

    x = floats(dtype, 1)
    if function in (tw.log, tw.log2, tw.sqrt, tw.rsqrt):
        x = (np.abs(x) + numpy_of(dtype).type(0.25)).astype(numpy_of(dtype))
    got = run(applied, ((LENGTH,), dtype), 32, x).astype(np.float64)
    wanted = MATHEMATICS[function](x.astype(np.float64))
    np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_functions_of_numbers_outside_their_domain_are_nan():
    def rooted(t):
        return tw.sqrt(t)

    got = apply_unary(rooted, special_floats(f32), f32)
    with np.errstate(invalid="ignore"):
        assert_same(got, np.sqrt(special_floats(f32)))


@pytest.mark.parametrize("dtype", [*FLOATS, i32], ids=lambda d: d.label)
def test_minimum_and_maximum_ignore_nan(dtype):
    def smaller(a, b):
        return tw.minimum(a, b)

    def larger(a, b):
        return tw.maximum(a, b)

    x = integers(1) if dtype is i32 else special_floats(dtype)
    y = np.roll(x, 5)
    wide = np.int64 if dtype is i32 else np.float64
    for function, reference in ((smaller, np.fmin), (larger, np.fmax)):
        wanted = reference(x.astype(wide), y.astype(wide)).astype(numpy_of(dtype))
        assert_same(apply_binary(function, x, y, dtype), wanted)


def test_clamp():
    def clamped(a):
        return tw.clamp(a, -1, 2)

    assert_same(apply_unary(clamped, floats(f32), f32), np.clip(floats(f32), -1, 2))
    assert_same(apply_unary(clamped, integers(), i32), np.clip(integers(), -1, 2))


def test_fma_rounds_once():
    def fused(a, b):
        return tw.fma(a, b, -1)

    x = np.full(LENGTH, 1 + 2**-12, np.float32)
    wanted = (x.astype(np.float64) * x - 1).astype(np.float32)
    assert_same(apply_binary(fused, x, x, f32), wanted)


def test_where_chooses_by_element():
    def chosen(a, b):
        return tw.where(a > b, a, tw.where(a < -1, 0, b))

    x, y = floats(f32, 1), floats(f32, 2)
    wanted = np.where(x > y, x, np.where(x < -1, np.float32(0), y))
    assert_same(apply_binary(chosen, x, y, f32), wanted)


def test_where_takes_a_scalar_condition():
    @tw.kernel
    def chosen(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        z.store(tw.where(n > 3, x.load_like(z), -1))

    assert_same(run(chosen, ((LENGTH,), f32), 32, floats(f32), 4), floats(f32))
    assert (run(chosen, ((LENGTH,), f32), 32, floats(f32), 3) == -1).all()


def test_truth_values_combine():
    def combined(a, b):
        return ((a > 0) & (b > 0)) | ((a < 0) ^ (b < 0))

    x, y = floats(f32, 1), floats(f32, 2)
    assert_same(apply_binary(combined, x, y, bool_), combined(x, y))


# --- reductions -----------------------------------------------------------------------------------

REDUCTIONS = {tw.sum: np.sum, tw.max: np.max, tw.min: np.min}


@tw.kernel
def row_sum(z: Mut[T, BM, 1], x: Ref[T, M, N], *, W: Const[int]) -> None:
    z.store(tw.sum(x.partition(BM, W)[z.index[0], 0], axis=1, keepdims=True))


@pytest.mark.parametrize("dtype", [f32, i32], ids=lambda d: d.label)
@pytest.mark.parametrize("axis", [0, 1, -1, None], ids=str)
@pytest.mark.parametrize("keepdims", [False, True], ids=["dropped", "kept"])
@pytest.mark.parametrize("function", REDUCTIONS, ids=lambda f: f.name)
def test_reductions(function, keepdims, axis, dtype):
    def spread(total):
        if keepdims or axis is None:
            return total.broadcast_to(4, 16)
        return total.broadcast_to(4, 16) if axis == 0 else total[:, None].broadcast_to(4, 16)

    @tw.kernel
    def reduced(z: Mut[T, BM, BN], x: Ref[T, M, N]) -> None:
        z.store(spread(function(x.load_like(z), axis, keepdims)))

    x = np.random.default_rng(0).integers(-9, 9, (8, 16)).astype(numpy_of(dtype))
    got = run(reduced, (x.shape, dtype), (4, 16), x)
    blocks = x.reshape(2, 4, 16)
    over = (1, 2) if axis is None else 1 + axis if axis >= 0 else axis
    wanted = np.broadcast_to(REDUCTIONS[function](blocks, axis=over, keepdims=True), (2, 4, 16))
    assert_same(got, wanted.reshape(x.shape).astype(numpy_of(dtype)))


def test_reductions_of_three_axes_and_of_bytes_in_order():
    @tw.kernel
    def total(z: Mut[i32, B], x: Ref[i32, Literal4, N, N]) -> None:
        t = x.partition(4, 8, 8)[0, 0, 0]
        once = tw.sum(t, axis=1)
        z.store(tw.full((B,), tw.sum(once) + tw.max(t) - tw.min(tw.max(t, 2)), i32))

    x = np.random.default_rng(1).integers(-50, 50, (4, 8, 8)).astype(np.int32)
    got = run(total, ((4,), i32), 4, x)
    assert (got == x.sum() + x.max() - x.max(axis=2).min()).all()


Literal4 = 4


def test_padding_is_the_identity_that_the_author_chose():
    @tw.kernel
    def largest(z: Mut[f32, BM, 1], x: Ref[f32, M, N], *, W: Const[int]) -> None:
        t = x.partition(BM, W, padding=-math.inf)[z.index[0], 0]
        z.store(tw.max(t, axis=1, keepdims=True))

    x = -np.arange(1, 22, dtype=np.float32).reshape(3, 7)
    assert_same(run(largest, ((3, 1), f32), (1, 1), x, W=8), x.max(axis=1, keepdims=True))
    assert_same(run(row_sum, ((3, 1), f32), (1, 1), x, W=8), x.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("padding", [0.0, -0.0, math.nan, math.inf, -math.inf], ids=str)
def test_every_padding(padding):
    @tw.kernel
    def padded(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.partition(B, padding=padding)[0])

    got = run(padded, ((8,), f32), 8, np.arange(3, dtype=np.float32))
    wanted = np.array([0, 1, 2, *[padding] * 5], np.float32)
    np.testing.assert_array_equal(got.view(np.int32)[:3], wanted.view(np.int32)[:3])
    assert_same(got, wanted)
    assert (np.signbit(got[3:]) == np.signbit(wanted[3:])).all() or math.isnan(padding)


# --- creation and blocks --------------------------------------------------------------------------


def test_creation():
    @tw.kernel
    def made(z: Mut[f32, B], n: i32) -> None:
        ramp = tw.arange(B).astype(f32) + tw.arange(B, f32)
        z.store(ramp + tw.zeros((B,), f32) + tw.ones(B, f32) + tw.full((B,), n.astype(f32), f32))

    got = run(made, ((16,), f32), 8, 5)
    np.testing.assert_array_equal(got, np.tile(2 * np.arange(8, dtype=np.float32) + 6, 2))


def test_blocks_know_their_place():
    @tw.kernel
    def places(z: Mut[i32, BM, BN]) -> None:
        number = tw.block_id(0) * tw.num_blocks(1) + tw.block_id(1)
        i, j = z.index
        same = (i == tw.block_id(0)) and (j == tw.block_id())
        z.store(tw.full((BM, BN), number + (100 if same and i != j else 0), i32))

    got = run(places, ((5, 6), i32), (2, 2))
    number = np.arange(9).reshape(3, 3)
    assert_same(got, np.repeat(np.repeat(number, 2, 0), 2, 1)[:5].astype(np.int32))


@pytest.mark.parametrize(("a", "b"), [(0, 4), (1, 4), (4, 4), (5, 4), (2**31 - 1, 2), (-5, 4)])
def test_cdiv_rounds_up(a, b):
    @tw.kernel
    def divided(z: Mut[i32, B], a: i32, b: i32) -> None:
        z.store(tw.full((B,), tw.cdiv(a, b), i32))

    assert (run(divided, ((4,), i32), 4, a, b) == -(-a // b)).all()


def test_python_functions_on_scalars():
    @tw.kernel
    def picked(z: Mut[i32, B], x: Ref[i32, N], n: i32, m: i32) -> None:
        pair = (n, m)
        value = min(n, m, 7) + 10 * max(pair) + 100 * len(pair) + 1000 * len(x.shape)
        z.store(tw.full((B,), value + min((1, 2)) + abs(-3), i32))

    got = run(picked, ((4,), i32), 4, np.zeros(4, np.int32), 5, 9)
    assert (got == 5 + 90 + 200 + 1000 + 1 + 3).all()


def test_unsigned_extremes_are_unsigned():
    @tw.kernel
    def picked(z: Mut[u32, B], n: u32, m: u32) -> None:
        z.store(tw.full((B,), max(n, m) - min(n, m), u32))

    assert (run(picked, ((4,), u32), 4, 2**32 - 1, 1) == 2**32 - 2).all()


def test_matrix_product_by_operator():
    @tw.kernel
    def product(z: Mut[f32, BM, BN], x: Ref[T, M, N], y: Ref[T, M, N]) -> None:
        i, j = z.index
        z.store(x.partition(BM, 16)[i, 0] @ y.partition(BN, 16)[j, 0].T)

    generator = np.random.default_rng(0)
    x, y = (generator.integers(-4, 4, (32, 16)).astype(np.float16) for _ in range(2))
    got = run(product, ((32, 32), f32), (16, 16), x, y)
    assert_same(got, x.astype(np.float32) @ y.astype(np.float32).T)

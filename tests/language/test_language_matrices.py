"""Matrix products: every pair of dtypes, batches, signs, and scaled ones, against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from running import TX, TZ, assert_same, run

import tilewright as tw
from tilewright import (
    Mut,
    Ref,
    bf16,
    f4e2m1fn,
    f8e4m3fn,
    f8e5m2,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    i8,
    i32,
    tf32,
    u8,
)
from tilewright.dims import BM, BN, K, M, N
from tilewright.dtypes import AnyDType, numpy_dtype

PAIRS = [
    (f16, f32), (f16, f16), (bf16, f32), (f32, f32), (f64, f64), (f8e4m3fn, f32), (f8e4m3fn, f16),
    (f8e5m2, f32), (f8e5m2, f16),
]  # fmt: skip
E2M1 = ml_dtypes.float4_e2m1fn


class TY(AnyDType): ...


@tw.kernel
def mxfp8(
    z: Mut[f32, BM, BN], x: Ref[f8e4m3fn, M, K], y: Ref[f8e4m3fn, K, N],
    xs: Ref[f8e8m0fnu, M, 2], ys: Ref[f8e8m0fnu, 2, N],
) -> None:  # fmt: skip
    i, j = z.index
    a, b = x.partition(BM, 64)[i, 0], y.partition(64, BN)[0, j]
    left, right = xs.partition(BM, 2)[i, 0], ys.partition(2, BN)[0, j]
    z.store(tw.mma_scaled(a, b, tw.zeros((BM, BN), f32), left, right))


@tw.kernel
def nvfp4(
    z: Mut[f32, BM, BN], x: Ref[u8, M, 32], y: Ref[u8, N, 32],
    xs: Ref[f8e4m3fn, M, 4], ys: Ref[f8e4m3fn, 4, N],
) -> None:  # fmt: skip
    i, j = z.index
    a = tw.unpack(x.partition(BM, 32)[i, 0], f4e2m1fn)
    b = tw.unpack(y.partition(BN, 32)[j, 0], f4e2m1fn).T
    left, right = xs.partition(BM, 4)[i, 0], ys.partition(4, BN)[0, j]
    z.store(tw.mma_scaled(a, b, tw.zeros((BM, BN), f32), left, right))


@tw.kernel
def fast(z: Mut[f32, BM, BN], x: Ref[f8e5m2, M, 32], y: Ref[f8e5m2, 32, N]) -> None:
    i, j = z.index
    a, b = x.partition(BM, 32)[i, 0], y.partition(32, BN)[0, j]
    z.store(tw.mma(a, b, tw.zeros((BM, BN), f32), fast_acc=True) + a @ b)


@tw.kernel
def signs(z: Mut[i32, BM, BN], x: Ref[i8, M, 32], y: Ref[u8, 32, N]) -> None:
    i, j = z.index
    a, b = x.partition(BM, 32)[i, 0], y.partition(32, BN)[0, j]
    z.store(tw.mma(a, b, tw.ones((BM, BN), i32)) + a @ b)


@pytest.mark.parametrize(("dtype", "total"), PAIRS, ids=lambda d: d.label)
@pytest.mark.parametrize("batched", [False, True])
def test_products_of_floats(dtype, total, batched):
    @tw.kernel
    def product(z: Mut[TZ, BM, BN], x: Ref[TX, M, K], y: Ref[TX, K, N]) -> None:
        i, j = z.index
        a, b = x.partition(BM, 32)[i, 0], y.partition(32, BN)[0, j]
        z.store(tw.mma(a, b, tw.ones((BM, BN), z.dtype)))

    @tw.kernel
    def batch(z: Mut[TZ, 2, BM, BN], x: Ref[TX, 2, M, K], y: Ref[TX, 2, K, N]) -> None:
        _, i, j = z.index
        a, b = x.partition(2, BM, 32)[0, i, 0], y.partition(2, 32, BN)[0, 0, j]
        z.store(tw.mma(a, b, tw.ones((2, BM, BN), z.dtype)))

    generator = np.random.default_rng(0)
    lead = (2,) if batched else ()
    x, y = (generator.integers(-2, 3, (*lead, 32, 32)).astype(numpy_dtype(dtype)) for _ in "xy")
    kernel, tile = (batch, (2, 16, 16)) if batched else (product, (16, 16))
    got = run(kernel, ((*lead, 32, 32), total), tile, x, y)
    wanted = x.astype(np.float64) @ y.astype(np.float64) + 1
    assert_same(got, wanted.astype(numpy_dtype(total)))


def test_tf32_is_f32_with_a_short_mantissa():
    @tw.kernel
    def product(z: Mut[f32, BM, BN], x: Ref[f32, M, K], y: Ref[f32, K, N]) -> None:
        i, j = z.index
        a, b = x.partition(BM, 32)[i, 0].astype(tf32), y.partition(32, BN)[0, j].astype(tf32)
        z.store(a @ b)

    generator = np.random.default_rng(1)
    x, y = (generator.uniform(-1, 1, (32, 32)).astype(np.float32) for _ in "xy")
    got = run(product, ((32, 32), f32), (16, 16), x, y)
    np.testing.assert_allclose(got, x.astype(np.float64) @ y, atol=2e-2)
    assert (got != x @ y).any()


@pytest.mark.parametrize("left", [i8, u8], ids=lambda d: d.label)
@pytest.mark.parametrize("right", [i8, u8], ids=lambda d: d.label)
def test_each_side_of_an_integer_product_has_its_own_sign(left, right):
    @tw.kernel
    def product(z: Mut[i32, BM, BN], x: Ref[TX, M, K], y: Ref[TY, K, N]) -> None:
        i, j = z.index
        z.store(x.partition(BM, 32)[i, 0] @ y.partition(32, BN)[0, j])

    bits = np.random.default_rng(2).integers(0, 256, (2, 32, 32)).astype(np.uint8)
    x, y = bits[0].view(numpy_dtype(left)), bits[1].view(numpy_dtype(right))
    got = run(product, ((32, 32), i32), (16, 16), x, y)
    assert_same(got, x.astype(np.int32) @ y.astype(np.int32))


# --- scaled ---------------------------------------------------------------------------------------


def scaled_product(x, y, xs, ys, group):
    left = x.astype(np.float64) * np.repeat(xs.astype(np.float64), group, 1)
    return left @ (y.astype(np.float64) * np.repeat(ys.astype(np.float64), group, 0))


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_scaled_products_of_8_bit_floats(kind):
    @tw.kernel
    def product(
        z: Mut[f32, BM, BN], x: Ref[TX, M, 64], y: Ref[TX, 64, N],
        xs: Ref[f8e8m0fnu, M, 2], ys: Ref[f8e8m0fnu, 2, N],
    ) -> None:  # fmt: skip
        i, j = z.index
        a, b = x.partition(BM, 64)[i, 0], y.partition(64, BN)[0, j]
        left, right = xs.partition(BM, 2)[i, 0], ys.partition(2, BN)[0, j]
        z.store(tw.mma_scaled(a, b, tw.ones((BM, BN), f32), left, right))

    generator = np.random.default_rng(3)
    x = generator.integers(-4, 5, (32, 64)).astype(kind)
    y = generator.integers(-4, 5, (64, 32)).astype(kind)
    xs, ys = (
        (2.0 ** generator.integers(-3, 4, shape)).astype(ml_dtypes.float8_e8m0fnu)
        for shape in ((32, 2), (2, 32))
    )
    got = run(product, ((32, 32), f32), (16, 16), x, y, xs, ys)
    np.testing.assert_allclose(got, scaled_product(x, y, xs, ys, 32) + 1, rtol=1e-5)


def nvfp4_inputs(scales):
    generator = np.random.default_rng(4)
    bytes_ = generator.integers(0, 256, (2, 32, 32)).astype(np.uint8)
    numbers = np.stack((bytes_ & 15, bytes_ >> 4), -1).reshape(2, 32, 64).view(E2M1)
    xs, ys = (
        generator.choice(scales, shape).astype(ml_dtypes.float8_e4m3fn)
        for shape in ((32, 4), (4, 32))
    )
    return bytes_, numbers, xs, ys


def test_scaled_products_of_4_bit_floats():
    (x, y), (a, b), xs, ys = nvfp4_inputs([0.5, 1, 2, 3.5])
    got = run(nvfp4, ((32, 32), f32), (16, 16), x, y, xs, ys)
    np.testing.assert_allclose(got, scaled_product(a, b.T, xs, ys, 16), rtol=1e-5)


def test_a_negative_scale_counts_by_its_magnitude():
    """Tile IR leaves it undefined; here nothing reaches that."""
    (x, y), (a, b), xs, ys = nvfp4_inputs([-0.5, 1, -2, -0.0])
    got = run(nvfp4, ((32, 32), f32), (16, 16), x, y, xs, ys)
    wanted = scaled_product(
        a, b.T, np.abs(xs.astype(np.float64)), np.abs(ys.astype(np.float64)), 16
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-5)

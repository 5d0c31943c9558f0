"""Functions that are formulas of others: their accuracy, their ends, and what they refuse."""

import math

import numpy as np
import pytest
from running import apply_unary, run

import tilewright as tw
from tilewright import Mut, Ref, bf16, f16, f32, f64
from tilewright.dims import B, N
from tilewright.dtypes import numpy_dtype
from tilewright.frontend.builtins.error_function import LARGEST, SMALLEST, TAIL

REFERENCES = {
    tw.erf: np.vectorize(math.erf),
    tw.log1p: np.log1p,
    tw.expm1: np.expm1,
    tw.sigmoid: lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))),
}
ULPS = {tw.erf: 2, tw.log1p: 2, tw.expm1: 2, tw.sigmoid: 3}
SIZE = 1 << 16


def spread(function) -> np.ndarray:
    """Numbers of all magnitudes, and many where a formula changes."""
    generator = np.random.default_rng(11)
    far = 2.0 ** generator.uniform(-30, 7, SIZE // 2) * generator.choice([-1, 1], SIZE // 2)
    near = generator.uniform(-4, 4, SIZE // 2)
    numbers = np.concatenate([far, near])
    return np.where(numbers <= -1, -numbers, numbers) if function is tw.log1p else numbers


@pytest.mark.parametrize("function", REFERENCES, ids=lambda f: f.name)
def test_f32_is_within_its_ulps_of_f64(function):
    @tw.kernel
    def applied(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(function(x.load_like(z)))

    x = spread(function).astype(np.float32)
    got = run(applied, (x.shape, f32), 1 << 14, x)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = REFERENCES[function](x.astype(np.float64))
        is_normal = np.isfinite(exact.astype(np.float32)) & (np.abs(exact) > 2.0**-126)
    error = np.abs(got - exact)[is_normal] / np.spacing(np.abs(exact[is_normal]).astype(np.float32))
    assert error.max() <= ULPS[function]


@pytest.mark.parametrize("dtype", [f16, bf16], ids=lambda d: d.label)
@pytest.mark.parametrize("function", REFERENCES, ids=lambda f: f.name)
def test_narrow_floats_are_rounded_from_f32(function, dtype):
    kind = numpy_dtype(dtype)
    x = spread(function)[:64].astype(kind)

    def call(t):
        return function(t)

    with np.errstate(over="ignore"):
        wanted = apply_unary(call, x.astype(np.float32), f32).astype(kind)
    got = apply_unary(call, x, dtype)
    np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize(
    ("function", "x", "wanted"),
    [
        (tw.erf, [np.inf, -np.inf, 7.0, -0.0], [1, -1, 1, -0.0]),
        (tw.log1p, [np.inf, -1.0, -2.0, -0.0], [np.inf, -np.inf, np.nan, -0.0]),
        (tw.expm1, [np.inf, -np.inf, 1000.0, -0.0], [np.inf, -1, np.inf, -0.0]),
        (tw.sigmoid, [np.inf, -np.inf, 0.0, np.nan], [1, 0, 0.5, np.nan]),
        (tw.round, [0.5, 1.5, -2.5, -0.3], [0, 2, -2, -0.0]),
        (
            tw.round,
            [2.0**23 + 1, -np.inf, np.nan, 8388607.5],
            [2.0**23 + 1, -np.inf, np.nan, 2**23],
        ),
    ],
)
@pytest.mark.parametrize("dtype", [f32, f64], ids=lambda d: d.label)
def test_ends(function, x, wanted, dtype):
    def call(t):
        return function(t)

    kind = numpy_dtype(dtype)
    got = apply_unary(call, np.resize(np.array(x, kind), 64), dtype)[:4]
    np.testing.assert_array_equal(got, np.array(wanted, kind))
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(np.array(wanted)[got == 0]))


def test_scalars_and_numbers_are_taken_too():
    @tw.kernel
    def of_scalars(z: Mut[f32, B], s: f32) -> None:
        flag = 1.0 if tw.isfinite(s) else 0.0
        z.store(tw.full(B, tw.erf(s) + tw.log1p(0.5) + flag, f32))

    got = run(of_scalars, ((4,), f32), 4, 0.25)
    np.testing.assert_allclose(got, math.erf(0.25) + math.log1p(0.5) + 1, rtol=1e-6)


def test_mean_of_narrow_floats_is_summed_in_f32():
    @tw.kernel
    def averaged(z: Mut[f16, B], x: Ref[f16, N]) -> None:
        z.store(tw.mean(x.load_like(z), keepdims=True).broadcast_to(B))

    x = np.full(1024, 100, np.float16)  # the sum is beyond f16
    assert (run(averaged, ((1024,), f16), 1024, x) == 100).all()


def test_the_tail_of_the_error_function_is_what_it_says():
    mpmath = pytest.importorskip("mpmath", reason="mpmath computes the numbers again")
    with mpmath.workdps(40):
        low, high = 2 / mpmath.mpf(LARGEST + 2), 2 / mpmath.mpf(SMALLEST + 2)

        def logarithm(place):
            t = low + (place + 1) / 2 * (high - low)
            x = 2 / t - 2
            return mpmath.log(mpmath.erfc(x) / t) + x * x

        count = 40
        angles = [mpmath.pi * (k + mpmath.mpf(1) / 2) / count for k in range(count)]
        values = [logarithm(mpmath.cos(angle)) for angle in angles]
        for number, found in enumerate(TAIL):
            terms = (v * mpmath.cos(number * a) for v, a in zip(values, angles, strict=True))
            assert float(2 * mpmath.fsum(terms) / count) == pytest.approx(found, rel=1e-14)


@pytest.mark.parametrize("function", [tw.erf, tw.round, tw.isnan, tw.mean], ids=lambda f: f.name)
def test_integers_are_refused(function):
    def call(t):
        return function(t)

    with pytest.raises(tw.CompileError, match=f"tw.{function.name}: it takes floats"):
        apply_unary(call, np.zeros(64, np.int32), f32)


def test_one_element_has_no_halves():
    def call(t):
        return tw.split(t[:, None])[0]

    with pytest.raises(tw.CompileError, match="one element, and one has no halves"):
        apply_unary(call, np.zeros(64, np.float32), f32)

"""What dtypes and modifiers allow: next to each refusal."""

import numpy as np
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import (
    Mut,
    Ref,
    f4e2m1fn,
    f8e5m2,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    i4,
    i32,
    tf32,
)
from tilewright.dims import B, N

INTEGERS = np.arange(256, dtype=np.int32) - 100


@neighbour_of(
    "types/integer_to_a_negative_power", "types/bool_power", "types/power_of_a_wide_exponent",
    "types/floats_into_mulhi",
)  # fmt: skip
def test_powers_of_what_has_them():
    @tw.kernel
    def raised(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
        t = x.load_like(z)
        halves = (t.astype(f32) + 0.5) ** n
        z.store(t**3 + (t > 0).astype(i32) ** 2 + halves.astype(i32) + tw.mulhi(t, 1 << 30))

    t = INTEGERS
    wanted = t**3 + (t > 0) + ((t + np.float32(0.5)) ** 2).astype(np.int32) + (t >> 2)
    np.testing.assert_array_equal(launched(raised, t, 2, dtype=i32), wanted)


@neighbour_of(
    "types/rounding_of_another_function", "types/rounding_not_on_this_dtype",
    "types/rounding_unknown", "types/rounding_of_integers", "types/flush_not_on_this_dtype",
    "types/nan_of_integers", "types/modifier_not_static",
)  # fmt: skip
def test_modifiers_of_f32():
    @tw.kernel
    def rounded(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        root = tw.sqrt(tw.maximum(t, 0, nan=True), rounding="zero", ftz=True)
        up, down = tw.divide(t, 3, rounding="up"), tw.divide(t, 3, rounding="down")
        z.store(root + (up - down) + tw.exp2(t, ftz=True) + tw.add(t, 1, rounding="nearest"))

    double = X.astype(np.float64)
    wanted = np.sqrt(np.maximum(double, 0)) + np.exp2(double) + double + 1
    np.testing.assert_allclose(launched(rounded, X), wanted, rtol=1e-5)


@neighbour_of(
    "types/arithmetic_on_8_bit_floats", "types/comparison_of_tf32",
    "types/arithmetic_on_4_bit_integers", "types/scale_without_a_rounding", "types/scale_of_zero",
    "types/conversion_rounded_down", "types/conversion_to_integers_rounded",
    "types/literal_too_large_for_4_bits",
)  # fmt: skip
def test_narrow_dtypes_are_converted_to_compute():
    @tw.kernel
    def converted(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        narrow = t.astype(f8e5m2).astype(f32) * 0 + t.astype(tf32).astype(f32) * 0
        cut = t.astype(f16, rounding="zero").astype(f32)
        whole = tw.ceil(t).astype(i32).astype(i4).astype(i32).astype(f32) * 0
        scale = (tw.abs(t) + 1).astype(f8e8m0fnu, rounding="up").astype(f32) * 0
        some = tw.full((B,), 6.0, f4e2m1fn).astype(f32) + tw.ones((B,), f8e8m0fnu).astype(f32)
        exact = t.astype(f64).astype(f32, rounding="down")
        z.store(narrow + cut + whole + scale + some + exact)

    np.testing.assert_allclose(launched(converted, X), X * 2 + 7, rtol=1e-3)


@neighbour_of(
    "types/random_integers", "types/random_by_a_float", "types/fast_sums_of_f16",
    "types/scaled_dtypes", "types/scaled_shapes", "types/scaled_too_short",
)  # fmt: skip
def test_random_numbers_and_scaled_products():
    @tw.kernel
    def multiplied(z: Mut[f32, B], x: Ref[f32, N], seed: i32) -> None:
        a = x.load_like(z).reshape(2, 64).astype(f8e5m2)
        scale = tw.ones((2, 2), f8e8m0fnu)
        zero = tw.zeros((2, 2), f32)
        scaled = tw.mma_scaled(a, a.reshape(64, 2), zero, scale, scale)
        plain = tw.mma(a, a.reshape(64, 2), zero, fast_acc=True)
        z.store(tw.sum(scaled - plain) + tw.rand((B,), f32, seed=seed) * 0 + x.load_like(z))

    np.testing.assert_allclose(launched(multiplied, X, 3), X, atol=1e-3)


@neighbour_of("types/random_fours_of_doubles", "types/random_fours_at_floats")
def test_four_random_numbers_at_places_that_are_counted():
    @tw.kernel(deny_checks=True)
    def scale(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        one, two, three, four = tw.rand4x(z.index[0] * B + tw.arange(B), f32)
        z.store(x.load_like(z) + (one + two + three + four) * 0)

    np.testing.assert_array_equal(launched(scale, X), X)

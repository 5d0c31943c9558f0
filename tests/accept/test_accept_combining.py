"""Combinations, parts and bits that are allowed: next to each refusal."""

import math

import numpy as np
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import Mut, Ref, f32, i4, i32, u8, u32
from tilewright.dims import B, N


def larger(a: f32, b: f32) -> f32:
    return a if a > b else b


@neighbour_of(
    "types/combination_that_loads", "types/combination_that_branches",
    "types/combination_that_may_divide_by_zero", "types/combination_of_another_dtype",
    "types/combination_that_gives_too_few", "types/combination_of_too_few_parameters",
    "types/combination_that_is_no_function", "types/combination_of_tiles_that_differ",
    "types/identity_not_static", "types/identities_too_few", "types/identity_that_does_not_fit",
    "types/axis_given_twice", "types/places_of_several_axes", "syntax/lambda_expression",
)  # fmt: skip
def test_functions_of_scalars_combine():
    @tw.kernel
    def combined(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t, limit = x.load_like(z), x.partition(1)[0].item()
        most = tw.reduce(t, lambda a, b: larger(larger(a, b), limit), -math.inf)
        least, count = tw.reduce(
            (t, tw.ones((B,), i32)), lambda a, n, b, m: (min(a, b), (n + m) * 2 // 2), (math.inf, 0)
        )
        place = tw.argmax(t[:, None], axis=0).reshape(()) + tw.sum(count)
        z.store(tw.scan(t, lambda a, b: a + b, 0) * 0 + most + least + place.astype(f32))

    halves = X.reshape(2, 128)
    wanted = halves.max(1) + halves.min(1) + halves.argmax(1) + 128
    np.testing.assert_array_equal(launched(combined, X), np.repeat(wanted, 128))


@neighbour_of(
    "types/cat_of_different_shapes", "types/cat_of_three", "types/cat_of_mixed_dtypes",
    "types/cat_without_a_tuple", "types/part_that_does_not_divide", "types/part_of_another_rank",
    "types/part_of_another_dtype", "types/part_with_two_numbers", "bounds/extract_past_the_end",
    "bounds/insert_below_the_start", "bounds/denied_part_of_a_tile",
)  # fmt: skip
def test_parts_of_a_tile():
    @tw.kernel(deny_checks=True)
    def turned(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        t = x.load_like(z)
        last, first = tw.extract(t, 3, 32), tw.extract(t, (0,), (32,))
        t = tw.insert(t, tw.cat((first, last)), 1)
        z.store(tw.insert(t, last, n) if 0 <= n < 4 else t)

    wanted = X.reshape(2, 4, 32).copy()
    before = wanted.copy()
    wanted[:, 2], wanted[:, 3], wanted[:, 1] = before[:, 0], before[:, 3], before[:, 3]
    np.testing.assert_array_equal(launched(turned, X, 1), wanted.reshape(256))


@neighbour_of(
    "types/bitcast_of_another_width", "types/bitcast_of_bool", "types/unpack_of_words",
    "types/pack_of_bool", "types/unpack_of_too_few_bytes", "signature/dtype_of_tiles",
    "types/pack_of_half_a_byte",
)  # fmt: skip
def test_bits_of_a_tile():
    @tw.kernel
    def read(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        bits = tw.unpack(tw.pack(tw.bitcast(t, u32)), f32)
        truth = tw.pack(tw.unpack((t > 0).astype(u8), i4))
        z.store(bits + truth.astype(f32))

    np.testing.assert_array_equal(launched(read, X), X + (X > 0))

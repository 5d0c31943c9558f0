"""Functions, constants and names of other systems in the form that kernels take."""

import enum
import functools

import numpy as np
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import Mut, Ref, f16, f32, i8, i32
from tilewright.dims import B, N

HALF = np.float32(0.5)


class Mode(enum.IntEnum):
    FAST = 1
    SLOW = 2


def power(t, exponent):
    return t**exponent


square = functools.partial(power, exponent=2)


def plus_five(a):
    return a + 5


def shifted(by):
    return lambda t: t + by


def chosen(n):
    """The same function on every path, with another value."""
    for i in range(n):
        if i == 2:
            return shifted(i)
    return shifted(0)


@neighbour_of(
    "names/complex_number_from_outside", "names/member_that_is_not_there",
    "names/partial_of_a_host_function", "syntax/function_without_source",
)  # fmt: skip
def test_numbers_members_and_functions_from_outside():
    @tw.kernel
    def captured(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(plus_five(square(x.load_like(z) * HALF)) + Mode.SLOW)

    np.testing.assert_array_equal(launched(captured, X), (X / 2) ** 2 + 7)


@neighbour_of("names/function_that_a_loop_replaces", "syntax/functions_of_two_kinds_from_a_loop")
def test_a_function_takes_its_values_out_of_a_loop():
    @tw.kernel
    def apply(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        f = chosen(n)
        z.store(f(x.load_like(z).astype(i32)).astype(f32))

    for n, by in ((5, 2), (1, 0)):
        np.testing.assert_array_equal(launched(apply, X, n), np.trunc(X) + by)


@neighbour_of("names/closure_over_a_part_made_in_a_branch")
def test_a_part_that_was_made_before_the_branch():
    def storing(part):
        return lambda t, i: part.store(t, i)

    @tw.kernel
    def halves(z: Mut[f32, B], n: i32) -> None:
        store = storing(z.partition(B // 2))
        if n > 0:
            store(tw.ones((B // 2,), f32), 0)
        store(tw.zeros((B // 2,), f32), 1)

    np.testing.assert_array_equal(launched(halves, 3), np.tile(np.repeat([1, 0], 64), 2))


@neighbour_of(
    "calls/launched_by_brackets", "names/names_of_triton", "names/names_of_cutile",
    "names/methods_of_torch", "names/no_suggestion_of_another_kind",
)  # fmt: skip
def test_names_of_other_systems_in_ours():
    @tw.kernel
    def own(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        place = z.index[0]  # tl.program_id(0), ct.bid(0)
        t = x.partition(B)[place]  # tl.load, ct.load
        total = tw.sum(t.astype(f32))  # t.to(f32).sum()
        z.store(tw.rsqrt(tw.maximum(t, 1.0)) + 0 * total)  # tl.store, ct.store

    np.testing.assert_allclose(launched(own, X), 1 / np.sqrt(np.maximum(X, 1)), rtol=1e-6)


@neighbour_of("types/where_of_a_number_too_large", "types/window_step_beyond_32_bits")
def test_numbers_that_fit():
    @tw.kernel
    def flags(z: Mut[i8, B], x: Ref[f32, N]) -> None:
        tw.require(x.shape[0] == z.shape[0])
        first = x.windows(B, step=2147483647)[0]
        z.store(tw.where(x.load_like(z) > tw.min(first), 127, -128))

    np.testing.assert_array_equal(launched(flags, X, dtype=i8), np.where(X[0] < X, 127, -128))


@neighbour_of("types/tile_too_large_broadcast", "types/tile_too_large_product")
def test_tiles_of_the_largest_size():
    @tw.kernel
    def large(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        n = tw.arange(4096)
        rows = tw.ones((4096, 16), f16)
        pairs = tw.sum((n.reshape(4096, 1) - n).astype(f32))  # 16,777,216 of them
        z.store(x.load_like(z) + pairs + tw.max(rows @ rows.T))

    np.testing.assert_array_equal(launched(large, X), X + 16)

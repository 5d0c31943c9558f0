"""What an unsafe block allows: next to each refusal of unsafe code."""

import numpy as np
import pytest
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import Mut, Ptr, Ref, f16, f32, i32
from tilewright.dims import B, N, T


@neighbour_of(
    "unsafe/load_unchecked_outside", "unsafe/after_the_block", "unsafe/no_reason",
    "unsafe/empty_reason", "unsafe/computed_reason", "unsafe/block_without_call",
    "unsafe/named_block", "unsafe/unsafe_as_an_expression", "unsafe/unchecked_with_too_few_indices",
)  # fmt: skip
def test_a_place_that_is_not_checked():
    @tw.kernel
    def copy(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        with tw.unsafe("the launch below passes 0"):
            tile = x.partition(B).load_unchecked(n)
        z.store(tile)

    np.testing.assert_array_equal(launched(copy, X, 0), np.tile(X[:128], 2))


def _tile_at(xs, n):
    with tw.unsafe(reason="callers pass the number of an existing tile"):
        return xs.load_unchecked(n)


@neighbour_of("unsafe/block_of_the_caller")
def test_a_helper_has_its_own_block():
    @tw.kernel
    def copy(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        z.store(_tile_at(x.partition(B), n))

    np.testing.assert_array_equal(launched(copy, X, 1), np.tile(X[128:], 2))


@neighbour_of("unsafe/store_unchecked_outside", "unsafe/load_part_unchecked_outside")
def test_parts_that_are_not_checked():
    @tw.kernel
    def turn(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        z.store(x.load_like(z))
        parts = z.partition(64)
        with tw.unsafe("n is 1, and a piece has two parts"):
            parts.store_unchecked(-parts.load_unchecked(n), n)

    wanted = X.reshape(2, 2, 64).copy()
    wanted[:, 1] *= -1
    np.testing.assert_array_equal(launched(turn, X, 1), wanted.reshape(-1))


@neighbour_of(
    "unsafe/assume_outside", "unsafe/assume_bounds_outside", "unsafe/assume_divisible_outside",
    "unsafe/assume_what_is_false", "unsafe/bounds_the_wrong_way_round",
    "unsafe/divisor_not_a_power_of_two",
)  # fmt: skip
def test_promises_settle_checks():
    @tw.kernel(deny_checks=True)
    def pick(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, N]) -> None:
        xs = x.partition(B)
        i = ids.partition(1)[0].item()
        with tw.unsafe("the first of the ids is that of a tile"):
            tw.assume(B >= 1)
            tw.assume(i >= 0 and i < xs.num_tiles(0))
            i = tw.assume_divisible(tw.assume_bounds(i, 0, upper=1000), 1)
        z.store(xs[i])

    got = launched(pick, X, np.ones(256, np.int32))
    np.testing.assert_array_equal(got, np.tile(X[128:], 2))


@neighbour_of(
    "unsafe/pointer_in_a_safe_kernel", "unsafe/unsafe_kernel_called_as_safe",
    "unsafe/safe_kernel_called_as_unsafe", "unsafe/pointer_from_a_number",
    "unsafe/pointer_from_a_partition", "unsafe/pointer_with_dims",
    "unsafe/pointer_arithmetic_outside", "unsafe/pointer_load_outside",
    "unsafe/pointer_store_outside", "unsafe/offset_of_floats", "unsafe/difference_of_pointers",
    "unsafe/values_of_another_dtype", "unsafe/values_of_another_shape", "unsafe/mask_of_numbers",
    "unsafe/load_of_a_tensor", "unsafe/store_acquire", "unsafe/load_release",
    "unsafe/weak_with_a_scope", "unsafe/unknown_order", "syntax/with_statement",
)  # fmt: skip
def test_pointers_of_an_unsafe_kernel():
    @tw.kernel(unsafe=True)
    def shift(z: Mut[f32, B], p: Ptr[f32]) -> None:
        with tw.unsafe("p points to 128 elements, and only the first block goes there"):
            if z.index[0] == 0:
                q = p + tw.arange(B)
                tw.store(q - 0, tw.load(q, mask=tw.arange(B) < 3, padding=7.0) + 1)
                tw.store(p, tw.load(p, ordering="acquire", scope="block"), ordering="release")
        z.store(tw.zeros((B,), f32))

    z, p = tw.ones((256,), f32), tw.from_numpy(X[:128])
    shift.unsafe(z.partition(128), p).sync()
    np.testing.assert_array_equal(p.numpy(), np.where(np.arange(128) < 3, X[:128] + 1, 8))


@neighbour_of(
    "unsafe/pointer_atomic_outside", "unsafe/pointer_cas_outside", "unsafe/atomic_max_of_floats",
    "unsafe/atomic_weak", "unsafe/atomic_of_half_floats_swapped",
)  # fmt: skip
@pytest.mark.parametrize("dtype", [f16, f32, i32])
def test_atomics_of_an_unsafe_kernel(dtype):
    @tw.kernel(unsafe=True)
    def count(z: Mut[i32, B], p: Ptr[T], n: Ptr[i32]) -> None:
        with tw.unsafe("atomics do not race"):
            tw.atomic_add(p, 1, ordering="acquire_release")
            tw.atomic_max(n, z.index[0])
            before = tw.atomic_cas(n + 1, 0, 5)
        z.store(tw.full((B,), 0, i32) + before.item())

    z, p, n = tw.zeros((512,), i32), tw.zeros((1,), dtype), tw.zeros((2,), i32)
    with tw.race_check():
        count.unsafe(z.partition(128), p, n).sync()
    assert float(p.numpy()[0]) == 4
    assert n.numpy().tolist() == [3, 5]
    assert sorted(z.numpy()[::128]) == [0, 5, 5, 5]

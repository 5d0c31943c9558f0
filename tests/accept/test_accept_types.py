"""Shapes and dtypes that fit: next to each refusal of types."""

import math
from typing import Literal

import numpy as np
from ml_dtypes import bfloat16
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import Const, Cut, Mapped, Mut, Ref, bf16, f16, f32, i32
from tilewright.dims import BM, BN, B, K, M, N

INTEGERS = np.arange(256, dtype=np.int32) - 100


@neighbour_of("types/wrong_tile_shape", "types/wrong_tile_rank", "types/scalar_stored")
def test_a_tile_is_brought_into_the_shape_of_the_piece():
    @tw.kernel
    def shaped(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)[:, None].reshape(B)
        half = tw.zeros((B // 2,), f32)
        z.store(t + tw.full((B,), 1.0, z.dtype) + tw.sum(half) + tw.ones(1, f32).broadcast_to(B))

    np.testing.assert_array_equal(launched(shaped, X), X + 2)


@neighbour_of("types/wrong_tile_dtype", "types/mixed_dtypes", "types/mixed_scalar")
def test_dtypes_are_converted_where_they_meet():
    @tw.kernel
    def converted(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        narrow = x.load_like(z).astype(f16)
        z.store((narrow + narrow).astype(z.dtype) * n.astype(f32) + x.load_like(z))

    np.testing.assert_array_equal(launched(converted, X, 3), X * 7)


@neighbour_of(
    "types/load_like_with_another_rank", "types/load_like_a_ref", "types/too_few_indices",
    "types/too_few_tile_extents", "types/ref_indexed_directly", "types/shape_is_no_tile",
    "types/float_as_index", "types/tile_as_index", "types/partition_not_static",
    "types/partition_not_a_power_of_two", "types/axis_of_num_tiles", "types/unpacking_too_few",
    "types/axis_not_static",
)  # fmt: skip
def test_a_tensor_is_read_at_any_place_in_tiles():
    @tw.kernel(deny_checks=True)
    def read(z: Mut[f32, B], x: Ref[f32, M, N], *, ROWS: Const[int] = 1) -> None:
        rows = x.partition(ROWS, B)
        (i,) = z.index
        total = tw.zeros((ROWS, B), f32)
        if i < rows.num_tiles(1):
            for r in range(rows.num_tiles(0)):
                total += rows[r, i]
        z.store(total.reshape(B))

    x = X.reshape(4, 64)
    np.testing.assert_array_equal(launched(read, x, shape=(64,), tile=(16,)), x.sum(0))


def matrices(dtype) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x, y = (generator.integers(-3, 3, (32, 32)).astype(dtype) for _ in range(2))
    return x, y


@neighbour_of(
    "types/mma_inner_extents", "types/mma_accumulator_shape", "types/mma_accumulator_dtype",
    "types/mma_mixed_dtypes", "types/mma_transposed",
)  # fmt: skip
def test_matrices_that_fit():
    @tw.kernel(deny_checks=True)
    def product(z: Mapped[f32, BM, BN], x: Ref[f16, M, K], y: Ref[bf16, N, K]) -> None:
        tw.require(z.shape[0] <= M and z.shape[1] <= N)
        for at in z.indices():
            i, j = at
            a, b = x.partition(BM, 32)[i, 0], y.partition(BN, 32)[j, 0]
            z.store(tw.mma(a, b.T.astype(f16), tw.zeros((BM, BN), f32)) + a.astype(bf16) @ b.T, at)

    x, y = matrices(np.float16)
    got = launched(product, x, y.astype(bfloat16), shape=(32, 32), tile=(16, 8), walked=True)
    np.testing.assert_array_equal(got, 2 * (x.astype(np.float32) @ y.astype(np.float32).T))


@neighbour_of("types/mma_of_vectors")
def test_vectors_are_multiplied_by_element_and_summed():
    @tw.kernel
    def dot(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        z.store(tw.full((B,), tw.sum(t * t), f32))

    got = launched(dot, X, tile=(64,))
    np.testing.assert_allclose(got, np.repeat((X.reshape(4, 64) ** 2).sum(1), 64), rtol=1e-6)


@neighbour_of(
    "types/if_on_a_tile", "types/and_of_tiles", "types/chained_comparison_that_ends_in_a_tile",
    "types/where_condition", "types/arithmetic_on_bool",
    "types/sum_of_bool",
)  # fmt: skip
def test_elements_are_chosen_and_counted():
    @tw.kernel
    def chosen(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        inside = (t > -8) & (t < 8)
        count = tw.sum(inside.astype(i32)).astype(f32)
        if 0 < tw.num_blocks() < 5 and count > 1:
            t = tw.where(inside | (t == 9), t, 0)
        z.store(t + tw.where(t != 0, f32(1), 0))

    kept = np.where(((X > -8) & (X < 8)) | (X == 9), X, 0)
    np.testing.assert_array_equal(launched(chosen, X), kept + (kept != 0))


@neighbour_of(
    "types/integer_true_division", "types/shift_by_the_width",
    "types/shift_of_floats", "types/integer_literal_too_large", "types/float_literal_into_integers",
    "types/integers_into_exp", "types/padding_of_integers",
)  # fmt: skip
def test_integers_have_their_own_operations():
    @tw.kernel
    def computed(z: Mut[i32, B], x: Ref[i32, N]) -> None:
        t = x.load_like(z, padding=0)
        shifted = (t << 31) ^ (t >> 31)
        root = tw.sqrt(tw.exp(t.astype(f32) * 0.0) + 0.5).astype(i32)
        z.store(t // 2 + t * t + shifted + root + -2_147_483_648)

    t = INTEGERS
    wanted = t // 2 + t * t + ((t << 31) ^ (t >> 31)) + 1 + np.int32(-2147483648)
    np.testing.assert_array_equal(launched(computed, t, dtype=i32), wanted)


@neighbour_of("types/float_literal_too_large", "types/padding_with_a_number")
def test_infinity_is_written_as_such():
    @tw.kernel
    def masked(z: Mut[f16, B], x: Ref[f16, N]) -> None:
        t = x.partition(B, padding=-math.inf)[0]
        z.store(tw.where(t > 65504.0, t, tw.maximum(t, -65504.0)))

    got = launched(masked, np.full(3, 2, np.float16), shape=(8,), tile=(8,), dtype=f16)
    np.testing.assert_array_equal(got, [2, 2, 2, *[-65504] * 5])


@neighbour_of(
    "types/reduce_axis_out_of_range", "types/reduce_axis_not_static", "types/reshape_count",
    "types/broadcast_mismatch", "types/broadcast_to_mismatch", "types/permute_not_a_permutation",
    "types/item_of_a_tile", "types/tile_indexed_by_a_number",
)  # fmt: skip
def test_axes_and_shapes_that_are_there():
    @tw.kernel
    def shaped(z: Mut[f32, B], x: Ref[f32, N], *, AXIS: Const[int]) -> None:
        t = x.load_like(z).reshape(8, 16).permute(1, 0)
        sums = tw.sum(t, axis=AXIS, keepdims=True)
        first = x.partition(1)[0].item()
        spread = (t - sums).permute(1, 0).reshape(B)
        z.store(spread + first + tw.zeros((1,), f32) + tw.max(t[:, None, :]).broadcast_to(B))

    blocks = X.reshape(2, 8, 16).transpose(0, 2, 1)
    for axis in (0, 1):
        sums = blocks.sum(1 + axis, keepdims=True)
        wanted = (blocks - sums).transpose(0, 2, 1) + X[0] + blocks.max((1, 2), keepdims=True)
        got = launched(shaped, X, AXIS=axis)
        np.testing.assert_allclose(got, wanted.reshape(-1), rtol=1e-5, atol=1e-4)


@neighbour_of(
    "types/tile_shape_not_static", "types/tile_not_a_power_of_two", "types/tile_too_large",
    "types/piece_not_a_power_of_two", "types/part_does_not_divide_the_piece",
)  # fmt: skip
def test_a_piece_of_any_extent_is_used_in_parts():
    @tw.kernel(deny_checks=True)
    def parted(z: Mut[f32, B], x: Ref[f32, N], *, PART: Const[int] = 32) -> None:
        parts, xs = z.partition(PART), x.partition(PART)
        first = z.index[0] * (B // PART)
        for i in range(parts.num_tiles(0)):
            if first + i < xs.num_tiles(0):
                parts.store(xs[first + i] + tw.zeros((PART,), f32), i)

    np.testing.assert_array_equal(launched(parted, X, tile=(96,)), X)
    np.testing.assert_array_equal(launched(parted, X[:200], shape=(200,), tile=(160,)), X[:200])


@neighbour_of("types/carried_dtype_changes", "types/carried_shape_changes")
def test_a_carried_value_keeps_its_type():
    @tw.kernel
    def carried(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        acc, scale = x.load_like(z), 1
        for i in range(4):
            narrow = (acc * scale).astype(f16)[:, None]
            acc = narrow.reshape(B).astype(f32) + 1
            scale = scale * 1.0 if i < 2 else scale
        z.store(acc)

    np.testing.assert_array_equal(launched(carried, X), X + 4)


@neighbour_of("types/ordering_of_dtypes", "types/tuple_of_values_compared")
def test_dtypes_and_shapes_are_compared_for_equality():
    @tw.kernel
    def compared(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        if x.dtype == f32 and t.shape == z.tile and z.tile != (1,) and z.index[0] == 0:
            t = -t
        z.store(t)

    np.testing.assert_array_equal(launched(compared, X), np.where(np.arange(256) < 128, -X, X))


@neighbour_of(
    "types/top_k_of_three", "types/take_of_another_shape", "types/sort_that_is_too_long",
    "types/scatter_with_too_many_indices", "types/store_mask_of_another_shape",
)  # fmt: skip
def test_elements_in_order_by_place_and_by_mask():
    @tw.kernel
    def ranked(z: Mut[f32, B], x: Ref[f32, N], at: Ref[i32, N]) -> None:
        t, places = x.load_like(z), at.load_like(z)
        greatest, _ = tw.top_k(t, 4)
        z.store(tw.sort(t, descending=True) - tw.max(greatest))
        z.store(tw.take_along_axis(t, places, 0), mask=places == 0)
        z.scatter(t, B - 1 - tw.arange(B), mask=tw.arange(B) < 2)

    places = np.arange(256, dtype=np.int32) % 128
    wanted = np.concatenate([half - half[-1] for half in np.split(X, 2)])
    wanted = np.concatenate([half[::-1] for half in np.split(wanted, 2)])
    for first in (0, 128):
        wanted[first] = X[first]
        wanted[first + 127], wanted[first + 126] = X[first], X[first + 1]
    np.testing.assert_array_equal(launched(ranked, X, places), wanted)


@neighbour_of(
    "types/places_exchanged", "types/place_that_is_a_number", "types/place_along_a_longer_axis",
    "types/places_of_all_axes", "types/more_places_than_axes", "types/tile_as_a_place",
    "types/place_of_a_walked_output",
)  # fmt: skip
def test_a_piece_at_its_own_place_and_a_tensor_at_any():
    @tw.kernel(deny_checks=True)
    def copied(z: Mut[f32, Cut[M, Literal[1]], Cut[N, B]], x: Ref[f32, M, N]) -> None:
        i, j = z.index
        z[i].store(x[i].partition(B)[j])

    x = np.arange(512, dtype=np.float32).reshape(2, 256)
    np.testing.assert_array_equal(launched(copied, x, shape=(2, 256), tile=(1, 128)), x)

"""What may be written, and how: next to each refusal of ownership."""

import numpy as np
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import Mapped, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, M, N


@neighbour_of(
    "ownership/store_to_ref", "ownership/store_through_partition", "ownership/assign_into_partition"
)
def test_an_output_is_stored_to_and_an_input_is_read():
    @tw.kernel(deny_checks=True)
    def copy(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z))
        z.partition(32).store(x.partition(32)[4 * z.index[0]] * 2, 0)

    wanted = X.copy()
    wanted[:32] *= 2
    wanted[128:160] *= 2
    np.testing.assert_array_equal(launched(copy, X), wanted)


@neighbour_of("ownership/indexed_store_to_piece", "ownership/swapped_heads")
def test_turned_round_the_input_is_read_at_the_swapped_place():
    @tw.kernel
    def permute_heads(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
        i, j = z.index
        z.store(x.partition(BN, BM)[j, i].T)

    x = X.reshape(8, 32)
    got = launched(permute_heads, x, shape=(32, 8), tile=(16, 4))
    np.testing.assert_array_equal(got, x.T)


@neighbour_of("ownership/index_of_another_output")
def test_each_output_is_walked_by_itself():
    @tw.kernel(deny_checks=True)
    def both(a: Mapped[f32, B], b: Mapped[f32, B], x: Ref[f32, N]) -> None:
        xs = x.partition(B)
        tw.require(a.shape[0] == N and b.shape[0] == N)
        for at in a.indices():
            a.store(xs[at], at)
        for at in b.indices():
            b.store(xs[at] + 1, at)

    a, b = tw.zeros((256,), f32), tw.zeros((256,), f32)
    both(a.partition(64).persistent(), b.partition(64).persistent(), tw.from_numpy(X)).sync()
    np.testing.assert_array_equal(a.numpy(), X)
    np.testing.assert_array_equal(b.numpy(), X + 1)


@neighbour_of(
    "ownership/index_kept_past_its_loop", "ownership/index_kept_in_a_tuple",
    "ownership/index_returned_from_its_walk", "ownership/index_of_an_ended_walk",
    "ownership/index_chosen_by_a_branch", "ownership/mapped_store_without_index",
    "ownership/forged_index", "ownership/block_id_as_index",
)  # fmt: skip
def test_an_index_is_used_inside_its_loop_under_any_name():
    @tw.kernel
    def placed(z: Mapped[f32, B], x: Ref[f32, N], n: i32) -> None:
        for at in z.indices():
            place = (at, 0)
            same = place[0]
            tile = x.partition(B)[at]
            if n > 0:
                z.store(tile, same)
            else:
                z.store(tile=-tile, at=at)

    np.testing.assert_array_equal(launched(placed, X, 1, tile=(64,), walked=True), X)
    np.testing.assert_array_equal(launched(placed, X, 0, tile=(64,), walked=True), -X)


@neighbour_of("ownership/index_arithmetic", "ownership/index_unpacked_in_the_head")
def test_coordinates_of_an_index_are_numbers():
    @tw.kernel(deny_checks=True)
    def shifted(z: Mapped[f32, BM, BN], x: Ref[f32, M, N]) -> None:
        xs = x.partition(BM, BN)
        for at in z.indices():
            i, j = at
            right = tw.zeros((BM, BN), f32)
            if i < xs.num_tiles(0) and j + 1 < xs.num_tiles(1):
                right = xs[i, j + 1]
            z.store(right, at)

    x = X.reshape(16, 16)
    got = launched(shifted, x, shape=(16, 16), tile=(4, 4), walked=True)
    np.testing.assert_array_equal(got, np.pad(x, ((0, 0), (0, 4)))[:, 4:])


@neighbour_of("ownership/indices_of_a_mut", "ownership/partition_of_a_mapped")
def test_pieces_are_cut_and_walks_are_walked():
    @tw.kernel(deny_checks=True)
    def cut(z: Mut[f32, B]) -> None:
        parts = z.partition(32)
        for i in range(parts.num_tiles(0)):
            parts.store(tw.full((32,), i.astype(f32), f32), i)

    @tw.kernel
    def walked(z: Mapped[f32, B]) -> None:
        for at in z.indices():
            z.store(tw.full((B,), at[0].astype(f32), f32), at)

    np.testing.assert_array_equal(launched(cut), np.arange(256) // 32 % 4)
    np.testing.assert_array_equal(launched(walked, tile=(32,), walked=True), np.arange(256) // 32)

"""What may be accumulated, and how: next to each refusal of an Accum."""

import numpy as np
from neighbours import X, neighbour_of

import tilewright as tw
from tilewright import Accum, Mut, Ref, bf16, f32, i32
from tilewright.dims import B, M, N
from tilewright.frontend.signature.samples import sample_specialization

COUNTS = np.array([3, 3, 1, 0, -1, 9, 2, 3], np.int32)


@neighbour_of("ownership/accum_by_two_kinds", "types/accum_of_small_integers")
def test_each_parameter_has_one_kind():
    @tw.kernel(deny_checks=True)
    def count(done: Mut[i32, B], total: Accum[i32, N], most: Accum[i32, M], x: Ref[i32, B]) -> None:
        total.add(x.load_like(done), 0)
        if done.index[0] == 0:
            total.add_at(1, x.load_like(done))
        most.max_at(x.load_like(done), 0)

    total, most = tw.zeros((8,), i32), tw.zeros((1,), i32)
    count(tw.zeros((8,), i32).partition(8), total, most, tw.from_numpy(COUNTS)).sync()
    np.testing.assert_array_equal(total.numpy(), COUNTS + np.array([1, 1, 1, 3, 0, 0, 0, 0]))
    assert most.numpy()[0] == 9


@neighbour_of(
    "ownership/accum_loaded", "ownership/accum_partitioned", "ownership/accum_indexed",
    "ownership/accum_stored", "ownership/accum_assigned",
)  # fmt: skip
def test_the_next_launch_reads_what_was_accumulated():
    @tw.kernel(deny_checks=True)
    def total_of(done: Mut[i32, B], total: Accum[f32, M], x: Ref[f32, N]) -> None:
        total.add(tw.sum(x.load_like(done)), 0)

    @tw.kernel(deny_checks=True)
    def divide(z: Mut[f32, B], total: Ref[f32, M], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z) / total.partition(1)[0])

    x, total, z = tw.from_numpy(X), tw.zeros((1,), f32), tw.zeros((256,), f32)
    total_of(tw.zeros((256,), i32).partition(128), total, x).sync()
    divide(z.partition(128), total, x).sync()
    np.testing.assert_allclose(z.numpy(), X / X.sum(), rtol=1e-5)


@neighbour_of("types/accum_of_float_maxima")
def test_maxima_of_floats_are_found_in_two_launches():
    @tw.kernel(deny_checks=True)
    def most(z: Mut[f32, B], x: Ref[f32, N], *, BN: tw.Const[int] = 128) -> None:
        z.store(tw.max(x.partition(BN)[z.index[0]]).broadcast_to(B))

    x, parts, z = tw.from_numpy(X), tw.zeros((2,), f32), tw.zeros((1,), f32)
    most(parts.partition(1), x).sync()
    most(z.partition(1), parts, BN=2).sync()
    assert z.numpy()[0] == X.max()


@neighbour_of(
    "types/accum_of_small_floats", "types/accum_of_another_dtype",
    "types/accum_tile_of_another_rank", "types/accum_too_few_indices", "bounds/accum_past_the_end",
)  # fmt: skip
def test_tiles_are_converted_and_placed_along_every_axis():
    @tw.kernel(deny_checks=True)
    def total_of(done: Mut[i32, B], total: Accum[f32, M, N], x: Ref[i32, B]) -> None:
        total.add(x.load_like(done).astype(f32)[:, None], 0, 1)

    total = tw.zeros((6, 2), f32)
    total_of(tw.zeros((8,), i32).partition(8), total, tw.from_numpy(COUNTS)).sync()
    np.testing.assert_array_equal(total.numpy()[:, 1], COUNTS[:6])
    np.testing.assert_array_equal(total.numpy()[:, 0], 0)


@neighbour_of(
    "types/accum_float_as_index", "types/accum_mask_of_numbers", "types/accum_bits_of_floats",
    "types/accum_shapes_that_do_not_fit", "bounds/denied_accum_index",
)  # fmt: skip
def test_elements_at_places_that_the_kernel_reads_need_no_check():
    @tw.kernel(deny_checks=True)
    def scatter(done: Mut[i32, B], seen: Accum[i32, N], x: Ref[f32, B]) -> None:
        at = x.load_like(done).astype(i32)
        seen.xor_at(tw.arange(4)[None, :], at[:, None], mask=(at != 3)[:, None])

    seen = tw.zeros((8,), i32)
    x = tw.from_numpy(np.array([3, 2, 1, 1], np.float32))
    scatter(tw.zeros((4,), i32).partition(4), seen, x).sync()
    np.testing.assert_array_equal(seen.numpy(), [0] * 8)  # 0 ^ 1 ^ 2 ^ 3 is 0


@neighbour_of("target/sum_not_on_this_target")
def test_bf16_is_summed_from_sm_90_on():
    @tw.kernel(deny_checks=True)
    def total_of(done: Mut[i32, B], total: Accum[bf16, N], x: Ref[bf16, N]) -> None:
        tw.require(done.shape[0] == N)
        total.add(x.load_like(done), done.index[0])

    for target in ("sm_90", "sm_100", "sm_120"):
        total_of.specialized(sample_specialization(total_of.signature, target))

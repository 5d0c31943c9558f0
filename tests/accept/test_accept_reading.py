"""Reading that is allowed, next to reading that is not: gathers, windows, orders, clips, hints."""

from typing import TypeVar

import numpy as np
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i32
from tilewright.dims import BM, BN, B, M, N


@neighbour_of(
    "types/gather_with_a_float",
    "types/gather_mask_of_numbers",
    "types/gather_padding_of_another_dtype",
    "types/gather_padding_of_many_values",
    "syntax/item_of_a_vector",
)
def test_gather_with_integers_a_condition_and_a_number():
    @tw.kernel(deny_checks=True)
    def read(z: Mut[f32, B], x: Ref[f32, N], p: Ref[f32]) -> None:
        at = z.index[0] * B + tw.arange(B, i32)
        z.store(x.gather(at + 1, mask=at > 3, padding=p.item()))

    wanted = np.append(X[1:], 9).astype(np.float32)
    wanted[:4] = 9
    np.testing.assert_array_equal(launched(read, X, tw.full((), 9, f32)), wanted)


@neighbour_of("types/gather_with_too_few_indices", "types/gather_of_shapes_that_differ")
def test_gather_with_an_index_for_each_axis():
    @tw.kernel(deny_checks=True)
    def diagonal(z: Mut[f32, B], x: Ref[f32, M, N]) -> None:
        at = z.index[0] * B + tw.arange(B, i32)
        z.store(x.gather(at, at))

    matrix = X.reshape(16, 16)
    got = launched(diagonal, matrix, shape=(16,), tile=(8,))
    np.testing.assert_array_equal(got, matrix.diagonal())


@neighbour_of("types/order_not_a_permutation")
def test_order_that_names_each_axis_once():
    @tw.kernel(deny_checks=True)
    def transposed(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
        z.store(x.partition(BM, BN, order=(1, 0))[z.index])

    matrix = X.reshape(8, 32)
    got = launched(transposed, matrix, shape=(32, 8), tile=(16, 4))
    np.testing.assert_array_equal(got, matrix.T)


@neighbour_of("types/window_step_of_zero", "bounds/window_past_the_end")
def test_windows_that_begin_inside():
    @tw.kernel(deny_checks=True)
    def last(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        tw.require(x.shape[0] > 0)
        w = x.windows(B, step=96)
        z.store(w[w.num_tiles(0) - 1])

    got = launched(last, X, shape=(128,))
    np.testing.assert_array_equal(got, np.append(X[192:], np.zeros(64)).astype(np.float32))


@neighbour_of("types/latency_out_of_range", "types/latency_not_constant")
def test_hints_in_their_range():
    @tw.kernel(deny_checks=True)
    def read(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.partition(B).load(z.index[0], latency=10, allow_tma=False))

    np.testing.assert_array_equal(launched(read, X), X)


@neighbour_of(
    "types/clip_to_a_missing_axis",
    "bounds/clipped_to_an_empty_axis",
    "syntax/partition_of_a_number",
)
def test_clip_to_an_axis_that_is_there():
    @tw.kernel(deny_checks=True)
    def read(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        p = x.partition(B)
        z.store(p[p.clip(7, 0)])

    np.testing.assert_array_equal(launched(read, X, shape=(128,)), X[128:])


@neighbour_of(
    "signature/hint_of_a_load",
    "signature/hint_out_of_range",
    "signature/hint_for_no_target",
    "signature/hint_the_target_lacks",
    "signature/hints_of_no_target",
)
def test_hints_that_the_assembler_takes():
    @tw.kernel(num_ctas=4, hints={"sm_90": tw.Hints(num_ctas=2, occupancy=1)})
    def copy(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z))

    np.testing.assert_array_equal(launched(copy, X), X)
    np.testing.assert_array_equal(launched(copy.with_hints(opt_level=1), X), X)


@neighbour_of(
    "signature/tuple_of_tensors",
    "signature/dataclass_of_lists",
    "signature/group_argument_of_another_kind",
    "signature/type_parameter_without_a_bound",
)
def test_groups_of_scalars_and_type_parameters():
    rows = TypeVar("rows", bound=tw.Dim)

    @tw.kernel
    def scaled(z: Mut[f32, rows], x: Ref[f32, N], factors: tuple[f32, tuple[i32, bool]]) -> None:
        times, (count, _) = factors
        z.store(x.load_like(z) * times + count.astype(f32))

    np.testing.assert_array_equal(launched(scaled, X, (2.0, (3, True))), X * 2 + 3)


@neighbour_of(
    "calls/exact_tiles_that_cannot_be", "calls/exact_parts_of_segments", "types/exact_is_known",
)  # fmt: skip
def test_exact_tiles_that_divide_their_tensor():
    @tw.kernel(deny_checks=True)
    def copy(z: Mut[f32, B], x: Ref[f32, N], EXACT: Const[bool]) -> None:
        parts = z.partition(64, exact=True)
        for k in range(B // 64):
            parts.store(x.partition(64, exact=EXACT)[z.index[0] * (B // 64) + k], k)

    np.testing.assert_array_equal(launched(copy, X, EXACT=True), X)


@neighbour_of("calls/whole_parts_of_segments", "types/whole_is_known")
def test_whole_tiles_of_any_tensor():
    @tw.kernel(deny_checks=True)
    def copy(z: Mut[f32, B], x: Ref[f32, N], WHOLE: Const[bool]) -> None:
        if z.index[0] < N // B:
            z.partition(B, whole=WHOLE).store(x.partition(B, whole=WHOLE)[z.index[0]], 0)
        else:
            z.store(x.load_like(z))

    np.testing.assert_array_equal(launched(copy, X, WHOLE=True), X)

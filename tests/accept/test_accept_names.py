"""Names and syntax that kernels have: next to each refusal of names, syntax, calls, signatures."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pytest
from neighbours import X, launched, neighbour_of

import tilewright as tw
from tilewright import Const, Cut, DType, Mut, Ref, f8e4m3fn, f32, i32
from tilewright.dims import B, N, T
from tilewright.frontend.signature.specialization import Specialization, TensorSpecialization

FACTORS = (1.0, 2.0, (3.0, f32))
ROOT = math.sqrt(2.0)
TABLE = tuple(np.arange(3.0).tolist())


class Config:
    factor = 2.0


FACTOR = Config().factor


def doubled(t):
    return t + t


@dataclass
class Steps:
    tile: tw.Tile[f32]
    count: int = 0


@dataclass(frozen=True)
class Setup:
    first: int


SETUP = Setup(0)


def one_of(n):
    for i in range(n):
        if i > 4:
            return i - 4
    return 1


def padded(t, width, dtype):
    return t.astype(dtype) + tw.zeros((width,), dtype)


@neighbour_of(
    "names/undefined_name", "names/undefined_name_like_nothing", "names/list_from_outside",
    "names/array_from_outside", "names/object_from_outside", "names/function_of_another_module",
    "names/kernel_in_a_kernel", "names/unknown_attribute_of_a_tile",
    "names/unknown_attribute_of_a_tensor", "names/unknown_attribute_of_an_output",
    "names/unknown_function", "names/dim_of_another_signature", "names/dim_in_a_plain_function",
    "names/placeholder_of_another_signature", "calls/error_in_another_file",
    "types/tuple_indexed_at_run_time",
)  # fmt: skip
def test_constants_and_functions_from_outside():
    @tw.kernel
    def used(z: Mut[T, B], x: Ref[T, N], *, K: Const[int] = 3) -> None:
        total = padded(doubled(x.load_like(z)), B, T)
        scale, dtype = FACTORS[2]
        total = total * FACTORS[1] * scale
        z.store((total + TABLE[2] * K + FACTOR * ROOT * ROOT).astype(dtype))

    np.testing.assert_allclose(launched(used, X), 12 * X + 6 + 4, rtol=1e-6, atol=1e-4)


@neighbour_of("names/tensor_from_outside", "names/function_of_the_host")
def test_a_tensor_is_an_argument():
    @tw.kernel
    def weighted(z: Mut[f32, B], x: Ref[f32, N], weights: Ref[f32, N]) -> None:
        z.store(x.load_like(z) * weights.load_like(z))

    np.testing.assert_array_equal(launched(weighted, X, X), X * X)


@neighbour_of(
    "names/set_in_one_branch", "names/branches_that_differ", "names/partition_chosen_by_a_branch",
    "names/set_only_in_a_loop", "names/loop_variable_after_the_loop",
    "names/partition_set_in_a_loop", "names/changed_by_a_loop", "names/set_further_down",
)  # fmt: skip
def test_names_that_have_a_value_on_every_path():
    @tw.kernel
    def paths(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N], n: i32) -> None:
        last = 0
        for i in range(n):
            inside = x.partition(B)
            first = inside[0]
            last = i
            z.store(first)
        t = x.load_like(z)
        if n > 1:
            p = y.partition(B)
            if z.index[0] < p.num_tiles(0):
                t = p[z.index[0]]
        else:
            t = -t
        z.store(t + last.astype(f32))

    np.testing.assert_array_equal(launched(paths, X, X * 2, 3), X * 2 + 2)
    np.testing.assert_array_equal(launched(paths, X, X * 2, 1), -X)


@neighbour_of(
    "syntax/else_of_a_loop", "syntax/loop_over_a_tensor", "syntax/returns_of_two_types",
    "syntax/returns_on_some_paths", "names/part_made_in_a_branch",
    "names/tuple_with_a_partition_in_a_loop", "types/carried_tuple_changes",
    "types/while_on_a_tile", "types/static_range_of_a_value", "syntax/unrolled_without_end",
    "syntax/dataclass_with_its_own_code", "syntax/field_that_is_set",
    "syntax/starred_target", "names/field_that_is_not_there",
    "names/mutable_dataclass_from_outside", "names/set_further_down_for_a_lambda",
    "syntax/range_outside_a_loop", "syntax/step_of_zero",
    "syntax/recursion", "syntax/mutual_recursion", "syntax/list_comprehension",
    "syntax/generator_expression", "syntax/python_sum",
)  # fmt: skip
def test_loops_that_end():
    @tw.kernel
    def looped(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        t = x.load_like(z)
        for i in range(min(n, 4)):
            if i != 2:
                t = t * FACTORS[1]
        for i in range(0, 4, 2):
            t = t + i.astype(f32)
        state = Steps(t, SETUP.first)
        parts = z.partition(64)
        while True:
            if state.count >= n:
                break
            parts.store(tw.zeros((64,), f32), state.count % 2)
            state = replace(state, count=state.count + 1)
        for factor in tw.static_range(1, 3):
            state = Steps(tw.maximum(*(state.tile, state.tile * 1)), count=factor)
        z.store(state.tile * one_of(n).astype(f32))

    np.testing.assert_array_equal(launched(looped, X, 10), X * 8 + 2)


@neighbour_of(
    "syntax/list_display", "syntax/dictionary", "syntax/lambda_expression", "syntax/try_statement",
    "syntax/with_statement", "syntax/nested_function", "syntax/walrus",
    "syntax/starred_argument", "syntax/text_of_a_value", "syntax/print_of_a_tensor",
    "syntax/print_in_a_wrong_format", "syntax/print_keyword", "types/assertion_of_numbers",
    "syntax/message_of_a_value",  "syntax/in_operator",
    "syntax/is_operator", "syntax/match_statement", "syntax/raise_statement",
    "syntax/global_statement", "syntax/import_statement", "syntax/delete_statement",
    "syntax/yield_expression", "syntax/slice_of_a_partition", "syntax/assignment_into_a_tile",
    "syntax/return_of_a_value", "syntax/declaration_without_value",
    "syntax/wrong_argument_count", "syntax/unknown_keyword", "syntax/unknown_keyword_of_a_method",
    "syntax/wrong_argument_count_of_a_function",
    "syntax/static_assertion", "syntax/static_assertion_of_a_value", "syntax/function_as_a_value",
    "syntax/calling_a_tile", "syntax/rarer_constructs", "calls/several_errors_at_once",
    "calls/wide_characters",
    "calls/more_than_ten_errors", "calls/error_on_many_lines",
)  # fmt: skip
def test_the_same_said_in_the_words_of_the_language():
    @tw.kernel
    def spoken(z: Mut[f32, B], x: Ref[f32, N], mode: i32, *, NOTHING: Const[int] = 0) -> None:
        """A docstring is fine."""
        tw.static_assert(B >= 128, "B is too small")
        tw.require(N > 0)
        größe: tw.Tile[f32] = x.load_like(z, padding=0.0)
        pair = (größe, doubled(größe))
        if mode == 1 or mode == 2:
            größe = pair[0]
        elif mode == 3:
            größe = pair[1]
        else:
            pass
        elements = tw.arange(B)
        größe = tw.where(
            elements == 0,
            tw.sum(größe, axis=0),
            größe,
        )
        z.store(größe + NOTHING)
        return

    wanted = X.copy().reshape(2, 128)
    wanted[:, 0] = wanted.sum(1)
    np.testing.assert_allclose(launched(spoken, X, 2), wanted.reshape(-1), rtol=1e-5, atol=1e-3)


@neighbour_of("target/dtype_not_on_this_target", "target/converted_dtype_not_on_this_target")
@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_120"])
def test_a_dtype_on_the_targets_that_have_it(target):
    @tw.kernel
    def narrowed(z: Mut[f8e4m3fn, B], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z).astype(f8e4m3fn))

    def spec(dtype: type[DType], *tile: int) -> TensorSpecialization:
        return TensorSpecialization(dtype, (True,), 16, (16,), (1,), tile=tile)

    tensors = (spec(f8e4m3fn, 128), spec(f32))
    made = narrowed.specialized(Specialization(tensors, (("B", 128),), (), target))
    assert made.specialization.target == target


@neighbour_of(
    "signature/no_annotation", "signature/parameter_of_another_kind", "signature/no_output",
    "signature/dim_that_is_a_string", "signature/no_dtype", "signature/no_dims",
    "signature/const_of_another_type", "signature/dim_named_like_a_parameter",
    "signature/variadic_parameter", "signature/tile_of_zero", "signature/literal_of_two_extents",
    "signature/undefined_annotation", "signature/placeholder_without_a_tensor",
    "signature/unknown_option", "signature/output_inside_a_ref",
)  # fmt: skip
def test_a_signature_with_everything():
    @tw.kernel(deny_checks=True, num_ctas=1, occupancy=2)
    def everything(
        z: "Mut[T, B]", x: "Ref[T, 256]", alpha: T, n: i32, *, B: Const[int], MODE: Const[bool]
    ) -> None:
        z.store(x.load_like(z) * alpha + n.astype(z.dtype) if MODE else x.load_like(z))

    np.testing.assert_array_equal(launched(everything, X, 2, 3, B=128, MODE=True), X * 2 + 3)


@neighbour_of(
    "signature/cut_of_one", "signature/cut_alone", "signature/cut_of_a_cut", "signature/cut_of_all",
    "signature/cut_into_a_string", "signature/cut_into_nothing", "signature/cut_ref",
    "signature/cut_named_like_a_parameter",
)  # fmt: skip
def test_an_output_says_its_extent_and_its_tile():
    @tw.kernel(deny_checks=True)
    def scale(z: Mut[f32, Cut[N, B]], x: Ref[f32, N]) -> None:
        z.store(x.load_like(z) * 2)

    @tw.kernel(deny_checks=True)
    def fixed(z: "Mut[f32, Cut[256, 128]]", x: Ref[f32, 256]) -> None:
        z.store(x.load_like(z) * 2)

    @tw.kernel(deny_checks=True)
    def whole(z: Mut[f32, Cut[Literal[256], tw.All]], x: Ref[f32, N]) -> None:
        for k in range(z.partition(64).num_tiles(0)):
            z.partition(64).store(x.partition(64)[k] * 2, k)

    np.testing.assert_array_equal(launched(scale, X), X * 2)
    np.testing.assert_array_equal(launched(fixed, X), X * 2)
    np.testing.assert_array_equal(launched(whole, X, tile=(None,)), X * 2)


PAIRS: tuple = (1, 2)
for _ in range(8):
    PAIRS = (PAIRS, PAIRS)


@neighbour_of(
    "types/tuple_of_shared_tuples", "syntax/print_in_a_wide_format",
    "syntax/print_of_text_without_an_encoding",
)  # fmt: skip
def test_tuples_of_tuples_and_text_of_any_language():
    @tw.kernel
    def nested(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        p = (N, B)
        for _ in tw.static_range(8):
            p = (p, p)
        print(f"a whole pair: \U0001f600 {N:999d}")  # noqa: T201
        z.store(x.load_like(z) + len(p) + len(PAIRS))

    np.testing.assert_array_equal(launched(nested, X), X + 4)

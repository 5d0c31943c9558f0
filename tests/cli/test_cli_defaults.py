"""The specialisation of a kernel without tensors: the usual case, and true to the signature."""

from typing import Literal

import pytest

import tilewright as tw
from tilewright import All, Const, Mapped, Mut, Ref, bf16, f16, f32
from tilewright.dims import BM, BN, B, D, H, K, M, N, T
from tilewright.frontend.signature.samples import sample_specialization, settable_names


@tw.kernel
def shaped(
    z: Mut[f32, B, H, D], x: Ref[T, M, Literal[12], N], y: Ref[T, K, D], *, DEEP: Const[int]
) -> None:
    z.store(tw.zeros((B, H, D), f32))


@tw.kernel
def walked(z: Mapped[T, BM, BN]) -> None:
    for at in z.indices():
        z.store(tw.zeros((BM, BN), z.dtype), at)


def test_what_can_be_chosen():
    assert settable_names(shaped.signature) == {
        "T": tw.DType, "B": int, "H": int, "D": int, "DEEP": int,
    }  # fmt: skip


def test_tiles_and_dtypes_are_customary_unless_chosen():
    usual = sample_specialization(shaped.signature, "sm_90", {"DEEP": 2})
    assert usual.tensors[0].tile == (1, 128, 128)
    assert [spec.dtype for spec in usual.tensors] == [f32, f16, f16]
    chosen = sample_specialization(shaped.signature, "sm_90", {"DEEP": 2, "H": 8, "T": bf16})
    assert chosen.tensors[0].tile == (1, 8, 128)
    assert dict(chosen.constants) == {"B": 1, "H": 8, "D": 128, "DEEP": 2}
    assert chosen.tensors[1].dtype is bf16


def test_nothing_is_promised_that_a_fixed_extent_does_not_hold():
    _, x, y = sample_specialization(shaped.signature, "sm_90", {"DEEP": 2, "D": 4}).tensors
    assert x.extent_divisors == (1, 1, 16)
    assert x.stride_divisors == (16, 16, 1)
    assert x.unit_strides == (False, False, True)
    assert y.extent_divisors == (1, 4)
    assert y.stride_divisors == (4, 1)
    assert (x.tile, x.group) == ((), (1, 1))


def test_the_group_of_a_walk_is_left_to_the_compiler():
    (z,) = sample_specialization(walked.signature, "sm_90").tensors
    assert (z.tile, z.group) == ((128, 128), None)


def test_whole_axes_stay_whole():
    @tw.kernel
    def rows(z: Mut[f32, B, All]) -> None:
        z.partition(1, 1).store(tw.zeros((1, 1), f32), 0, 0)

    assert sample_specialization(rows.signature, "sm_90").tensors[0].tile == (128, None)
    assert settable_names(rows.signature) == {"B": int}


def test_a_grid_is_made_up_where_no_output_has_one():
    @tw.kernel
    def alone(x: Ref[f32, N]) -> None:
        tw.require(x.shape[0] > tw.num_blocks(2))

    sample = sample_specialization(alone.signature, "sm_90")
    assert sample.grid_rank == 3
    assert alone.specialized(sample).ledger.entries == ()
    assert sample_specialization(walked.signature, "sm_90").grid_rank is None


def test_a_constant_needs_a_value():
    with pytest.raises(tw.LaunchError, match="constant `DEEP` of kernel `shaped` has no default"):
        sample_specialization(shaped.signature, "sm_90")

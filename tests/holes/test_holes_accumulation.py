"""Ways to see the order of the blocks, or to reach other memory, by way of an Accum."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Accum, Mut, Ref, i32, i64
from tilewright.dims import B, M, N
from tilewright.errors import BorrowError, CompileError, OutOfBoundsError


def add_one(total, at):
    total.add_at(1, at)


def raise_to_two(total, at):
    total.max_at(2, at)


@tw.kernel
def kinds_hidden_in_helpers(z: Mut[i32, B], total: Accum[i32, N]) -> None:
    add_one(total, z.index[0])
    raise_to_two(total, z.index[0])


@tw.kernel
def kinds_in_two_branches(z: Mut[i32, B], total: Accum[i32, N]) -> None:
    if z.index[0] == 0:
        total.add(1, 0)
    else:
        total.xor(1, 0)


@tw.kernel
def chosen_by_a_branch(z: Mut[i32, B], one: Accum[i32, N], two: Accum[i32, M]) -> None:
    target = one if z.index[0] == 0 else two
    target.add(1, 0)


@tw.kernel
def kept_by_a_loop(z: Mut[i32, B], one: Accum[i32, N], two: Accum[i32, M]) -> None:
    target = one
    for _ in range(2):
        target.add(1, 0)
        target = two


@tw.kernel
def given_back(z: Mut[i32, B], total: Accum[i32, N]) -> None:
    before = total.add(1, 0)
    z.store(before + tw.zeros((B,), i32))


@pytest.mark.parametrize(
    "kernel",
    [kinds_hidden_in_helpers, kinds_in_two_branches, given_back],
    ids=lambda kernel: kernel.__name__,
)
def test_the_order_of_the_blocks_cannot_be_seen(kernel):
    with pytest.raises(CompileError):
        kernel(tw.zeros((4,), i32).partition(2), tw.zeros((4,), i32))


@pytest.mark.parametrize(
    "kernel", [chosen_by_a_branch, kept_by_a_loop], ids=lambda kernel: kernel.__name__
)
def test_which_accumulator_is_meant_is_always_known(kernel):
    with pytest.raises(CompileError):
        kernel(tw.zeros((4,), i32).partition(2), tw.zeros((4,), i32), tw.zeros((4,), i32))


@tw.kernel
def count(z: Mut[i32, B], total: Accum[i32, N], ids: Ref[i64, M]) -> None:
    at = ids.partition(1)[z.index[0]].item()
    total.add_at(1, at)
    total.add_at(1, ids.load_like(z))
    total.add(tw.ones((2,), i32), at)


@pytest.mark.parametrize("at", [-1, 3, 2**31, 2**32, 2**32 + 1, 2**63 - 1, -(2**63)])
def test_no_index_leads_outside_the_tensor(at):
    """Five elements in the middle of others: three tiles of two, the last half outside."""
    frame = tw.full((15,), 7, i32)
    ids = tw.from_numpy(np.array([at], np.int64))
    op = count(tw.zeros((1,), i32).partition(1), frame[5:10], ids)
    with tw.race_check(), pytest.raises(OutOfBoundsError):
        op.sync()
    np.testing.assert_array_equal(frame[:5].numpy(), 7)
    np.testing.assert_array_equal(frame[10:].numpy(), 7)


@tw.kernel
def two_kinds_of_two(z: Mut[i32, B], one: Accum[i32, N], two: Accum[i32, M]) -> None:
    one.add(1, 0)
    two.max(1, 0)


def test_an_accumulator_cannot_be_watched_through_another_argument():
    whole = tw.zeros((8,), i32)
    with pytest.raises(BorrowError):
        two_kinds_of_two(tw.zeros((2,), i32).partition(1), whole[:5], whole[4:])
    ids = tw.zeros((2,), i64)
    with pytest.raises(BorrowError):
        count(whole[:2].partition(1), whole[1:], ids)

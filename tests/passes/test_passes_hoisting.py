"""Checks of what a loop does not change are made before it, and only if it runs."""

import numpy as np
import pytest
from compiled_kernels import compiled_kernels

import tilewright as tw
from tilewright import Mapped, Mut, Ref, ReportForm, f32, i32
from tilewright.check.ledger import Rung
from tilewright.check.placement import Placement
from tilewright.dims import BM, BN, B, K, M, N
from tilewright.ir.ops.control import For

HOISTED, IN_PLACE = Rung.HOISTED, Rung.IN_PLACE


@pytest.fixture(autouse=True)
def on_the_cpu(checked_twice):
    with tw.device("cpu"):
        yield


def tensor(values):
    return tw.from_numpy(np.asarray(values, np.int32))


def compiled(kernel):
    entries = compiled_kernels(kernel)
    *_, last = [made for (placement, *_), made in entries if placement is Placement.EARLIEST]
    return last


def kept(kernel):
    """Where the checks that stay in the kernel are made."""
    return [entry.outcome for entry in compiled(kernel).ledger.in_kernel]


@tw.kernel
def invariant(z: Mut[i32, B], x: Ref[i32, M, N], ids: Ref[i32, K], n: i32) -> None:
    i = ids.partition(1)[0].item()
    total = tw.zeros((1, B), i32)
    for _ in range(n):
        for k in range(x.partition(1, B).num_tiles(1)):
            total += x.partition(1, B)[i, k]
    z.store(total.reshape((B,)))


@tw.kernel
def invariant_store(z: Mut[i32, B], ids: Ref[i32, K], n: i32) -> None:
    parts = z.partition(2)
    i = ids.partition(1)[0].item()
    for turn in range(n):
        parts.store(tw.full((2,), turn + 1, i32), i)


@tw.kernel
def behind_a_way_out(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, K], n: i32) -> None:
    i = ids.partition(1)[0].item()
    for turn in range(n):
        if turn == ids.partition(1)[1].item():
            break
        z.store(x.partition(B)[i])


@tw.kernel
def divided(z: Mut[i32, B], x: Ref[i32, N], ids: Ref[i32, K], n: i32) -> None:
    i = ids.partition(1)[0].item()
    for _ in range(n):
        z.store(x.partition(B)[i // n])


X = np.arange(24, dtype=np.int32).reshape(3, 8)


def run(kernel, *args):
    z = tw.zeros((4,), i32)
    kernel(z.partition(4), *args).sync()
    return z.numpy().tolist()


def test_a_check_climbs_out_of_every_loop():
    wanted = (2 * X[1].reshape(2, 4).sum(0)).tolist()
    assert run(invariant, tensor(X), tensor([1]), 2) == wanted
    assert HOISTED in kept(invariant)
    assert IN_PLACE not in kept(invariant)
    with pytest.raises(tw.OutOfBoundsError, match="index 7 is outside axis 0 of `x`") as failure:
        run(invariant, tensor(X), tensor([7]), 1)
    assert (failure.value.index, failure.value.extent) == (7, 3)


def test_a_loop_that_does_not_run_checks_nothing():
    assert run(invariant, tensor(X), tensor([7]), 0) == [0] * 4
    assert run(invariant, tensor(X[:, :0]), tensor([7]), 3) == [0] * 4
    assert run(invariant, tensor(X), tensor([7]), -1) == [0] * 4


def test_a_store_by_a_wrong_index_is_still_left_out():
    assert run(invariant_store, tensor([1]), 3) == [0, 0, 3, 3]
    assert run(invariant_store, tensor([9]), 0) == [0] * 4
    assert kept(invariant_store) == [HOISTED]
    z = tw.full((8,), 5, i32)
    with pytest.raises(tw.OutOfBoundsError, match="the kernel skipped the"):
        invariant_store(z[0:4].partition(4), tensor([2]), 3).sync()
    assert z[4:8].numpy().tolist() == [5] * 4


def test_a_check_behind_a_way_out_stays():
    x = tensor(range(16))
    assert run(behind_a_way_out, x, tensor([1, 9]), 2) == [4, 5, 6, 7]
    assert run(behind_a_way_out, x, tensor([9, 0]), 2) == [0] * 4
    assert IN_PLACE in kept(behind_a_way_out)


def test_a_division_that_the_loop_makes_defined_stays_in_it():
    """Before the loop `n` may be zero, and dividing by it undefined."""
    x = tensor(range(16))
    assert run(divided, x, tensor([6]), 2) == [12, 13, 14, 15]
    assert run(divided, x, tensor([6]), 0) == [0] * 4
    assert kept(divided) == [IN_PLACE]


@tw.kernel(report=ReportForm.AUDIT)
def walked(z: Mapped[f32, BM, BN], x: Ref[f32, M, K], y: Ref[f32, K, N], ids: Ref[i32, M]) -> None:
    for at in z.indices():
        row = ids.partition(1)[at[0]].item()
        acc = tw.zeros((BM, BN), f32)
        for k in range(x.partition(BM, 16).num_tiles(1)):
            acc = tw.mma(x.partition(BM, 16)[row, k], y.partition(16, BN)[k, at[1]], acc)
        z.store(acc, at)


def test_an_audit_of_a_walk_does_not_repeat_the_loop_inside():
    z, ones = tw.zeros((32, 32), f32), tw.ones((32, 32), f32)
    ids = tensor([1, 0] + [0] * 30)
    walked(z.partition(16, 16).persistent(blocks=2), ones, ones, ids).sync()
    assert (z.numpy() == 32).all()
    kernel, audit = compiled(walked).module.functions
    loops = [[op for op in function.walk() if isinstance(op, For)] for function in (kernel, audit)]
    assert [len(found) for found in loops] == [2, 1]
    assert HOISTED in kept(walked)
    with pytest.raises(tw.OutOfBoundsError, match="index 2 is outside axis 0 of `x`"):
        walked(z.partition(16, 16).persistent(), ones, ones, tensor([2] * 32)).sync()

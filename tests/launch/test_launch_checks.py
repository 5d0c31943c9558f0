"""Launch checks: evaluated with the actual numbers at every launch, before any work."""

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mut, Ref, f16, f32, i32
from tilewright.dims import BM, BN, B, K, M, N, T


class P(tw.Dim): ...


class Q(tw.Dim): ...


@tw.kernel(deny_checks=True)
def gemm(z: Mut[f32, BM, BN], x: Ref[T, M, K], y: Ref[T, P, Q], *, BK: Const[int] = 16) -> None:
    """The signature ties nothing together: all that holds at launch is checked there."""
    xs, ys = x.partition(BM, BK), y.partition(BK, BN)
    i, j = z.index
    acc = tw.zeros((BM, BN), f32)
    for k in range(xs.num_tiles(1)):
        acc = tw.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)


def matrices(m: int, n: int, k: int, p: int | None = None) -> tuple[tw.Tensor, ...]:
    return tw.zeros((m, n), f32), tw.ones((m, k), f16), tw.ones((k if p is None else p, n), f16)


def test_a_short_input_is_refused_and_nothing_is_held():
    z, x, y = matrices(32, 32, 64, p=48)
    with pytest.raises(tw.LaunchError) as refusal:
        gemm(z.partition(16, 16), x, y)
    text = str(refusal.value)
    assert text.startswith("kernel `gemm`: ")
    for part in ("`y`, axis 0", "goes from 0 to 3", "3 tiles, 0 to 2", "ceil(y.shape[0] / 16) = 3"):
        assert part in text
    assert re.search(r"test_launch_checks\.py:\d+:\d+: ", text)
    assert all(tensor.storage.is_lazy for tensor in (z, x, y))
    gemm(z.partition(16, 16), x, tw.ones((64, 32), f16)).sync()
    assert (z.numpy() == 64).all()


def test_cached_launches_are_checked_too():
    z, x, y = matrices(32, 32, 64)
    gemm(z.partition(16, 16), x, y).sync()
    compiled = len(gemm._compiled)
    short = tw.ones((48, 32), f16)
    for _ in range(2):
        with pytest.raises(tw.LaunchError, match="`y`, axis 0"):
            gemm(z.partition(16, 16), x, short)
        gemm(z.partition(16, 16), x, y).sync()
    narrow = tw.ones((64, 16), f16)
    with pytest.raises(tw.LaunchError, match="`y`, axis 1"):
        gemm(z.partition(16, 16), x, narrow)
    assert len(gemm._compiled) == compiled


def test_larger_inputs_are_fine():
    z, x, _ = matrices(32, 32, 64)
    gemm(z.partition(16, 16), x, tw.ones((80, 48), f16)).sync()
    assert (z.numpy() == 64).all()


# --- tw.require -----------------------------------------------------------------------------------


@tw.kernel(deny_checks=True)
def halves(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    tw.require(N % 2 == 0)
    tw.require(n >= 0 and n < x.partition(B).num_tiles(0))
    z.store(x.partition(B)[n])


def test_preconditions_are_checked_at_every_launch():
    x = tw.from_numpy(np.arange(40, dtype=np.float32))
    z = tw.zeros((16,), f32)
    for n in (0, 2):
        halves(z.partition(16), x, n).sync()
        wanted = np.zeros(16, np.float32)
        wanted[: 40 - 16 * n] = np.arange(40)[16 * n : 16 * (n + 1)]
        np.testing.assert_array_equal(z.numpy(), wanted)
    with pytest.raises(tw.LaunchError, match=re.escape("the kernel requires `N % 2 == 0`")):
        halves(z.partition(16), tw.zeros((41,), f32), 0)
    for n in (-1, 3, 2**31 - 1):
        with pytest.raises(tw.LaunchError, match=f"the kernel requires .* n = {n}"):
            halves(z.partition(16), x, n)


def test_a_divisor_of_the_launch_is_checked_there():
    @tw.kernel(deny_checks=True)
    def divided(z: Mut[i32, B], n: i32) -> None:
        z.store(tw.arange(B) // n)

    z = tw.zeros((16,), i32)
    divided(z.partition(16), 3).sync()
    np.testing.assert_array_equal(z.numpy(), np.arange(16) // 3)
    with pytest.raises(tw.LaunchError, match="the divisor `n` is zero"):
        divided(z.partition(16), 0)


# --- guarded accesses -----------------------------------------------------------------------------


@tw.kernel
def guarded(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    xs = x.partition(B)
    t = tw.zeros((B,), f32)
    if n * n != 9:
        t = xs[n]
    z.store(t)


@tw.kernel(deny_checks=True)
def guarded_strictly(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    xs = x.partition(B)
    t = tw.zeros((B,), f32)
    if n * n != 9:
        t = xs[n]
    z.store(t)


def test_a_guarded_access_that_fails_its_check_is_checked_in_the_kernel():
    """Tile 3 does not exist, but the guard keeps the kernel from it."""
    x, z = tw.ones((48,), f32), tw.full((16,), 5.0, f32)
    guarded(z.partition(16), x, 2).sync()
    assert (z.numpy() == 1).all()
    plain = len(guarded._compiled)
    guarded(z.partition(16), x, 3).sync()
    assert (z.numpy() == 0).all()
    assert len(guarded._compiled) == plain + 1
    failed = guarded(z.partition(16), x, 7)
    with pytest.raises(tw.OutOfBoundsError, match="index 7 is outside axis 0 of `x`"):
        failed.sync()
    guarded(z.partition(16), x, 0).sync()
    assert len(guarded._compiled) == plain + 1


def test_a_kernel_without_checks_refuses_that_launch():
    x, z = tw.ones((48,), f32), tw.zeros((16,), f32)
    guarded_strictly(z.partition(16), x, 2).sync()
    for n in (3, 7):
        with pytest.raises(tw.LaunchError, match=r"allows no checks inside \(deny_checks\)"):
            guarded_strictly(z.partition(16), x, n)
    guarded_strictly(z.partition(16), x, 1).sync()
    assert (z.numpy() == 1).all()


def test_an_axis_that_is_checked_in_the_kernel_must_not_be_empty():
    @tw.kernel
    def gather(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
        z.store(x.partition(B)[ids.partition(1)[z.index[0]].item()])

    z, ids = tw.zeros((16,), f32), tw.zeros((1,), i32)
    with pytest.raises(tw.LaunchError, match=r"`x`, axis 0.*the axis is empty"):
        gather(z.partition(16), tw.zeros((0,), f32), ids)
    gather(z.partition(16), tw.ones((16,), f32), ids).sync()
    assert (z.numpy() == 1).all()


# --- launches without a block ---------------------------------------------------------------------


@tw.kernel
def demanding(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    tw.require(N % 8 == 0)
    tw.require(n > 0)
    z.store(tw.full((B,), n.astype(f32), f32))


@tw.kernel
def counting(z: Mut[f32, B]) -> None:
    tw.require(tw.num_blocks(0) > 1)
    z.store(tw.ones((B,), f32))


@tw.kernel
def alike(z: Mut[f32, B], x: Ref[f32, N]) -> None:
    z.store(x.load_like(z))


@tw.kernel
def grouped(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
    tw.require(z.segments == 2)
    z.store(x.load_like(z))


@pytest.mark.parametrize("size", [0, 8])
def test_a_requirement_holds_for_launches_without_a_block_too(size):
    z, ones, odd = tw.zeros((size,), f32), tw.ones((8,), f32), tw.ones((7,), f32)
    for _ in range(3):  # cold, planned, bound
        demanding(z.partition(4), ones, 2).sync()
        with pytest.raises(tw.LaunchError, match=r"the kernel requires `n > 0` \(n = 0\)"):
            demanding(z.partition(4), ones, 0)
        with pytest.raises(tw.LaunchError, match=r"requires `N % 8 == 0` \(x\.shape\[0\] = 7\)"):
            demanding(z.partition(4), odd, 2)
    assert (z.numpy() == 2).all()
    alike(z.partition(4), tw.ones((size,), f32)).sync()
    with pytest.raises(tw.LaunchError, match="since x is read like z"):
        alike(z.partition(4), odd)


def test_a_requirement_about_the_number_of_blocks():
    for size, is_met in ((0, False), (4, False), (8, True)):
        z = tw.zeros((size,), f32)
        if is_met:
            counting(z.partition(4)).sync()
            assert (z.numpy() == 1).all()
        else:
            with pytest.raises(
                tw.LaunchError, match=r"the kernel requires `tw\.num_blocks\(0\) > 1`"
            ):
                counting(z.partition(4))


def test_what_blocks_do_is_not_asked_of_launches_without_one():
    """An index, a clip and a step: no block comes to them."""

    @tw.kernel
    def busy(z: Mut[f32, B], x: Ref[f32, N], step: i32) -> None:
        xs, total = x.partition(B), 0
        for k in range(0, 8, step):
            total += k // step
        z.store(xs[0] + xs[xs.clip(3, 0)] + total.astype(f32))

    none, some = tw.zeros((0,), f32), tw.ones((4,), f32)
    for _ in range(3):
        busy(none.partition(4), none, 0).sync()
    with pytest.raises(tw.LaunchError, match="since an index is clipped to it"):
        busy(some.partition(4), none, 1)
    with pytest.raises(tw.LaunchError, match="is 0, not above zero"):
        busy(some.partition(4), tw.ones((4,), f32), 0)


def test_segments_are_counted_where_no_row_is_there():
    none = tw.zeros((0, 8), f32)

    def offsets(*numbers):
        return tw.from_numpy(np.array(numbers, np.int32))

    grouped(none.partition(2, 8, segments=offsets(0, 0, 0)), none).sync()
    for other in (offsets(0), offsets(0, 0)):
        with pytest.raises(tw.LaunchError, match=r"the kernel requires `z\.segments == 2`"):
            grouped(none.partition(2, 8, segments=other), none)

"""Accesses behind a run-time guard where the axis is empty: the launch runs, and nothing is read.

A mixture of experts with no tokens is such a launch. Where the guard lets an access through all the
same, there is no nearest tile: the kernel takes zeros, and reports it.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import Accum, Const, Mut, Ref, bf16, bool_, f8e4m3fn, f32, i8, i32, i64, u32, u64
from tilewright.dims import BM, BN, B, K, M, N, S, T
from tilewright.dtypes import numpy_dtype


@tw.kernel
def by_index(z: Mut[T, B], x: Ref[T, N], ids: Ref[i32, M]) -> None:
    at = ids.partition(1)[0].item()
    if at >= 0:
        z.store(x.partition(B)[at])


@tw.kernel
def at_start(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    if ids.partition(1)[0].item() >= 0:
        z.store(x.partition(B)[0])


@tw.kernel
def clipped(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    at = ids.partition(1)[0].item()
    tiles = x.partition(B)
    if at >= 0:
        z.store(tiles[tiles.clip(at, 0)])


@tw.kernel
def clipped_unsigned(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    at = ids.partition(1)[0].item()
    tiles = x.partition(B)
    if at >= 0:
        z.store(tiles[tiles.clip(at.astype(u64), 0)])


@tw.kernel
def looped(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    total = z.load()
    for k in range(ids.partition(1)[0].item() + 1):
        total = total + x.partition(B)[k]
    z.store(total)


@tw.kernel
def before_the_loop(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    at = ids.partition(1)[0].item()
    total = z.load()
    for _ in range(at + 1):
        total = total + x.partition(B)[at]
    z.store(total)


@tw.kernel
def windowed(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    at = ids.partition(1)[0].item()
    if at >= 0:
        z.store(x.windows(B, step=2)[at])


@tw.kernel
def early(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    at = ids.partition(1)[0].item()
    if at < 0:
        return
    z.store(x.partition(B)[at])


@tw.kernel
def summed(z: Mut[f32, B], x: Accum[f32, N], ids: Ref[i32, M]) -> None:
    at = ids.partition(1)[0].item()
    if at >= 0:
        x.add(z.load(), at)


@tw.kernel
def only_clipped(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    at = ids.partition(1)[0].item()
    if at >= 0:
        place = x.partition(B).clip(at, 0)
        z.store(tw.ones((B,), f32) + place.astype(f32))


@tw.kernel
def only_clipped_windows(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
    total = z.load()
    for k in range(ids.partition(1)[0].item() + 1):
        total = total + (x.windows(B, step=2).clip(k.astype(u64), 0) + 1).astype(f32)
    z.store(total)


CLIPPING = [clipped, clipped_unsigned, only_clipped, only_clipped_windows]
READING = [by_index, at_start, looped, before_the_loop, windowed, early]


def ids(number):
    return tw.from_numpy(np.array([number], np.int32))


@pytest.fixture(autouse=True)
def watched():
    with tw.device("cpu"), tw.race_check():
        yield


@pytest.mark.parametrize("kernel", [*READING, *CLIPPING, summed], ids=lambda one: one.__name__)
def test_a_guard_that_holds_the_access_back(kernel):
    z = tw.full((8,), 5, f32)
    for _ in range(3):
        kernel(z.partition(4), tw.zeros((0,), f32), ids(-1)).sync()
        assert z.numpy().tolist() == [5] * 8
    kernel(z.partition(4), tw.zeros((16,), f32), ids(-1)).sync()
    assert z.numpy().tolist() == [5] * 8


@pytest.mark.parametrize("kernel", READING, ids=lambda one: one.__name__)
def test_a_guard_that_lets_the_access_through(kernel):
    z = tw.full((8,), 5, f32)
    for number in (0, 3):
        with pytest.raises(
            tw.OutOfBoundsError, match=r"which has 0 .*; the kernel took zeros"
        ) as e:
            kernel(z.partition(4), tw.zeros((0,), f32), ids(number)).sync()
        assert e.value.extent == 0
    tw.fill(z, 0).sync()
    kernel(z.partition(4), tw.ones((16,), f32), ids(0)).sync()
    assert z.numpy().tolist() == [1] * 8


@pytest.mark.parametrize("kernel", CLIPPING, ids=lambda one: one.__name__)
@pytest.mark.parametrize("form", [one for one in tw.ReportForm if one is not tw.ReportForm.NONE])
def test_no_index_is_clipped_to_an_empty_axis(kernel, form):
    """The clip itself is reported, whether or not something is loaded by it."""
    kernel = tw.kernel(report=form)(kernel.source.function)
    z = tw.full((8,), 5, f32)
    noun = "windows of 4, one every 2" if "windows" in kernel.__name__ else "tiles of 4"
    text = (
        f"axis 0 of `x` has 0 {noun}, so no index can be clipped to it; the kernel took 0 instead"
    )
    for number in (0, 3):
        with pytest.raises(tw.OutOfBoundsError, match=text) as e:
            kernel(z.partition(4), tw.zeros((0,), f32), ids(number)).sync()
        assert e.value.extent == 0
    tw.fill(z, 0).sync()
    kernel(z.partition(4), tw.ones((16,), f32), ids(0)).sync()
    assert z.numpy().tolist() == [1] * 8


def test_nothing_is_accumulated():
    z = tw.full((8,), 5, f32)
    with pytest.raises(tw.OutOfBoundsError, match=r"which has 0 .*; the kernel skipped the write"):
        summed(z.partition(4), tw.zeros((0,), f32), ids(0)).sync()


@pytest.mark.parametrize("dtype", [f32, bf16, f8e4m3fn, bool_, i8, u32, i64])
def test_zeros_of_every_kind(dtype):
    z = tw.from_numpy(np.ones(4, numpy_dtype(dtype)))
    with pytest.raises(tw.OutOfBoundsError):
        by_index(z.partition(4), tw.empty((0,), dtype), ids(0)).sync()
    tw.fill(z, 1).sync()
    by_index(z.partition(4), tw.empty((0,), dtype), ids(-1)).sync()
    assert z.numpy().astype(np.float32).tolist() == [1] * 4


def test_an_access_that_every_block_makes_is_refused():
    @tw.kernel
    def always(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
        z.store(x.partition(B)[ids.partition(1)[0].item()])

    with pytest.raises(tw.LaunchError, match="checked in the kernel, but the axis is empty"):
        always(tw.zeros((8,), f32).partition(4), tw.zeros((0,), f32), ids(0))


def test_a_kernel_that_denies_checks_refuses():
    @tw.kernel(deny_checks=True)
    def denying(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, M]) -> None:
        tiles = x.partition(B)
        if ids.partition(1)[0].item() >= 0:
            z.store(tiles[tiles.clip(0, 0)])

    z = tw.zeros((8,), f32)
    with pytest.raises(tw.LaunchError, match=r"allows no checks inside.*an index is clipped to it"):
        denying(z.partition(4), tw.zeros((0,), f32), ids(-1))
    denying(z.partition(4), tw.ones((4,), f32), ids(0)).sync()
    assert z.numpy().tolist() == [1] * 8


@tw.kernel
def experts(
    z: Mut[f32, BM, BN],
    x: Ref[f32, M, K],
    w: Ref[f32, N, K],
    rows: Ref[i32, S],
    *,
    BK: Const[int] = 16,
) -> None:
    """Rows that were routed here, times the weights; no row is routed where there is no token."""
    i, j = z.index
    row = rows.partition(1)[i].item()
    total = tw.zeros((BM, BN), f32)
    if row >= 0:
        tokens, weights = x.partition(BM, BK), w.partition(BN, BK)
        for k in range(tokens.num_tiles(1)):
            total = tw.mma(tokens[row, k], weights[j, k].T, total)
    z.store(total)


@pytest.mark.parametrize("tokens", [0, 32])
def test_experts_with_and_without_tokens(tokens):
    z, w = tw.full((32, 16), 7, f32), tw.ones((16, 32), f32)
    x, none = tw.ones((tokens, 32), f32), tw.from_numpy(np.array([-1, -1], np.int32))
    experts(z.partition(16, 16), x, w, none).sync()
    assert not z.numpy().any()
    some = tw.from_numpy(np.array([-1, 1], np.int32))
    if tokens:
        experts(z.partition(16, 16), x, w, some).sync()
        assert z.numpy().sum() == 16 * 16 * 32
    else:
        with pytest.raises(tw.OutOfBoundsError, match="index 1 is outside axis 0 of `x`"):
            experts(z.partition(16, 16), x, w, some).sync()

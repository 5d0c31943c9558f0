"""Gathers, windows, orders and clips on the GPU and on the CPU backend, and a tensor so large that
31 bits do not span it."""

import numpy as np
import pytest
from gpu_kernels import GPU, poisoned, run_both

import tilewright as tw
from tilewright import Const, Mut, Ref, f32, i8, i32, i64
from tilewright.dims import BM, BN, B, D, K, M, N, T

pytestmark = pytest.mark.gpu


class TI(tw.AnyDType): ...


@tw.kernel(deny_checks=True)
def picked(z: Mut[T, BM, BN], x: Ref[T, M, N], ids: Ref[TI, K]) -> None:
    rows = ids.gather(z.index[0] * BM + tw.arange(BM, i32), padding=-1)
    columns = z.index[1] * BN + tw.arange(BN, i32)
    z.store(x.gather(rows[:, None], columns, mask=columns != 3, padding=7))


@pytest.mark.parametrize("index", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.float64])
def test_gather(dtype, index):
    x = (np.arange(19 * 45) % 61).reshape(19, 45).astype(dtype)
    ids = np.array([0, 18, 19, -1, 7, 7, 127, -128, *range(9)], np.int64)
    if index is np.int64:
        ids[8:12] = 2**32, 2**40 + 3, -(2**63), 2**63 - 1
    gpu, cpu = run_both(
        lambda z, x, ids: picked(z.partition(8, 16), x, ids),
        poisoned((17, 45), dtype), x, ids.astype(index),
    )  # fmt: skip
    np.testing.assert_array_equal(gpu, cpu)


@tw.kernel(deny_checks=True)
def windows(z: Mut[T, BM, BN], x: Ref[T, M, N], *, SM: Const[int], SN: Const[int]) -> None:
    z.store(x.windows(BM, BN, step=(SM, SN))[z.index])


@pytest.mark.parametrize("steps", [(1, 1), (3, 8), (8, 4), (5, 40), (16, 16)])
@pytest.mark.parametrize("shape", [(37, 53), (64, 64), (33, 16)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_windows(dtype, shape, steps):
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    counts = [-(-extent // step) for extent, step in zip(shape, steps, strict=True)]
    gpu, cpu = run_both(
        lambda z, x: windows(z.partition(8, 16), x, SM=steps[0], SN=steps[1]),
        poisoned((counts[0] * 8, counts[1] * 16), dtype), x,
    )  # fmt: skip
    np.testing.assert_array_equal(gpu, cpu)


@tw.kernel(deny_checks=True)
def turned(z: Mut[T, BM, BN, D], x: Ref[T, M, N, K], at: Ref[i64, B]) -> None:
    p = x.partition(BM, BN, D, order=(2, 0, 1))
    far = p.clip(at.gather(0).item(), 0)
    z.store(p.load(z.index, latency=3) + p.load(far, 0, p.clip(-5, 2), allow_tma=False))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_orders_and_clips(dtype):
    x = (np.arange(12 * 34 * 23) % 97).reshape(12, 34, 23).astype(dtype)
    gpu, cpu = run_both(
        lambda z, x, at: turned(z.partition(8, 4, 16), x, at),
        poisoned((23, 12, 34), dtype), x, np.array([2**35], np.int64),
    )  # fmt: skip
    np.testing.assert_array_equal(gpu, cpu)
    moved = x.transpose(2, 0, 1)
    corner = np.zeros((8, 4, 16), dtype)
    corner[:7] = moved[16:, :4, :16]
    np.testing.assert_array_equal(gpu[:8, :4, :16], moved[:8, :4, :16] + corner)


# --- more than 31 bits ----------------------------------------------------------------------------

ROWS, COLUMNS = 40_000, 65_536  # 2.6e9 elements


@tw.kernel(deny_checks=True)
def numbered(z: Mut[i8, BM, BN]) -> None:
    row = z.index[0] * BM + tw.arange(BM, i32)[:, None]
    column = z.index[1] * BN + tw.arange(BN, i32)
    z.store(((row * 7 + column) % 101).astype(i8))


@tw.kernel(deny_checks=True)
def far_apart(z: Mut[i8, BM, BN], x: Ref[i8, M, N], ids: Ref[i32, K], at: i32) -> None:
    rows = ids.gather(z.index[0] * BM + tw.arange(BM, i32))
    columns = N - 1 - (z.index[1] * BN + tw.arange(BN, i32))
    tiles = x.partition(BM, BN)
    z.store(x.gather(rows[:, None], columns) + tiles[at, tiles.num_tiles(1) - 1] * 0)


def test_a_tensor_of_more_elements_than_31_bits_count():
    with tw.device(GPU):
        x = tw.zeros((ROWS, COLUMNS), i8)
        numbered(x.partition(16, 1024)).sync()
        ids = np.array([0, 1, ROWS - 1, ROWS - 2, 32_767, 32_768, 39_000, ROWS], np.int32)
        z = tw.zeros((8, 64), i8)
        far_apart(z.partition(8, 64), x, tw.from_numpy(ids), ROWS // 8 - 1).sync()
        got, tail = z.numpy(), x[ROWS - 8 :, COLUMNS - 64 :].numpy()
    columns = COLUMNS - 1 - np.arange(64)
    wanted = (ids[:, None].astype(np.int64) * 7 + columns) % 101
    wanted[-1] = 0
    np.testing.assert_array_equal(got, wanted.astype(np.int8))
    rows = np.arange(ROWS - 8, ROWS)[:, None]
    last = (rows * 7 + np.arange(COLUMNS - 64, COLUMNS)) % 101
    np.testing.assert_array_equal(tail, last.astype(np.int8))


@tw.kernel(deny_checks=True)
def filled(z: Mut[f32, B], x: Ref[f32]) -> None:
    z.store(tw.full((B,), x.item(), f32))


def test_a_tensor_without_axes():
    gpu, cpu = run_both(
        lambda z, x: filled(z.partition(4), x), poisoned(10, np.float32), np.array(2.5, np.float32)
    )
    np.testing.assert_array_equal(gpu, cpu)
    assert (gpu == 2.5).all()

"""Unsafe code: what it computes, what the CPU device reports of it, and what it borrows."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mut, Ptr, Ref, f32, i32, i64, u32
from tilewright.dims import BM, BN, B, N, T


@tw.kernel(unsafe=True)
def scale(p: Ptr[f32], n: i32, s: f32, *, SIZE: Const[int] = 32) -> None:
    """Every block takes each `num_blocks`-th stretch of SIZE elements."""
    with tw.unsafe("masked by n, and the blocks step over different elements"):
        for turn in range(tw.cdiv(n, tw.num_blocks() * SIZE)):
            at = (turn * tw.num_blocks() + tw.block_id()) * SIZE + tw.arange(SIZE)
            pointers = p + at
            tw.store(pointers, tw.load(pointers, mask=at < n) * s, mask=at < n)


@pytest.mark.parametrize("n", [0, 1, 31, 97, 128, 1000])
def test_a_grid_stride_loop_over_pointers(n):
    x = np.arange(1000, dtype=np.float32)
    p = tw.from_numpy(x)
    with tw.race_check():
        scale.grid(3).unsafe(p, n, 3.0).sync()
    np.testing.assert_array_equal(p.numpy(), np.where(np.arange(1000) < n, 3 * x, x))


@tw.kernel(unsafe=True)
def transpose(z: Mut[T, BM, BN], p: Ptr[T], rows: i64) -> None:
    i, j = z.index
    at = z.shape[0] - z.shape[0]  # zero, of i32
    with tw.unsafe("p points to a matrix of `rows` columns, as tall as z is wide"):
        own = p + (i * BM + at)
        down = own.reshape(1).broadcast_to(BN)[None, :] + (
            (j * BN + tw.arange(BN)).astype(i64) * rows
        )
        corners = tw.arange(BM)[:, None] + down
        inside = (i * BM + tw.arange(BM))[:, None] < z.shape[0]
        z.store(tw.load(corners, mask=inside & ((j * BN + tw.arange(BN)) < z.shape[1])))


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool_])
def test_tiles_of_pointers_take_any_shape(dtype):
    x = (np.arange(35).reshape(5, 7) % 3).astype(dtype)
    z = tw.from_numpy(np.zeros((7, 5), dtype))
    transpose.unsafe(z.partition(4, 2), tw.from_numpy(x), 7).sync()
    np.testing.assert_array_equal(z.numpy(), x.T)


@tw.kernel(unsafe=True)
def atomics(z: Mut[T, B], p: Ptr[T], x: Ref[T, N]) -> None:
    with tw.unsafe("atomics do not race"):
        at, first = p + tw.arange(B) % 4, x.load_like(z)
        low = tw.arange(B) < 16
        tw.atomic_min(at, first, mask=low)
        tw.atomic_max(at + 4, first)
        tw.atomic_and(at + 8, first, scope="system")
        tw.atomic_or(at + 12, first, ordering="release")
        tw.atomic_xor(at + 16, first, ordering="acquire")
        tw.atomic_add(at + 20, first)
        z.store(tw.atomic_xchg(p + 24 + tw.arange(B), first))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_every_atomic(dtype):
    x = np.random.default_rng(7).integers(0, 2**31, 32).astype(dtype)
    x[3] = np.iinfo(dtype).max
    old = np.arange(100, 156).astype(dtype)
    old[8:12] = -1 if np.issubdtype(dtype, np.signedinteger) else np.iinfo(dtype).max
    p, z = tw.from_numpy(old), tw.from_numpy(np.zeros(32, dtype))
    with tw.race_check():
        atomics.unsafe(z.partition(32), p, tw.from_numpy(x)).sync()
    groups = x.reshape(8, 4)
    wanted = np.concatenate(
        [
            np.minimum(groups[:4].min(0), old[:4]),
            np.maximum(groups.max(0), old[4:8]),
            np.bitwise_and.reduce(groups) & old[8:12],
            np.bitwise_or.reduce(groups) | old[12:16],
            np.bitwise_xor.reduce(groups) ^ old[16:20],
            groups.sum(0, dtype=dtype) + old[20:24],
            x,
        ]
    )
    np.testing.assert_array_equal(p.numpy(), wanted)
    np.testing.assert_array_equal(z.numpy(), old[24:])


@tw.kernel(unsafe=True)
def swap_if(z: Mut[u32, B], p: Ptr[u32]) -> None:
    with tw.unsafe("one block"):
        at = p + tw.arange(B)
        z.store(tw.atomic_cas(at, tw.arange(B).astype(u32) * 2, 9))


def test_compare_and_swap():
    p, z = tw.arange(32, u32), tw.zeros((32,), u32)
    swap_if.unsafe(z.partition(32), p).sync()
    assert z.numpy().tolist() == list(range(32))
    assert p.numpy().tolist() == [9, *range(1, 32)]


@tw.kernel(unsafe=True)
def there_and_back(z: Mut[f32, B], p: Ptr[f32], q: Ptr[f32]) -> None:
    with tw.unsafe("one block, and what is read was written before"):
        at = tw.arange(B)
        tw.store(p + at, z.load())
        if tw.num_blocks() == 1:
            tw.store(q + at, tw.load(p + at) + 1)
        for step in range(3):
            tw.store(p + at, tw.load(q + at) * f32(step + 1))
        z.store(tw.load(p + at))


def test_accesses_by_pointers_are_ordered():
    p, q, z = tw.zeros((32,), f32), tw.zeros((32,), f32), tw.arange(32, f32)
    with tw.race_check():
        there_and_back.unsafe(z.partition(32), p, q).sync()
    np.testing.assert_array_equal(z.numpy(), (np.arange(32) + 1) * 3)


def test_a_grid_does_not_make_a_kernel_safe():
    p = tw.zeros((8,), f32)
    with pytest.raises(tw.LaunchError, match=r"Launch it as `scale\.unsafe"):
        scale.grid(3)(p, 8, 3.0)
    with pytest.raises(tw.LaunchError, match=r"Launch it as `scale\.unsafe"):
        scale.launch((3,), (p, 8, 3.0), {})


# --- what is reported -----------------------------------------------------------------------------


@tw.kernel(unsafe=True)
def one_too_far(z: Mut[f32, B], p: Ptr[f32], n: i32) -> None:
    with tw.unsafe("it is not: this is a test"):
        tw.store(p + n, tw.sum(z.load()))


@pytest.mark.parametrize("n", [128, -1, 2**31 - 1])
def test_a_pointer_outside_is_reported_and_not_used(n):
    p = tw.zeros((128,), f32)
    op = one_too_far.unsafe(tw.zeros((32,), f32).partition(32), p, n)
    with pytest.raises(tw.UndefinedBehaviourError, match=r"test_language_unsafe\.py:\d+") as error:
        op.sync()
    assert "store_ptr_tko" in str(error.value)


def test_racing_pointers_are_reported_with_both_blocks():
    op = one_too_far.unsafe(tw.zeros((64,), f32).partition(32), tw.zeros((128,), f32), 5)
    with tw.race_check(), pytest.raises(tw.UndefinedBehaviourError) as error:
        op.sync()
    text = str(error.value)
    assert "block (0, 0, 0) writes" in text
    assert "block (1, 0, 0)" in text
    assert text.count("test_language_unsafe.py:") == 2


@tw.kernel
def all_in_one_place(z: Mut[f32, B], n: i32) -> None:
    with tw.unsafe("it is not: this is a test"):
        z.partition(B).store_unchecked(tw.zeros((B,), f32), n - z.index[0])


def test_a_part_of_another_piece_is_a_race():
    op = all_in_one_place(tw.ones((64,), f32).partition(32), 1)
    with tw.race_check(), pytest.raises(tw.UndefinedBehaviourError) as error:
        op.sync()
    assert "block (0, 0, 0) writes" in str(error.value)
    assert "and block (1, 0, 0) writes it too" in str(error.value)


def test_an_unchecked_place_outside_is_reported():
    op = all_in_one_place(tw.ones((64,), f32).partition(32), 2)
    with pytest.raises(tw.UndefinedBehaviourError, match="store_view_tko"):
        op.sync()


def test_an_unchecked_store_does_not_count_as_writing_everything():
    z = tw.ones((64,), f32)
    all_in_one_place(z.partition(32), 1).sync()
    np.testing.assert_array_equal(z.numpy(), np.repeat([1, 0], 32))


@tw.kernel(deny_checks=True)
def promised(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
    xs = x.partition(B)
    with tw.unsafe("callers keep to it"):
        tw.assume(n >= 0)
        tw.assume(n < xs.num_tiles(0))
        tw.assume_divisible(n, 2)
    z.store(xs[n])


def test_a_broken_promise_is_reported():
    x, z = tw.arange(64, f32), tw.zeros((32,), f32)
    promised(z.partition(32), x, 0).sync()
    np.testing.assert_array_equal(z.numpy(), np.arange(32))
    with pytest.raises(tw.UndefinedBehaviourError, match=r"assume promises \[1, 1\], and has 0"):
        promised(z.partition(32), x, 2).sync()


def test_a_promise_says_nothing_about_what_comes_before_it():
    @tw.kernel(deny_checks=True)
    def late(z: Mut[f32, B], x: Ref[f32, N], ids: Ref[i32, N]) -> None:
        i = ids.partition(1)[0].item()
        z.store(x.partition(B)[i])
        with tw.unsafe("too late"):
            tw.assume(i == 0)

    x = tw.zeros((64,), f32)
    with pytest.raises(tw.CompileError, match=r"error\[bounds\]"):
        late(tw.zeros((32,), f32).partition(32), x, tw.zeros((64,), i32))


# --- what is borrowed -----------------------------------------------------------------------------


def test_a_pointer_borrows_its_tensor_for_writing():
    p, z = tw.zeros((128,), f32), tw.zeros((32,), f32)
    op = one_too_far.unsafe(z.partition(32), p, 0)
    with pytest.raises(tw.BorrowError, match="holds"):
        p.numpy()
    op.close()
    with pytest.raises(tw.BorrowError):
        there_and_back.unsafe(z.partition(32), p, p)
    with pytest.raises(tw.BorrowError):
        one_too_far.unsafe(z.partition(32), z, 0)

"""NumPy arrays as arguments on the CPU device: no copies, and nothing taken that is not right."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from interop_kernels import add, copy, copy_matrix, numbers

import tilewright as tw
from tilewright import f32


def refuse(text: str, error: type[Exception] = tw.LaunchError):
    return pytest.raises(error, match=re.escape(text))


@pytest.mark.parametrize("n", [0, 1, 7, 128, 1009])
def test_arrays_are_read_and_written_in_place(n):
    x, y, z = numbers(n), np.ones(n, np.float32), np.full(n, -1, np.float32)
    result = add(tw.partition(z, 16), x, y).sync()
    assert result[1] is x
    assert (z == x + 1).all()


DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    x = np.array([0, 1, 1, 2, 4, 8, 1], np.float32).astype(dtype)
    z = np.zeros(7, np.uint8).astype(dtype)
    copy(tw.partition(z, 4), x).sync()
    assert z.tobytes() == x.tobytes()
    assert tw.from_dlpack(x).numpy().tobytes() == x.tobytes()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[3:19, 5:16],
        lambda a: a[::2, ::3],
        lambda a: a.T,
        lambda a: np.broadcast_to(a[2:3], a.shape),
        lambda a: a[:1],
        lambda a: a[:, :1][::-1][:1],
        lambda a: a[5:5],
    ],
)
def test_views_with_any_strides_can_be_read(view):
    x = view(numbers(24 * 40).reshape(24, 40))
    z = np.zeros(x.shape, np.float32)
    copy_matrix(tw.partition(z, 8, 8), x).sync()
    assert (z == x).all()
    assert (tw.from_dlpack(x).numpy() == x).all()


def test_views_can_be_written():
    whole = np.zeros((24, 40), np.float32)
    x = numbers(8 * 20).reshape(8, 20)
    copy_matrix(tw.partition(whole[4:20:2, ::2], 4, 8), x).sync()
    assert (whole[4:20:2, ::2] == x).all()
    assert whole.sum() == x.sum()


def test_tensors_and_arrays_mix():
    x, z = numbers(50), tw.zeros((50,), f32)
    add(z.partition(16), x, tw.ones((50,), f32)).sync()
    assert (z.numpy() == x + 1).all()


def test_from_dlpack_of_a_tensor_is_the_tensor():
    x = tw.ones((4,), f32)
    assert tw.from_dlpack(x) is x


def test_what_is_read_only_is_read():
    x, z = numbers(32), np.zeros(32, np.float32)
    x.setflags(write=False)
    copy(tw.partition(z, 16), x).sync()
    assert (z == x).all()
    with refuse(
        "z is written by copy, but the array of NumPy is read-only: pass it to a Ref, or write to"
        " a copy",
        tw.BorrowError,
    ):
        copy(tw.partition(x, 16), z)


def test_an_output_with_shared_elements_is_refused():
    z = np.lib.stride_tricks.as_strided(np.zeros(32, np.float32), (16, 16), (4, 4))
    with refuse("make elements share memory", tw.BorrowError):
        copy_matrix(tw.partition(z, 8, 8), np.ones((16, 16), np.float32))


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (numbers(8)[::-1], "with shape (8,) runs backwards, with strides of (-4,) bytes"),
        (numbers(8).astype(">f4"), "holds >f4, whose bytes are in the order of another machine"),
        (np.ma.masked_array(numbers(8)), "has a mask, which a kernel would not see"),
        (numbers(8).astype(np.complex64), "holds complex64, for which there is no dtype"),
        (np.array([None] * 8), "holds object, for which there is no dtype"),
        (np.zeros(8, [("a", "f4"), ("b", "f4")]), "for which there is no dtype"),
        (np.zeros(40, np.uint8)[1:33].view(np.float32), "begin at multiples of 4: copy it"),
        (np.zeros(8, [("a", "f4"), ("b", "u1")])["a"], "which are no whole elements of 4 bytes"),
        (np.zeros(8, ml_dtypes.int4), "i4 lives in tiles only"),
    ],
)
def test_what_cannot_be_taken_is_refused(array, text):
    with refuse(text):
        tw.from_dlpack(array)
    with refuse("`x` of kernel `copy` cannot be passed: "):
        copy(tw.partition(np.zeros(8, np.float32), 8), array)


@pytest.mark.parametrize("thing", [[1.0], 1, None, "x", object(), memoryview(b"1234")])
def test_what_is_no_array_is_refused(thing):
    with refuse("tw.from_dlpack takes an array that another library exports"):
        tw.from_dlpack(thing)


def test_a_resized_array_is_noticed_before_anything_runs():
    z, x = np.zeros(8, np.float32), tw.ones((8,), f32)
    operation, place = copy(tw.partition(z, 8), x), z.ctypes.data
    z.resize(1 << 16, refcheck=False)
    if z.ctypes.data == place:
        operation.close()
        pytest.skip("the allocator has made room without moving it")
    with refuse("has been moved or resized since: pass the array again", tw.BorrowError):
        operation.sync()
    copy(tw.partition(z[:8], 8), x).sync()
    assert z.sum() == 8


def test_ragged_rows_with_offsets_of_numpy():
    offsets = np.array([0, 3, 10], np.int32)
    cut = tw.partition(np.zeros(10, np.float32), 4, segments=offsets)
    assert cut.segments is not None
    assert cut.segments.shape == (3,)


def test_bytes_are_copied_and_filled_in_place():
    array, ours = numbers(8), tw.zeros(8, f32)
    theirs = tw.from_dlpack(array)
    assert np.array_equal(tw.copy(ours, theirs).sync().numpy(), array)
    tw.fill(theirs[6:], 5.0).sync()
    assert array.tolist() == [0, 1, 2, 3, 4, 5, 5, 5]
    tw.copy(theirs[:2], ours[3:5]).sync()
    assert array.tolist() == [3, 4, 2, 3, 4, 5, 5, 5]
    assert np.array_equal(theirs.clone().numpy(), array)

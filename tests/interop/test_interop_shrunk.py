"""Arrays whose memory is smaller than they say, when they are passed or when the launch comes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from interop_kernels import copy, numbers

import tilewright as tw
from tilewright import f32

as_strided = np.lib.stride_tricks.as_strided
# Built at a place that an earlier tensor has had, an operation is refused by its submission.
BY_SUBMISSION = (tw.LaunchError, tw.BorrowError)


def refuse(text, error=tw.LaunchError):
    return pytest.raises(error, match=re.escape(text))


def ones(n):
    return tw.ones((n,), f32)


# --- NumPy ----------------------------------------------------------------------------------------


def test_an_array_that_shrinks_in_place_is_refused():
    z = np.zeros(4096, np.float32)
    operation, place = copy(tw.partition(z, 1024), ones(4096)), z.ctypes.data
    z.resize(2, refcheck=False)
    if z.ctypes.data != place:
        pytest.skip("the allocator has moved what is left of it")
    with refuse("has been moved or resized since: pass the array again", tw.BorrowError):
        operation.sync()
    copy(tw.partition(z, 2), ones(2)).sync()
    assert z.tolist() == [1, 1]


@pytest.mark.parametrize("view", ["slice", "buffer"])
def test_the_view_of_an_array_that_shrinks_is_refused(view):
    whole = numbers(4096)
    part = whole[2048:] if view == "slice" else np.frombuffer(memoryview(whole), np.float32)
    z = tw.zeros((part.size,), f32)
    operation = copy(z.partition(1024), part)
    whole.resize(16, refcheck=False)
    with refuse("is a view of an array that has been resized since", tw.BorrowError):
        operation.sync()
    with refuse("reaches beyond the memory of the array that it is a view of"):
        copy(z.partition(1024), part)


def test_a_view_in_what_is_left_of_an_array_stays():
    whole = numbers(4096)
    part, z, place = whole[4:8], tw.zeros((4,), f32), whole.ctypes.data
    operation = copy(z.partition(4), part)
    whole.resize(16, refcheck=False)
    if whole.ctypes.data != place:
        operation.close()
        pytest.skip("the allocator has moved what is left of it")
    operation.sync()
    assert z.numpy().tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("shape", "strides"), [((9,), (4,)), ((8,), (8,)), ((2, 8), (4, 4)), ((1 << 20,), (4,))]
)
def test_strides_beyond_an_array_are_refused(shape, strides):
    with refuse("or the view made by `as_strided` with a shape or strides that do not fit it"):
        tw.from_dlpack(as_strided(numbers(8), shape, strides))


@pytest.mark.parametrize(
    ("shape", "strides"), [((8,), (4,)), ((4,), (8,)), ((5, 4), (4, 4)), ((0, 9), (64, 64))]
)
def test_strides_within_an_array_are_taken(shape, strides):
    view = as_strided(numbers(8), shape, strides)
    assert np.array_equal(tw.from_dlpack(view).numpy(), view)
    assert np.array_equal(tw.from_dlpack(view[1:]).numpy(), view[1:])


def test_memory_that_is_no_arrays_is_trusted():
    held = bytearray(numbers(8).tobytes())
    array = np.frombuffer(held, np.float32)
    assert np.array_equal(tw.from_dlpack(array[2:]).numpy(), numbers(8)[2:])
    with pytest.raises(BufferError):  # Python itself keeps it from being resized
        held.clear()


def test_a_handle_hears_of_it_too():
    array = np.zeros(4096, np.float32)
    handle = tw.from_dlpack(array)
    array.resize(2, refcheck=False)
    for use in (handle.numpy, lambda: tw.fill(handle, 1).sync(), handle.export):
        with refuse("has been moved or resized since", tw.BorrowError):
            use()


def test_a_graph_hears_of_it():
    array, z = np.ones(4096, np.float32), tw.zeros((4096,), f32)
    with tw.graph() as graph:
        graph.record(copy(z.partition(1024), array))
    graph.launch().sync()
    assert z.numpy().sum() == 4096
    array.resize(2, refcheck=False)
    with refuse("has been moved or resized since", tw.BorrowError):
        graph.launch().sync()


# --- torch ----------------------------------------------------------------------------------------


def fill_and_free(torch, nbytes):
    z = torch.zeros(4096)
    z.untyped_storage().resize_(nbytes)
    return z


@pytest.mark.parametrize("nbytes", [0, 8, 4 * 4096 - 4])
def test_a_storage_that_is_too_small_is_refused(nbytes):
    torch = pytest.importorskip("torch", reason="needs torch")
    z = fill_and_free(torch, nbytes)
    text = f"reaches over 16384 bytes of its storage, which has {nbytes}"
    for _ in range(3):
        with refuse(text, BY_SUBMISSION):
            copy(tw.partition(z, 1024), ones(4096)).sync()
        with refuse(text, BY_SUBMISSION):
            copy(tw.zeros((4096,), f32).partition(1024), z).sync()
        with refuse(text):
            tw.from_dlpack(z)
    z.untyped_storage().resize_(4 * 4096)
    copy(tw.partition(z, 1024), ones(4096)).sync()
    assert z.sum() == 4096


@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_a_storage_freed_before_the_submission(times):
    """As FSDP does with parameters that are not gathered, however often they were launched."""
    torch = pytest.importorskip("torch", reason="needs torch")
    x, z = torch.ones(4096), torch.zeros(4096)
    for _ in range(times):
        copy(tw.partition(z, 1024), x).sync()
    operation = copy(tw.partition(z, 1024), x)
    x.untyped_storage().resize_(0)
    with refuse("has been moved or resized since", tw.BorrowError):
        operation.sync()
    x.untyped_storage().resize_(4 * 4096)
    x.fill_(3)
    copy(tw.partition(z, 1024), x).sync()
    assert z.sum() == 3 * 4096


def test_a_part_of_a_storage_may_stay():
    torch = pytest.importorskip("torch", reason="needs torch")
    whole = torch.arange(64, dtype=torch.float32)
    part = whole[:8]
    whole.untyped_storage().resize_(32)
    z = tw.zeros((8,), f32)
    copy(z.partition(8), part).sync()
    assert z.numpy().tolist() == list(range(8))
    with refuse("reaches over 256 bytes of its storage, which has 32", BY_SUBMISSION):
        copy(tw.zeros((64,), f32).partition(8), whole).sync()

"""`tw.copy`, `tw.fill` and clones with arrays of NumPy and torch, into their memory and out."""

from __future__ import annotations

import re

import numpy as np
import pytest
from interop_kernels import numbers

import tilewright as tw
from tilewright import f32


@pytest.fixture(params=["numpy", "torch"])
def lent(request):
    """Makes an array of a library on the memory of one of NumPy."""
    if request.param == "numpy":
        return lambda array: array
    return pytest.importorskip("torch", reason="needs torch").from_numpy


def refuse(text: str, error: type[Exception] = tw.LaunchError):
    return pytest.raises(error, match=re.escape(text))


@pytest.mark.parametrize("n", [0, 1, 7, 1009])
def test_whole_arrays(lent, n):
    memory, x = np.zeros(n, np.float32), numbers(n)
    array = lent(memory)
    assert tw.fill(array, 3.0).sync() is array
    assert (memory == 3).all()
    assert tw.copy(array, tw.from_numpy(x)).sync() is array
    assert (memory == x).all()
    z = tw.zeros((n,), f32)
    assert tw.copy(z, array).sync() is z
    for tensor in (z, tw.from_dlpack(array).clone(), tw.from_dlpack(array).astype(tw.f64)):
        assert (tensor.numpy() == x).all()


def test_parts_and_strides(lent):
    memory = np.zeros((6, 8), np.float32)
    array, x = lent(memory), numbers(12).reshape(3, 4)
    tw.copy(array[::2, 1:5], lent(x.copy())).sync()
    tw.fill(array[1::2, 2], 7).sync()
    want = np.zeros((6, 8), np.float32)
    want[::2, 1:5], want[1::2, 2] = x, 7
    assert (memory == want).all()
    assert (tw.from_dlpack(array[1:, 2:6]).clone().numpy() == want[1:, 2:6]).all()


def test_recorded_in_a_graph(lent):
    memory, x = np.zeros(16, np.float32), tw.zeros((16,), f32)
    with tw.graph() as g:
        g.record(tw.fill(x, 2.0))
        g.record(tw.copy(lent(memory), x))
    memory[:] = 9
    g.launch().sync()
    assert (memory == 2).all()


def test_results_of_operations(lent):
    memory = np.zeros(8, np.float32)
    array, x = lent(memory), tw.zeros((8,), f32)
    assert tw.copy(array, tw.fill(x, 4.0)).sync() is array
    assert (memory == 4).all()


def test_what_is_refused(lent):
    array = lent(np.zeros(8, np.float32))
    with refuse("dst is written by this launch and also read by it as src", tw.BorrowError):
        tw.copy(array[:6], array[2:])
    with refuse("tw.copy does not convert f64 to f32"):
        tw.copy(array, lent(np.zeros(8)))
    with refuse("an object of type list is none: `tw.from_numpy` copies objects that NumPy reads"):
        tw.copy(array, [1.0] * 8)
    with refuse("an object of type NoneType is none"):
        tw.fill(None, 0)
    read_only = np.zeros(8, np.float32)
    read_only.setflags(write=False)
    with refuse("the array of NumPy is read-only", tw.BorrowError):
        tw.fill(read_only, 1)


def test_a_hold_names_the_users_line():
    torch = pytest.importorskip("torch", reason="needs torch")
    z = tw.zeros((8,), f32)
    array = torch.from_dlpack(z)
    with pytest.raises(tw.BorrowError, match=r"an export, built at tests/interop/test_interop_cop"):
        z.numpy()
    del array
    assert not z.numpy().any()

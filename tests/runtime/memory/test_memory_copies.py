"""Copies and fills of whole pieces of memory, as the driver sees them: one call each, in order."""

from __future__ import annotations

import numpy as np
import pytest
import runtime_names as tw

from tilewright.dtypes import bf16, f32, f64
from tilewright.errors import LaunchError

pytestmark = pytest.mark.usefixtures("cuda")

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def test_a_copy_is_one_call(driver):
    x, z = tw.from_numpy(X), tw.zeros((4, 6), f32)
    assert tw.copy(z[1:3], x[2:]).sync().shape == (2, 6)
    assert z.numpy().tolist() == [[0] * 6, *X[2:].tolist(), [0] * 6]
    assert [entry[2:] for entry in driver.calls("copy")] == [(48,)]
    assert not driver.calls("launch")


def test_a_fill_is_one_call(driver):
    z = tw.zeros((4, 6), f64)
    tw.fill(z[1:3], 0.5).submit()
    tw.fill(z[3:], 0).submit()
    assert z.numpy().tolist() == [[0.0] * 6, [0.5] * 6, [0.5] * 6, [0.0] * 6]
    assert [entry[3] for entry in driver.calls("fill")] == [24 * 8, 12, 6 * 8]
    half = tw.zeros(8, bf16)
    tw.fill(half[2:4].T, 1.5).sync()
    assert half.numpy().tolist() == [0, 0, 1.5, 1.5, 0, 0, 0, 0]


def test_nothing_is_copied_of_what_is_empty(driver):
    x, z = tw.from_numpy(X), tw.zeros((4, 6), f32)
    tw.copy(z[:0], x[4:]).sync()
    tw.fill(z[2:2], 1).sync()
    assert not driver.calls("copy")


def test_another_stream_waits_for_what_it_copies(driver, cuda):
    x, z = tw.from_numpy(X), tw.empty((4, 6), f32)
    first, second = cuda.new_stream(), cuda.new_stream()
    tw.fill(x, 7).submit(first)
    assert not driver.calls("wait")
    tw.copy(z, x).submit(second)
    assert len(driver.calls("wait")) == 1
    assert (z.numpy() == 7).all()


def test_a_clone_is_ordered_before_what_comes_next(driver, cuda):
    x = tw.from_numpy(X)
    clone = x.clone()
    with tw.stream(cuda.new_stream()):
        tw.fill(x, 0).submit()
    assert clone.numpy().tolist() == X.tolist()
    assert not x.numpy().any()
    assert len(driver.calls("copy")) == 1


def test_memory_is_kept_until_the_copy_is_done(driver, cuda):
    x, z = tw.from_numpy(X), tw.empty((4, 6), f32)
    tw.copy(z, x).submit()
    del x
    cuda.synchronize()  # memory that is touched after it was freed fails on this driver
    assert z.numpy().tolist() == X.tolist()


def test_from_another_device(cuda):
    with pytest.raises(LaunchError, match=r"on cpu and `dst` on cuda.*`tw\.from_numpy\(src"):
        tw.copy(tw.zeros(4), tw.zeros(4, device="cpu"))

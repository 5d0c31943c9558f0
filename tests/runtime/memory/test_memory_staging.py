"""Contents on their way to a GPU on paper and back: through pinned memory, which is used again."""

from __future__ import annotations

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import NoWork

from tilewright.backends.cuda import staging
from tilewright.errors import DriverError


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Pieces and bounds that a test can reach."""
    monkeypatch.setattr(staging, "_LARGEST", 1 << 14)
    monkeypatch.setattr(staging, "_AT_A_TIME", 1 << 13)
    monkeypatch.setattr(staging, "_MOST", 1 << 16)


def numbers(count, start=0):
    return np.arange(start, start + count, dtype=np.float32)


def pinned(driver):
    return sum(nbytes for _, nbytes in driver.calls("allocate_pinned"))


def ways(driver, monkeypatch):
    """Where copies come from and go to: "pinned" memory or any."""
    seen = []

    def watched(name, place):
        call = getattr(driver, name)

        def noted(*args):
            starts = [(ctypes_address(one), len(one)) for one in driver._pinned]
            is_pinned = any(start <= args[place] < start + size for start, size in starts)
            seen.append((name, is_pinned))
            return call(*args)

        monkeypatch.setattr(driver, name, noted)

    watched("copy_in", 1)
    watched("copy_out", 0)
    return seen


def ctypes_address(buffer):
    return np.frombuffer(buffer, np.uint8).ctypes.data


@pytest.mark.parametrize("count", [1, 7, 1024, 4096])
def test_there_and_back(driver, cuda, monkeypatch, count):
    seen = ways(driver, monkeypatch)
    x = tw.from_numpy(numbers(count))
    found = x.numpy()
    assert (found == numbers(count)).all()
    assert seen == [("copy_in", True), ("copy_out", True)]
    found[:] = -1  # memory of its own
    assert (x.numpy() == numbers(count)).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5, 1, 7)])
def test_shapes_dtypes_and_strides(cuda, shape):
    for dtype in (np.bool_, np.int64, np.float16):
        values = np.ones(shape, dtype)
        assert np.array_equal(tw.from_numpy(values).numpy(), values)
    table = numbers(35).reshape(5, 7)
    assert np.array_equal(tw.from_numpy(table.T[::2]).numpy(), table.T[::2])
    assert np.array_equal(tw.from_numpy(table)[1:3, ::2].numpy(), table[1:3, ::2])


def test_what_is_larger_than_a_piece_goes_the_drivers_way(driver, cuda, monkeypatch):
    """Which keeps the thread: so all that comes before is waited for without the lock."""
    seen = ways(driver, monkeypatch)
    x = tw.from_numpy(numbers(5000))
    x[:1].numpy()
    driver.log.clear()
    assert (x.numpy() == numbers(5000)).all()
    assert seen == [("copy_in", False), ("copy_out", True), ("copy_out", False)]
    order = [entry[0] for entry in driver.calls("copy_out", "synchronize")]
    assert order == ["copy_out", "synchronize"]  # earlier work has passed already
    y = tw.from_numpy(numbers(5000, 1))
    tw.make_operation("touch", cuda, (tw.Access(y, tw.Mode.READ, "y"),), NoWork(), y).submit()
    driver.log.clear()
    assert (y.numpy() == numbers(5000, 1)).all()
    order = [entry[0] for entry in driver.calls("copy_out", "synchronize")]
    assert order == ["synchronize", "copy_out", "synchronize"]


def test_pieces_are_used_again(driver, cuda):
    for turn in range(200):
        x = tw.from_numpy(numbers(8, turn))
        assert x.numpy()[0] == turn
    assert pinned(driver) == 1 << 13


def test_a_piece_is_not_used_again_while_a_copy_is_under_way(driver, cuda, copy):
    results = []
    for turn in range(30):
        z = tw.zeros(8)
        copy(z, tw.from_numpy(numbers(8, turn))).submit()
        results.append(z)
    assert [int(z.numpy()[0]) for z in results] == list(range(30))


def test_there_is_a_limit(driver, cuda):
    kept = [tw.from_numpy(numbers(8, turn)) for turn in range(40)]  # and nothing uses them yet
    assert pinned(driver) == 1 << 16
    assert [int(x.numpy()[0]) for x in kept] == list(range(40))


def test_a_host_that_pins_nothing(driver, cuda, monkeypatch):
    def refuse(nbytes):
        raise DriverError("cuMemHostAlloc failed with CUDA_ERROR_OUT_OF_MEMORY (2)")

    monkeypatch.setattr(driver, "allocate_pinned", refuse)
    assert tw.from_numpy(numbers(8)).numpy().tolist() == list(range(8))


def test_a_forked_child_does_not_ask(driver, cuda):
    tw.from_numpy(numbers(8)).numpy()
    cuda.restart()
    driver.log.clear()
    x = tw.from_numpy(numbers(8))
    with pytest.raises(DriverError, match="CUDA does not survive a fork"):
        x.numpy()
    assert driver.log == []

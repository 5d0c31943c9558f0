"""Order on the GPU: one stream without events, several with, views with offsets."""

import subprocess
import sys

import numpy as np
import pytest
from gpu_kernels import GPU, add, gemm, poisoned, relative_error, run_both

import tilewright as tw

pytestmark = pytest.mark.gpu

LENGTH = 4099
EVENT_CALLS = ("create_event", "record_event", "wait_event")


class Counts(dict):
    """How often each call of the driver was made."""

    def watch(self, monkeypatch, driver, name):
        real = getattr(driver, name)
        self[name] = 0

        def counted(*args):
            self[name] += 1
            return real(*args)

        monkeypatch.setattr(driver, name, counted)


@pytest.fixture
def events(monkeypatch):
    """The calls about events that the driver gets during the test."""
    counts = Counts()
    for name in EVENT_CALLS:
        counts.watch(monkeypatch, tw.Device(GPU).backend.driver, name)
    return counts


@pytest.fixture
def arrays():
    rng = np.random.default_rng(3)
    return tuple(rng.integers(0, 100, (2, LENGTH)).astype(np.float32))


def test_a_thousand_alternating_launches_need_no_event(events, arrays):
    x0, y0 = arrays
    x, y, z = (tw.from_numpy(a, device=GPU) for a in (x0, y0, poisoned(LENGTH, np.float32)))
    for _ in range(500):
        add(z.partition(128), x, y).submit()
        add(x.partition(128), z, y).submit()
    found = z.numpy()
    np.testing.assert_array_equal(found, x0 + 999 * y0)
    np.testing.assert_array_equal(x.numpy(), x0 + 1000 * y0)
    assert events == dict.fromkeys(EVENT_CALLS, 0)


def test_two_streams_are_ordered_where_they_conflict(events, arrays):
    x0, y0 = arrays
    device = tw.Device(GPU)
    streams = device.new_stream(), device.new_stream()
    x, y, z = (tw.from_numpy(a, device=GPU) for a in (x0, y0, poisoned(LENGTH, np.float32)))
    held = streams[0].hold()  # so that nothing has completed when the other stream needs it
    for _ in range(200):
        add(z.partition(128), x, y).submit(streams[0])
        add(x.partition(128), z, y).submit(streams[1])
    held.release()
    np.testing.assert_array_equal(z.numpy(), x0 + 399 * y0)
    np.testing.assert_array_equal(x.numpy(), x0 + 400 * y0)
    assert events["wait_event"] > 0


def test_a_slow_writer_on_one_stream_is_waited_for_on_another():
    """The reader would be done long before the product if nothing held it back."""
    size = 2048
    rng = np.random.default_rng(5)
    x0, y0 = rng.standard_normal((2, size, size), dtype=np.float32).astype(np.float16)
    device = tw.Device(GPU)
    first, second = device.new_stream(), device.new_stream()
    x, y, z, total = (
        tw.from_numpy(a, device=GPU)
        for a in (x0, y0, np.zeros_like(x0), poisoned(size * size, np.float16))
    )
    for _ in range(20):
        gemm(z.partition(128, 128), x, y).submit(first)
    flat = z.reshape(size * size)
    add(total.partition(1024), flat, flat).submit(second)
    exact = x0.astype(np.float64) @ y0.astype(np.float64)
    assert relative_error(total.numpy().reshape(size, size), 2 * exact) < 1e-3


def test_streams_without_conflicts_need_no_event(events, arrays):
    x0, y0 = arrays
    device = tw.Device(GPU)
    streams = device.new_stream(), device.new_stream()
    sets = []
    for stream in streams:
        with tw.stream(stream):
            sets.append(
                [tw.from_numpy(a, device=GPU) for a in (x0, y0, poisoned(LENGTH, np.float32))]
            )
    for _ in range(100):
        for stream, (x, y, z) in zip(streams, sets, strict=True):
            add(z.partition(128), x, y).submit(stream)
    for _, _, z in sets:
        np.testing.assert_array_equal(z.numpy(), x0 + y0)
    assert events == dict.fromkeys(EVENT_CALLS, 0)


@pytest.mark.parametrize(("start", "stop"), [(0, 1024), (16, 1040), (1, 1025), (3, 998), (5, 5)])
def test_slices_at_any_offset(arrays, start, stop):
    x0, y0 = arrays

    def launch(z, x, y):
        return add(z[start:stop].partition(128), x[stop:][: stop - start], y[start:stop])

    found, expected = run_both(launch, poisoned(LENGTH, np.float32), x0, y0)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found[start:stop], x0[stop : 2 * stop - start] + y0[start:stop])
    assert np.isnan(found[:start]).all()
    assert np.isnan(found[stop:]).all()


@pytest.mark.parametrize("offset", [0, 8, 3])
def test_gemm_of_strided_views(offset):
    rng = np.random.default_rng(6)
    x0, y0 = rng.standard_normal((2, 320, 320), dtype=np.float32).astype(np.float16)
    rows, columns = slice(offset, offset + 200), slice(offset, offset + 136)

    def launch(z, x, y):
        return gemm(z[rows, columns].partition(128, 128), x[rows, :72], y[:72, columns])

    found, expected = run_both(launch, poisoned((320, 320), np.float16), x0, y0)
    exact = x0[rows, :72].astype(np.float64) @ y0[:72, columns].astype(np.float64)
    assert relative_error(found[rows, columns], exact) < 1e-3
    outside = np.ones((320, 320), dtype=bool)
    outside[rows, columns] = False
    assert np.isnan(found[outside]).all()
    assert np.isnan(expected[outside]).all()


STREAMS_BESIDE_A_HELD_ONE = """
import tilewright as tw
device = tw.Device("cuda:0")
x = tw.zeros(16, device=device)
tw.fill(x, 1.0).sync()
held = device.new_stream()
hold = held.hold()
tw.fill(x, 2.0).submit(held)
streams = [device.new_stream() for _ in range(30)]
others = [tw.zeros(16, device=device) for _ in streams]
for other, stream in zip(others, streams):
    tw.fill(other, 3.0).sync_on(stream)
hold.release()
assert x.numpy().sum() == 32 and sum(other.numpy().sum() for other in others) == 30 * 48
"""


def test_streams_are_made_beside_one_that_is_held():
    """In a process of its own: the driver makes streams many at a time, and waits for the GPU."""
    subprocess.run([sys.executable, "-c", STREAMS_BESIDE_A_HELD_ONE], check=True, timeout=60)

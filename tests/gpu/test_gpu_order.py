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


BESIDE_A_HELD_STREAM = """
import sys
import tilewright as tw
from tilewright import Mut, f32
from tilewright.dims import B

@tw.kernel
def more(z: Mut[f32, B]) -> None:
    z.store(z.load() + 1.0)

def streams():
    made = [device.new_stream() for _ in range(30)]
    for z, stream in zip(tensors, made):
        more(z.partition(256)).sync_on(stream)

def graphs():
    for z in tensors:
        more(z.partition(256)).graph().launch().sync()

def launches():
    for z in tensors:
        for _ in range(100):
            more(z.partition(256)).sync()

device = tw.Device("cuda:0")
with tw.device(device):
    x, *tensors = (tw.zeros(256) for _ in range(31))
    for z in (x, *tensors):
        more(z.partition(256)).sync()
    held = device.new_stream()
    hold = held.hold()
    more(x.partition(256)).submit(held)
    {"streams": streams, "graphs": graphs, "launches": launches}[sys.argv[1]]()
    hold.release()
    expected = 101.0 if sys.argv[1] == "launches" else 2.0
    assert x.numpy()[0] == 2.0
    assert {float(z.numpy()[7]) for z in tensors} == {expected}
"""


@pytest.mark.parametrize("what", ["streams", "graphs", "launches"])
def test_what_is_made_beside_a_held_stream_does_not_wait_for_it(what, tmp_path):
    """In a process of its own, where the driver has made nothing before."""
    script = tmp_path / "beside_a_held_stream.py"
    script.write_text(BESIDE_A_HELD_STREAM)
    subprocess.run([sys.executable, str(script), what], check=True, timeout=60)

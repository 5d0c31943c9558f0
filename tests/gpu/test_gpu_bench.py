"""Measuring on a GPU: times that can be true, with torch on our stream, and holds that end."""

import pytest

import tilewright as tw
from tilewright.bench import Effort, compare, do_bench, graph_of

pytestmark = pytest.mark.gpu

BYTES = 1 << 28
FASTEST, SLOWEST = 20e12, 1e11  # bytes a second, read and written, that a GPU may have


def test_a_copy_takes_as_long_as_it_can():
    x = tw.zeros((BYTES,), tw.u8, device="cuda:0")
    y = tw.empty((BYTES,), tw.u8, device="cuda:0")
    for flush in (False, True):
        seconds = do_bench(lambda: tw.copy(y, x), flush=flush).median
        assert 2 * BYTES / FASTEST < seconds < 2 * BYTES / SLOWEST
    replay = do_bench(graph_of(lambda: tw.copy(y, x), 4).launch).per(4).median
    assert 2 * BYTES / FASTEST < replay < 2 * BYTES / SLOWEST


def test_torch_is_timed_on_our_stream():
    torch = pytest.importorskip("torch")
    x = torch.ones(BYTES, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    ours = tw.zeros((BYTES,), tw.u8, device="cuda:0")
    target = tw.empty((BYTES,), tw.u8, device="cuda:0")
    torch.cuda.synchronize()
    found = compare({"torch": lambda: y.copy_(x), "ours": lambda: tw.copy(target, ours)})
    assert not found.failures
    assert 0.5 < found.speed("ours") < 2.0


def test_what_waits_for_the_device_is_timed_without_a_hold():
    x = tw.zeros((1024,), tw.f32, device="cuda:0")
    effort = Effort(repetitions=3, warmup=0.0)
    assert do_bench(lambda: tw.fill(x, 1.0).sync(), effort=effort).median < 1.0

"""Arrays of other libraries that are dropped while a GPU on paper still works on them.

Its streams never rest here, as in a loop that is limited by the GPU: what was dropped has to go
back all the same, and not before.
"""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
from torch_doubles import SIZE, Allocator

import tilewright as tw
from tilewright.runtime.devices.stream import POLL_FROM, POLL_FROM_BYTES
from tilewright.runtime.interop import ranges as foreign_ranges
from tilewright.runtime.interop import torch_tensors

torch = pytest.importorskip("torch", reason="needs torch")

MANY_LEFT = 64  # as there are more, it takes longer


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(foreign_ranges, "MANY_LEFT", MANY_LEFT)


def theirs(lib):
    return tw.Device("cuda").adopt_stream(lib.number(0))


def run_behind(lib, tasks=3):
    """Let the GPU work, but for the last tasks."""
    while len(lib.stream.tasks) > tasks:
        assert lib.driver.step(lib.stream)


def test_memory_goes_back_though_the_stream_never_rests(lib):
    _, x, y = lib.bound()
    stream, most = theirs(lib), 0
    for number in range(300):
        x.fill_(number)
        lib.launch(torch.zeros(SIZE), x, y).submit()
        run_behind(lib)
        most = max(most, len(stream._kept))
    assert most <= POLL_FROM + 8
    assert len(foreign_ranges.RANGES.groups) <= POLL_FROM + 16


def test_much_memory_goes_back_sooner(lib):
    size = 1 << 20
    _, x, y = lib.bound(size)
    stream, each, most = theirs(lib), 4 * size, 0
    for _ in range(12):
        lib.launch(torch.zeros(size), x, y).submit()
        run_behind(lib)
        most = max(most, stream.kept_bytes)
    assert each <= most <= POLL_FROM_BYTES + 4 * each
    lib.finish()
    for _ in range(3):
        tw.synchronize()
    assert stream.kept_bytes == 0


def test_little_memory_asks_the_driver_nothing(lib):
    _, x, y = lib.bound()
    for _ in range(POLL_FROM // 2):
        lib.launch(torch.zeros(SIZE), x, y).submit()
    assert lib.driver.calls("query", "record", "create_event") == []


def test_a_stream_that_is_recorded_is_not_asked(lib):
    _, x, y = lib.bound(1 << 21)
    lib.launch(torch.zeros(1 << 21), x, y).submit()
    lib.launch(torch.zeros(1 << 21), x, y).submit()
    lib.driver.log.clear()
    lib.stream.capturing = True
    lib.launch(x, y, y).submit()
    assert [entry[0] for entry in lib.driver.log] == ["launch"]


def test_what_torch_allocated_goes_back_at_once(lib, monkeypatch):
    allocator = Allocator(monkeypatch)
    _, x, y = lib.bound()
    z = torch.zeros(SIZE)
    lib.launch(z, x, y).submit()
    address = z.data_ptr()
    kept = weakref.ref(tw.partition(z, SIZE).tensor.storage.producer)
    assert kept() is not None
    del z
    gc.collect()
    lib.launch(x, y, y).submit()
    assert kept() is None
    assert lib.stream.tasks
    assert allocator.told == [(address, theirs(lib))]
    assert theirs(lib).kept_bytes == 0


def test_who_comes_to_the_same_place_is_ordered_behind(lib, monkeypatch, cuda):
    """The allocator may hand memory out again that is still written, on the same stream."""
    Allocator(monkeypatch)
    _, x, y = lib.bound()
    place = torch.zeros(SIZE)
    lib.launch(place[:], x, y).submit()  # the view is gone, the memory is not
    gc.collect()
    lib.driver.log.clear()
    ours = cuda.new_stream()
    lib.launch(torch.zeros(SIZE), x, y).submit()
    lib.launch(x, place, y).submit(ours)
    assert ("wait", ours.queue.handle, lib.stream) in lib.order()
    lib.finish()
    assert x.tolist() == [12.0] * SIZE


def test_what_nobody_works_on_is_forgotten(lib, monkeypatch):
    allocator = Allocator(monkeypatch)
    z, x, y = lib.bound()
    lib.finish()
    tw.synchronize()
    del z, x, y
    gc.collect()
    tw.synchronize()
    assert allocator.told == []
    assert all(group.is_over for group in foreign_ranges.RANGES.groups)


def test_ranges_that_are_only_remembered_stay_few(lib, monkeypatch):
    """Addresses that never come back, on a stream that never rests."""
    Allocator(monkeypatch)
    _, x, y = lib.bound()
    kept = []
    for _ in range(8 * MANY_LEFT):
        kept.append(torch.zeros(SIZE))  # so that the next one lies elsewhere
        lib.launch(kept[-1][:], x, y).submit()
        run_behind(lib)
    assert len(foreign_ranges.RANGES.groups) <= 4 * MANY_LEFT
    assert lib.driver.calls("query")[3 * MANY_LEFT :] == []  # and are not asked for every time
    lib.finish()


def test_a_range_that_is_remembered_is_had_again(lib, monkeypatch):
    """Whoever comes to it is counted: it is not forgotten when the others are looked through."""
    Allocator(monkeypatch)
    _, x, y = lib.bound()
    place = torch.zeros(SIZE)
    lib.launch(place[:], x, y).submit()
    (group,) = (one for one in foreign_ranges.RANGES.groups if one.low == place.data_ptr())
    gc.collect()
    lib.launch(place, x, y).submit()
    assert group.is_left
    assert group.count == 1
    lib.finish()
    kept = []
    for _ in range(2 * MANY_LEFT):
        kept.append(torch.zeros(SIZE))
        lib.launch(kept[-1][:], x, y).submit()
        lib.finish()
    assert not group.is_left
    assert group in foreign_ranges.RANGES.groups
    operation = lib.launch(kept[0], place, y)
    with pytest.raises(tw.BorrowError, match="their order is not stated"):
        lib.launch(place[:], x, y)
    operation.close()


def test_no_stream_is_asked_while_another_is_recorded(lib, monkeypatch, cuda):
    Allocator(monkeypatch)
    _, x, y = lib.bound()
    kept = [torch.zeros(SIZE) for _ in range(2 * MANY_LEFT)]
    recorded = lib.driver.create_stream()
    cuda.adopt_stream(lib.driver.stream_number(recorded))
    recorded.capturing = True
    for tensor in kept:
        lib.launch(tensor[:], x, y).submit()
    assert lib.driver.calls("query", "record", "create_event") == []
    recorded.capturing = False
    for tensor in kept[:3]:
        lib.launch(tensor[:], x, y).submit()
    assert lib.driver.calls("query") != []
    lib.finish()


@pytest.mark.parametrize(
    ("backend", "resizable", "expected"),
    [("native", True, True), ("cudaMallocAsync", True, True), ("pluggable", True, False),
     ("native", False, False)],
)  # fmt: skip
def test_only_an_allocator_that_is_told_of_streams_gets_memory_early(
    monkeypatch, backend, resizable, expected
):
    asked = SimpleNamespace(cuda=SimpleNamespace(get_allocator_backend=lambda: backend))
    storage = SimpleNamespace(resizable=lambda: resizable)
    tensor = SimpleNamespace(is_cuda=True, untyped_storage=lambda: storage)
    monkeypatch.setattr(torch_tensors, "find_torch", lambda: asked)
    torch_tensors._is_told_of_streams.cache_clear()
    try:
        assert torch_tensors._is_allocated_by_torch(tensor) is expected
    finally:
        torch_tensors._is_told_of_streams.cache_clear()

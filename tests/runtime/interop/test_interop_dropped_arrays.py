"""Arrays of other libraries that are dropped while a GPU on paper still works on them.

Its streams never rest here, as in a loop that is limited by the GPU: memory that was dropped has to
go back all the same, and not before. Memory that torch has not allocated is kept by every launch.
"""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from torch_doubles import SIZE, Allocator

import tilewright as tw
from tilewright.runtime.devices.stream import POLL_FROM, POLL_FROM_BYTES
from tilewright.runtime.interop import foreign, passed, torch_tensors

torch = pytest.importorskip("torch", reason="needs torch")

MANY_LEFT = 64  # as there are more, it takes longer


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(foreign, "MANY_LEFT", MANY_LEFT)


def theirs(lib):
    return tw.Device("cuda").adopt_stream(lib.number(0))


def run_behind(lib, tasks=3):
    """Let the GPU work, but for the last tasks."""
    while len(lib.stream.tasks) > tasks:
        assert lib.driver.step(lib.stream)


def launch_handle(lib, tensor, x, y):
    """Launch with a handle on a tensor, which is dropped then."""
    lib.add(tw.from_dlpack(tensor).partition(SIZE), x, y).submit()


def test_memory_goes_back_though_the_stream_never_rests(lib):
    _, x, y = lib.bound()
    stream, most = theirs(lib), 0
    for number in range(300):
        x.fill_(number)
        lib.launch(torch.zeros(SIZE), x, y).submit()
        run_behind(lib)
        most = max(most, len(stream._kept))
    assert most <= POLL_FROM + 16


def test_much_memory_goes_back_sooner(lib):
    size = 1 << 20
    _, x, y = lib.bound(size)
    stream, each, most = theirs(lib), 4 * size, 0
    for _ in range(12):
        lib.launch(torch.zeros(size), x, y).submit()
        run_behind(lib)
        most = max(most, stream.kept_bytes)
    assert each <= most <= POLL_FROM_BYTES + 15 * each  # three arrays of each launch that waits
    lib.finish()
    for _ in range(3):
        tw.synchronize()
    assert stream.kept_bytes == 0


def test_little_memory_asks_the_driver_nothing(lib):
    _, x, y = lib.bound()
    for _ in range(POLL_FROM // 4):
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


def test_memory_of_torchs_allocator_goes_back_at_once(lib, monkeypatch):
    allocator = Allocator(monkeypatch)
    _, x, y = lib.bound()
    z = torch.zeros(SIZE)
    allocator.told.clear()
    for _ in range(4):
        lib.launch(z, x, y).submit()
    dropped, address = weakref.ref(z), z.data_ptr()
    del z
    assert dropped() is None
    assert lib.stream.tasks
    assert allocator.told == [(address, theirs(lib))]  # once is enough
    assert theirs(lib).kept_bytes == 0


def test_the_allocator_is_told_of_every_stream(lib, monkeypatch):
    """A tensor may have been allocated on another stream than the current one."""
    allocator = Allocator(monkeypatch)
    tensors = lib.bound()
    allocator.told.clear()
    first, second = lib.stream, lib.driver.create_stream()
    for lib.stream in (second, second, first, second):
        lib.launch(*tensors).submit()
    streams = [stream.queue.handle for _, stream in allocator.told]
    assert streams == [second] * 3 + [first] * 3 + [second] * 3


def test_the_allocator_is_told_of_new_memory_at_the_same_place(lib, monkeypatch):
    allocator = Allocator(monkeypatch)
    _, x, y = lib.bound()
    place = np.zeros(SIZE, np.float32)
    told = []
    for _ in range(3):
        allocator.told.clear()
        lib.launch(torch.from_numpy(place), x, y).submit()
        told += allocator.told
    assert told == [(place.ctypes.data, theirs(lib))] * 3


def test_an_array_at_the_same_place_is_ordered_behind(lib, monkeypatch, cuda):
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


def test_ranges_that_are_only_remembered_stay_few(lib, monkeypatch):
    """Addresses that never come back, on a stream that never rests."""
    Allocator(monkeypatch)
    monkeypatch.setattr(passed, "_MANY", MANY_LEFT)
    _, x, y = lib.bound()
    kept = []
    for _ in range(8 * MANY_LEFT):
        kept.append(torch.zeros(SIZE))  # so that the next one lies elsewhere
        lib.launch(kept[-1][:], x, y).submit()
        run_behind(lib)
    assert len(foreign.RANGES.groups) <= 4 * MANY_LEFT
    assert lib.driver.calls("query")[3 * MANY_LEFT :] == []  # and are not asked for every time
    lib.finish()


def test_a_range_that_is_remembered_is_had_again(lib, monkeypatch):
    """A handle on it is counted: it is not forgotten when the others are looked through."""
    Allocator(monkeypatch)
    _, x, y = lib.bound()
    place = torch.zeros(SIZE)
    launch_handle(lib, place, x, y)
    handle = tw.from_dlpack(place)
    lib.finish()
    kept = []
    for _ in range(2 * MANY_LEFT):
        kept.append(torch.zeros(SIZE))
        launch_handle(lib, kept[-1], x, y)
        lib.finish()
    operation = lib.launch(kept[0], handle, y)
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
        launch_handle(lib, tensor, x, y)
    assert lib.driver.calls("query", "record", "create_event") == []
    recorded.capturing = False
    for tensor in kept[:3]:
        launch_handle(lib, tensor, x, y)
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

"""Outputs that nobody has any more are handed out again, on a GPU on paper: and only those.

A function makes its output for every call. From the third call on that is a launch and nothing
else, unless somebody still has the last outputs.
"""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import paper_kernels
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paper_kernels import SIZE, numbers

import tilewright as tw
from tilewright import f32
from tilewright.errors import DriverError, OutOfMemoryError
from tilewright.runtime.memory import spares
from tilewright.runtime.ops.ready import ReadyOp

MANY = 20


@pytest.fixture
def gpu(driver, cuda, monkeypatch):
    """A GPU on paper that runs the kernel."""
    return paper_kernels.set_up(driver, monkeypatch)


@pytest.fixture
def more(gpu):
    """A function that makes its output."""
    one_more = paper_kernels.one_more()

    @tw.function
    def more(x: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        z = tw.empty(x.shape, x.dtype, device=x.device)
        return one_more(z.partition(SIZE), x).giving(z)

    return more


@pytest.fixture
def x(gpu, more):
    """A tensor for which the function was called until its output was handed out again."""
    made = tw.from_numpy(np.arange(SIZE, dtype=np.float32))
    for _ in range(6):
        more(made).sync()
    gpu.log.clear()
    return made


def calls(gpu, *names):
    return [entry[0] for entry in gpu.calls(*(names or ("allocate", "free", "launch")))]


def test_an_output_is_made_without_the_driver(gpu, more, x):
    for _ in range(MANY):
        operation = more(x).submit()
        assert isinstance(operation, ReadyOp)
        result = operation.sync()
        assert result.numpy().tolist() == numbers(1)
    assert calls(gpu) == ["launch"] * MANY or calls(gpu).count("allocate") <= 1


def test_what_takes_turns_lies_at_two_places(gpu, more, x):
    y = x
    for call in range(MANY):
        y = more(y).sync()
        assert y.numpy().tolist() == numbers(call + 1)
    assert len(gpu.calls("allocate")) <= 2


def keep_handle(z):
    return z


def keep_view(z):
    return z[2:]


def keep_export(z):
    return z.export(read_only=True)


def keep_operation(z):
    return tw.fill(z, 1.0)


def keep_moved(z):
    return tw.move(z)


def keep_in_cycle(z):
    cycle = [z]
    cycle.append(cycle)
    return cycle


KEPT = [keep_handle, keep_view, keep_export, keep_operation, keep_moved]


@pytest.mark.parametrize("keep", [*KEPT, keep_in_cycle])
def test_what_somebody_has_is_not_handed_out(more, x, keep):
    kept, addresses = [], set()
    for _ in range(MANY):
        z = more(x).sync()
        addresses.add(z.storage.address)
        kept.append(keep(z))
        del z
    assert len(addresses) == MANY
    for one in kept:
        if isinstance(one, tw.DeviceOp):
            one.close()


def test_a_handle_ends_when_it_is_dropped(more, x):
    z = more(x).sync()
    seen = weakref.ref(z)
    del z
    assert seen() is None


def test_what_is_made_is_made_where_the_context_says(gpu, cuda):
    one_more = paper_kernels.one_more()

    @tw.function
    def careless(x: tw.Tensor) -> tw.DeviceOp[tw.Tensor]:
        z = tw.empty(x.shape, x.dtype)  # wherever
        return one_more(z.partition(SIZE), x).giving(z)

    x = tw.zeros(SIZE, f32)
    for _ in range(6):
        careless(x).sync()
    with tw.device("cpu"), pytest.raises(tw.LaunchError, match="cpu"):
        careless(x)
    careless(x).sync()


def test_an_operation_that_was_built_has_its_output(more, x):
    built = [more(x) for _ in range(3)]
    places = {operation.result.storage for operation in built}
    assert len(places) == len(built)
    for operation in built:
        operation.close()


@pytest.mark.parametrize("ask", ["statistics", "trim", "reset_highest"])
def test_whoever_asks_a_pool_finds_nothing_that_nobody_has(gpu, cuda, more, x, ask):
    held = more(x).sync()
    more(x).sync()
    getattr(cuda.pool, ask)()
    gpu.synchronize_stream(gpu.streams[0])  # which frees
    assert cuda.pool.statistics().used == held.nbytes + x.nbytes
    assert more(x).sync().numpy().tolist() == numbers(1)


def test_memory_that_nobody_has_is_freed_before_anybody_is_refused(gpu, cuda, x, monkeypatch):
    allocate, is_full = gpu.allocate, [True]

    def full(*args):
        if is_full:
            is_full.clear()
            raise OutOfMemoryError("the GPU has no room for 64 bytes")
        return allocate(*args)

    monkeypatch.setattr(gpu, "allocate", full)
    tw.fill(tw.empty(SIZE, f32), 1.0).sync()
    assert "free" in calls(gpu)
    assert cuda.stream.spares is None


def test_other_streams_make_their_own(gpu, cuda, more, x):
    mine = {more(x).sync().address for _ in range(MANY)}
    with tw.stream(cuda.new_stream()):
        theirs = {more(x).sync().address for _ in range(MANY)}
        assert len(theirs) <= 2
    assert not mine & theirs


def test_a_launch_elsewhere_waits_for_the_last_one(gpu, cuda, more, x):
    gpu.patient = True
    more(x).submit()
    gpu.log.clear()
    elsewhere = more(x).submit(cuda.new_stream())
    assert calls(gpu, "record", "wait", "launch") == ["record", "wait", "launch"]
    gpu.patient = False
    result = elsewhere.sync()
    assert result.numpy().tolist() == numbers(1)
    place = result.address
    del result, elsewhere
    assert place not in {more(x).sync().address for _ in range(MANY)}  # it has moved house


def test_streams_in_turn_wait_for_nothing(gpu, cuda, more, x):
    """Where launches go to one stream after the other, each makes its output there."""
    cuda.pool.trim()
    streams = [cuda.new_stream() for _ in range(4)]
    cuda.synchronize()
    gpu.patient = True
    gpu.log.clear()
    for _ in range(5):
        for stream in streams:
            more(x).submit(stream)
    assert "wait" not in calls(gpu, "wait", "launch")
    gpu.patient = False


def test_another_pool_ends_with_its_tensors(cuda, more, x):
    usual = {more(x).sync().address for _ in range(MANY)}
    pool = tw.Pool(cuda)
    with tw.pool(pool):
        for _ in range(MANY):
            z = more(x).sync()
            assert z.storage.pool is pool
            assert z.address not in usual
    seen = weakref.ref(pool.backend)
    del z, pool
    cuda.synchronize()
    assert seen() is None
    assert more(x).sync().address in usual


def test_what_a_graph_has_is_not_handed_out(more, x):
    with tw.graph() as graph:
        result = graph.record(more(x))
    assert result is not None
    del result
    for _ in range(3):
        z = more(x).sync()
        graph.launch().sync()
        assert z.numpy().tolist() == numbers(1)


def test_an_output_of_a_launch_that_failed_is_not_handed_out(gpu, cuda, more, x, monkeypatch):
    def refused(*_):
        raise DriverError("no")

    operation = more(x)
    place = operation.result.storage
    monkeypatch.setattr(operation._ready, "launch", refused)
    with pytest.raises(DriverError):
        operation.submit()
    monkeypatch.undo()
    del operation
    gc.collect()
    assert place not in {more(x).submit().result.storage for _ in range(MANY)}


def test_little_is_kept(cuda, more, x, monkeypatch):
    kept = [more(x).sync() for _ in range(MANY)]
    del kept
    (shelf,) = cuda.stream.spares.shelves.values()
    assert len(shelf) == spares._ALIKE
    monkeypatch.setattr(spares, "_BYTES", 3 * x.nbytes)
    wide = tw.zeros(2 * SIZE, f32)
    for _ in range(6):
        more(wide).sync()
    (shelf,) = cuda.stream.spares.shelves.values()
    assert shelf.nbytes == wide.nbytes
    monkeypatch.setattr(spares, "_LARGEST", 0)
    cuda.pool.trim()
    more(x).sync()
    assert cuda.stream.spares is None


def test_an_output_was_made_where_it_was_made_last(more, x):
    def elsewhere():
        return more(x).sync()

    more(x).sync()
    for _ in range(3):
        z = elsewhere()
        assert z.storage.site.code is elsewhere.__code__
        del z


def test_threads_have_outputs_of_their_own(cuda, more, x):
    failed = []

    def call():
        with tw.device(cuda):
            held = [more(x) for _ in range(4)]
            places = {id(one.result.storage) for one in held}
            if len(places) < len(held):
                failed.append(places)
            seen.append(held)

    seen: list = []
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [one.result.storage for held in seen for one in held]
    assert not failed
    assert len(set(every)) == len(every) == 16
    for held in seen:
        for one in held:
            one.close()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7), st.integers(0, 2))))
def test_random_programs_compute_what_they_should(gpu, cuda, more, x, steps):
    """Outputs are held, viewed, dropped, read and used on streams that run in any order."""
    streams = [cuda.stream, cuda.new_stream(), cuda.new_stream()]
    held = [(x, 0)]
    for what, which, where in steps:
        source, ahead = held[which % len(held)]
        if what <= 2:
            stream = streams[where] if what == 2 else None
            operation = more(source).submit(stream)
            held.append((operation.sync() if what == 1 else operation.result, ahead + 1))
            del operation
        elif what == 3 and which:
            del held[which % len(held) or len(held) :]
        elif what == 4:
            held.append((source[:], ahead))
        elif len(held) > 1:
            held.pop()
        del source
    for tensor, ahead in held:
        assert tensor.numpy().tolist() == numbers(ahead)

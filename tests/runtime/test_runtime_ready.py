"""Operations that are ready, on a GPU on paper: the driver sees what it would see of any other."""

from __future__ import annotations

import gc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ready_bench import Bench, Launch, Newcomers, Planned, Ready
from runtime_doubles import reads, updates

from tilewright import runtime as tw
from tilewright.errors import DriverError, OutOfMemoryError

CHANGES = (
    "submit", "submit", "submit", "close", "conflict", "zip", "then", "build_and_keep",
    "zip_and_keep", "submit_all_kept", "submit_when_something_was_dropped", "renew",
    "submit_on_new", "close_on_new", "sync", "sync_all_kept",
)  # fmt: skip
ACTIONS = st.tuples(
    st.sampled_from((0, 0, 1, 2, 3, 3)),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(CHANGES),
)


@pytest.mark.parametrize("ready", [Ready, Planned, Newcomers])
@pytest.mark.usefixtures("nobody_asks")
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plan=st.lists(ACTIONS, max_size=30), seed=st.integers(0, 2**16))
def test_the_driver_sees_the_same(ready, plan, seed):
    assert Bench(seed, ready).run(plan) == Bench(seed, None).run(plan)


@pytest.fixture
def bench():
    return Bench(0, Ready)


def test_a_thousand_launches_move_one_fence_on(bench):
    for _ in range(1000):
        bench.build(0, 1).submit()
        bench.build(2, 0).submit()
    storage = bench.tensors[0].storage
    assert len(storage._writes) + len(storage._reads) <= 4
    assert bench.driver.calls("create_event", "record", "wait", "query") == []
    assert max(use.fence.count for use in storage._reads) == bench.device.stream.issued


def test_a_launch_that_fails_is_known_to_all(bench, monkeypatch):
    for _ in range(3):
        bench.build(0, 1).submit()
    bench.tensors[0].numpy()

    def fail(*_):
        raise DriverError("no")

    ready = bench._works[0, 1]
    works = ready.launch
    ready.launch = fail
    operation = bench.build(0, 1)
    with pytest.raises(DriverError, match="no"):
        operation.submit()
    with pytest.raises(DriverError, match="no"):
        operation.sync()
    with pytest.raises(DriverError, match="no"):
        bench.tensors[0].numpy()
    with pytest.raises(DriverError, match="no"):
        bench.build(2, 0)
    ready.launch = works
    bench.build(3, 1).submit()
    assert bench.tensors[3].numpy()[0] == 3 * 3 + 1 + 1


def test_a_dropped_one_gives_its_borrows_back(bench):
    for _ in range(3):
        bench.build(0, 1).submit()
    operation = bench.build(0, 1)
    with pytest.warns(RuntimeWarning, match="was never run"):
        del operation
    gc.collect()
    bench.build(1, 0).submit()
    bench.build(0, 1).submit()


def test_a_forked_child_is_refused(bench):
    for _ in range(3):
        bench.build(0, 1).submit()
    bench.device.restart()
    with pytest.raises(DriverError, match="CUDA does not survive a fork"):
        bench.build(0, 1)


def test_a_view_with_a_fence_of_its_own(bench):
    z, x = bench.tensors[0], bench.tensors[1]
    for _ in range(3):
        bench.build(0, 1).submit()
    low = z[:4]
    work = Launch(bench.function, (low, x))
    tw.WorkOp("part", bench.device, (updates(low), reads(x)), work, None).submit(bench.streams[1])
    assert len(bench.driver.calls("wait")) == 1
    bench.build(0, 1).submit()
    assert len(bench.driver.calls("wait")) == 2


def test_a_stream_becomes_the_home_of_what_was_made_on_another(bench):
    first, second, _ = bench.streams
    bench.build(0, 1).submit(second)
    assert bench.tensors[1].storage.home is None  # what the first stream did may still be under way
    first.sync()
    bench.build(0, 1).submit(second)
    assert bench.tensors[1].storage.home is second
    before = len(bench.driver.calls("wait"))
    bench.build(2, 1).submit(first)  # reads beside a reader, and behind nobody
    bench.build(1, 3).submit(first)  # and writes behind it
    assert len(bench.driver.calls("wait")) == before + 1


def test_an_output_made_for_a_launch_begins_at_home(bench):
    bench.submit_on_new(None, 0, 1)
    storage = bench.tensors[0].storage
    assert storage.home is bench.device.stream
    assert [use.fence.count for use in storage._writes] == [bench.device.stream.issued]
    del storage
    bench.renew(None, 0, 1)
    bench.submit(None, 2, 1)
    names = [entry[0] for entry in bench.driver.log][-4:]
    assert names == ["allocate", "launch", "free", "launch"], "freed by the next launch, behind it"


def test_no_room_for_one_of_two_outputs(bench, monkeypatch):
    """The one that got its bytes before has a fence that there is."""
    first, second, _ = bench.streams
    bench.renew(None, 0, 1)
    bench.renew(None, 1, 0)
    allocate, room = bench.driver.allocate, [1, 0, 0]

    def scarce(nbytes, pool, stream):
        if not room.pop(0):
            raise OutOfMemoryError("full")
        return allocate(nbytes, pool, stream)

    monkeypatch.setattr(bench.driver, "allocate", scarce)
    operation = bench.build(0, 1)
    with pytest.raises(OutOfMemoryError, match=r"full: it was for f32\[8\]"):
        operation.submit()
    monkeypatch.undo()
    assert not bench.tensors[0].storage.is_lazy
    assert bench.tensors[1].storage.is_fresh
    bench.build(0, 2).submit(second)  # waits for the stream that the bytes are from
    bench.build(1, 2).submit(first)
    bench.tensors[0].numpy()


def test_a_launch_on_new_memory_that_fails(bench):
    bench.renew(None, 0, 1)
    operation = bench.build(0, 1)

    def fail(*_):
        raise DriverError("no")

    operation._ready.launch = fail
    with pytest.raises(DriverError, match="no"):
        operation.submit()
    assert bench.tensors[0].storage.home is None
    with pytest.raises(DriverError, match="no"):
        bench.tensors[0].numpy()

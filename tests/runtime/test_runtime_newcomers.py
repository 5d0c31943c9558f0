"""Launches of tensors that no launch has had before, on a GPU on paper.

What they leave at home is a region and a count: whoever looks must see what a fence would say.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ready_bench import Bench, Launch, Newcomers
from runtime_doubles import reads, updates

from tilewright import runtime as tw
from tilewright.dtypes import f32
from tilewright.errors import BorrowError, DriverError, LaunchError
from tilewright.runtime.ops.newcomers import NewcomerOp
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.uses import MANY_AT_HOME


@pytest.fixture
def bench():
    return Bench(0, Newcomers)


@pytest.fixture
def parts(bench):
    """Many parts of one tensor, each as long as a launch takes them."""
    return parts_of_one(bench, 64)


def parts_of_one(bench, number):
    whole = tw.full(8 * number, 1, f32, device=bench.device)
    with bench.device.lock:
        alone(bench.device, whole.storage.materialise, bench.device.stream)
    bench.device.stream.sync()
    return [whole[8 * n : 8 * n + 8] for n in range(number)]


def build(bench, z, x):
    work = Newcomers(bench.device, bench.function, None)
    return NewcomerOp().build(work, (z, x), None, depth=1)


def long_way(bench, z, x):
    accesses = (updates(z), reads(x))
    return tw.WorkOp("mix", bench.device, accesses, Launch(bench.function, (z, x)), None)


def order(bench):
    return [entry[0] for entry in bench.driver.calls("launch", "record", "wait")]


def test_nothing_is_asked_of_the_driver(bench, parts):
    before = len(bench.driver.log)
    for part in parts:
        build(bench, part, bench.tensors[1]).submit()
    assert [entry[0] for entry in bench.driver.log[before:]] == ["launch"] * len(parts)


def test_parts_that_others_use_elsewhere(bench, parts):
    """Only who conflicts waits, though all of them were left on one storage."""
    for part in parts[:4]:
        build(bench, part, bench.tensors[1]).submit()
    bench.driver.log.clear()
    other = bench.streams[1]
    long_way(bench, parts[9], parts[10]).submit(other)
    long_way(bench, bench.tensors[2], bench.tensors[1]).submit(other)  # two readers
    assert order(bench) == ["launch", "launch"]
    long_way(bench, bench.tensors[3], parts[2]).submit(other)
    assert order(bench) == ["launch", "launch", "record", "wait", "launch"]


def test_a_reader_is_waited_for_by_a_writer(bench, parts):
    build(bench, parts[0], parts[1]).submit()
    bench.driver.log.clear()
    other = bench.streams[1]
    long_way(bench, bench.tensors[2], parts[1]).submit(other)
    assert order(bench) == ["launch"]
    long_way(bench, parts[1], bench.tensors[3]).submit(other)
    assert order(bench) == ["launch", "record", "wait", "launch"]


def test_the_host_waits_for_the_writer(bench, parts):
    for part in parts:
        build(bench, part, bench.tensors[1]).submit()
    assert [part.numpy()[0] for part in parts] == [3 + 1 + 1] * len(parts)


def test_more_launches_than_are_kept_apart(bench, parts):
    storage = parts[0].storage
    for number in range(2 * MANY_AT_HOME):
        build(bench, parts[number % 60], bench.tensors[1]).submit()
        assert len(storage.written_at_home) < MANY_AT_HOME
        assert len(bench.tensors[1].storage.read_at_home) <= 1
    bench.driver.log.clear()
    long_way(bench, parts[62], parts[63]).submit(bench.streams[1])
    assert order(bench) == ["launch"]
    assert len(storage._writes) <= 128
    long_way(bench, parts[1], parts[63]).submit(bench.streams[1])
    assert order(bench) == ["launch", "record", "wait", "launch"]


def test_more_parts_than_are_kept_apart(bench):
    """They are taken for one: then even others of them wait, and none is forgotten."""
    parts = parts_of_one(bench, MANY_AT_HOME + 10)
    for part in parts[:MANY_AT_HOME]:
        build(bench, part, bench.tensors[1]).submit()
    assert len(parts[0].storage.written_at_home) <= 2
    bench.driver.log.clear()
    long_way(bench, parts[-1], bench.tensors[2]).submit(bench.streams[1])
    assert order(bench) == ["launch"]
    long_way(bench, parts[0], bench.tensors[2]).submit(bench.streams[1])
    assert order(bench) == ["launch", "record", "wait", "launch"]


def test_memory_goes_back_behind_its_last_launch(bench):
    bench.driver.log.clear()
    made = tw.full(8, 1, f32, device=bench.device)
    with bench.device.lock:
        alone(bench.device, made.storage.materialise, bench.device.stream)
    build(bench, made, bench.tensors[1]).submit()
    del made
    build(bench, bench.tensors[2], bench.tensors[1]).submit()
    calls = [entry[0] for entry in bench.driver.calls("launch", "free")]
    assert calls == ["launch", "free", "launch"]


def test_what_was_built_is_held(bench, parts):
    operation = build(bench, parts[0], bench.tensors[1])
    for again in (
        lambda: build(bench, parts[0], bench.tensors[2]),
        lambda: build(bench, bench.tensors[2], parts[0]),
        lambda: long_way(bench, bench.tensors[1], parts[1]),
    ):
        with pytest.raises(BorrowError, match="nobody has said which comes first"):
            again()
    build(bench, parts[1], bench.tensors[1]).submit()
    operation.submit()


def test_what_happens_between_building_and_submitting_is_seen(bench, parts):
    other = bench.streams[1]
    operation = build(bench, parts[0], bench.tensors[1])
    long_way(bench, bench.tensors[2], bench.tensors[1]).submit(other)
    bench.driver.log.clear()
    operation.submit()
    assert order(bench) == ["launch"]  # two readers
    operation = build(bench, bench.tensors[1], parts[3])
    bench.driver.log.clear()
    operation.submit()
    assert order(bench) == ["record", "wait", "launch"]


def test_another_stream_than_the_home(bench, parts):
    build(bench, parts[0], bench.tensors[1]).submit()
    bench.driver.log.clear()
    build(bench, parts[0], bench.tensors[1]).submit(bench.streams[1])
    assert order(bench) == ["record", "wait", "launch"]
    assert parts[0].storage.home is bench.streams[1]  # nothing else is left


def test_one_that_fails_is_known_to_all(bench, parts):
    operation = build(bench, parts[0], bench.tensors[1])

    def fail(*_):
        raise DriverError("no")

    operation._ready.launch = fail
    with pytest.raises(DriverError, match="no"):
        operation.submit()
    with pytest.raises(DriverError, match="no"):
        parts[0].numpy()


def test_a_forked_child_is_refused(bench, parts):
    build(bench, parts[0], bench.tensors[1]).submit()
    bench.device.restart()
    with pytest.raises(DriverError, match="CUDA does not survive a fork"):
        build(bench, parts[0], bench.tensors[1])


def test_one_that_was_built_before_a_fork(bench, parts):
    operation = build(bench, parts[0], bench.tensors[1])
    bench.device.restart()
    bench.driver.log.clear()
    with pytest.raises(DriverError, match="CUDA does not survive a fork"):
        operation.submit()
    assert order(bench) == []


def test_one_that_was_closed_or_submitted_is_refused(bench, parts):
    operation = build(bench, parts[0], bench.tensors[1])
    operation.close()
    with pytest.raises(Exception, match="closed"):
        operation.submit()
    operation = build(bench, parts[0], bench.tensors[1]).submit()
    with pytest.raises(Exception, match="submitted"):
        operation.submit()


def test_what_has_no_home_yet_goes_to_streams_of_its_device_only(bench):
    """Where every tensor is made for the launch, only the stream says that it is the wrong one."""
    z, x = (tw.empty(8, f32, device=bench.device) for _ in range(2))
    op = build(bench, z, x)
    with pytest.raises(LaunchError, match="cannot be submitted to a stream of cuda:0"):
        op.submit(Bench(1, Newcomers).streams[0])  # of another GPU, which is called the same here
    with pytest.raises(LaunchError, match="a stream has `__cuda_stream__`, and str has not"):
        op.submit("mine")
    bench.driver.log.clear()
    number = bench.driver.stream_number(bench.driver.create_stream())
    theirs = SimpleNamespace(__cuda_stream__=lambda: (0, number))
    assert op.submit(theirs).ends.fences.keys() == {bench.device.adopt(theirs)}
    assert "launch" in order(bench)

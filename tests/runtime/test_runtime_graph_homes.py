"""Launches on the tensors of a graph, where it is replayed: as quick as any others, and ordered."""

from __future__ import annotations

import itertools

import numpy as np
import paper_kernels
import pytest
from paper_kernels import SIZE
from test_runtime_graph_again import refused_replay

import tilewright as tw
from tilewright import f32
from tilewright.errors import BorrowError, DriverError
from tilewright.runtime.order.used_bytes import UsedBytes


class Bench:
    """A graph that makes `z` one more than `x`, and launches of the same kernel."""

    def __init__(self, gpu, cuda):
        self.gpu, self.device = gpu, cuda
        self.kernel = paper_kernels.one_more()
        numbers = np.zeros(SIZE, np.float32)
        self.z, self.x, self.a, self.b = (tw.from_numpy(numbers) for _ in range(4))
        self.g = self.launch(self.z, self.x).graph()
        self.elsewhere = cuda.new_stream()

    def launch(self, z, x):
        return self.kernel(z.partition(SIZE), x)

    def step(self):
        """What a program does over and over: a replay, and launches before and behind it."""
        self.launch(self.x, self.b).submit()
        self.g.launch().submit()
        self.launch(self.b, self.z).submit()

    def settle(self, times=4):
        for _ in range(times):
            self.step()
        return self

    def waits(self):
        return len(self.gpu.calls("wait"))


@pytest.fixture
def bench(driver, cuda, monkeypatch):
    return Bench(paper_kernels.set_up(driver, monkeypatch), cuda).settle()


@pytest.fixture
def quick(monkeypatch):
    """Nothing may be looked at."""

    def fail(*_, **__):
        pytest.fail("a tensor was looked at")

    monkeypatch.setattr(UsedBytes, "catch_up", fail)


def test_launches_and_replays_in_turns_look_at_nothing(bench, quick, monkeypatch):
    bench.settle(5)
    assert bench.gpu.calls("wait", "record") == []
    monkeypatch.undo()
    assert bench.b.numpy()[0] == 3 * 9


def test_the_tensors_that_launches_use_are_at_home(bench):
    here = bench.device.stream
    assert [tensor.storage.home for tensor in (bench.z, bench.x, bench.b)] == [here] * 3
    assert bench.g._built.lease.calm is here


def test_a_replay_elsewhere_waits_for_the_launches(bench):
    bench.device.stream.sync()
    hold = bench.device.stream.hold()
    bench.launch(bench.x, bench.b).submit()
    bench.g.launch().submit(bench.elsewhere)
    assert bench.waits() == 1
    assert bench.x.storage.home is None
    hold.release()
    assert bench.z.numpy()[0] == bench.x.numpy()[0] + 1 == bench.b.numpy()[0] + 2


def test_a_replay_that_was_told_of_waits_for_them_as_well(bench):
    others = [tw.from_numpy(np.zeros(SIZE, np.float32)) for _ in range(2)]
    bench.device.stream.sync()
    hold = bench.device.stream.hold()
    bench.launch(bench.x, bench.b).submit()
    built = bench.g.launch()
    bench.launch(*others).submit()  # to which it is told, though it has nothing to do with it
    built.submit(bench.elsewhere)
    assert bench.waits() == 1
    hold.release()


def test_a_launch_waits_for_a_replay_elsewhere(bench):
    bench.device.stream.sync()
    hold = bench.elsewhere.hold()
    bench.g.launch().submit(bench.elsewhere)
    bench.launch(bench.x, bench.a).submit()
    assert bench.waits() == 1
    hold.release()
    assert bench.x.numpy()[0] == 1


def test_a_replay_elsewhere_waits_for_launches_where_the_tensor_came_home_by_a_look(bench):
    other = bench.launch(bench.a, bench.x).graph()
    for _ in range(2):
        other.launch().submit(bench.elsewhere)
    bench.elsewhere.sync()
    bench.g.launch().submit()  # reads the same here
    bench.x.wait()
    assert bench.x.storage.home is bench.device.stream
    hold = bench.device.stream.hold()
    bench.launch(bench.x, bench.b).submit()
    before = bench.waits()
    other.launch().submit(bench.elsewhere)
    assert bench.waits() == before + 1
    hold.release()
    assert bench.a.numpy()[0] == bench.x.numpy()[0] + 1


def test_a_reader_elsewhere_waits_for_the_last_of_both(bench):
    for last in (lambda: bench.g.launch(), lambda: bench.launch(bench.z, bench.b)):
        bench.device.stream.sync()
        hold = bench.device.stream.hold()
        last().submit()
        before = bench.waits()
        bench.launch(bench.a, bench.z).submit(bench.elsewhere)
        assert bench.waits() == before + 1
        hold.release()
        bench.settle()


def test_turns_elsewhere_are_ordered_as_well(bench):
    bench.gpu.patient = True
    streams = itertools.cycle([bench.device.stream, bench.elsewhere, bench.device.new_stream()])
    for _ in range(9):
        bench.launch(bench.x, bench.b).submit(next(streams))
        bench.g.launch().submit(next(streams))
        bench.launch(bench.b, bench.z).submit(next(streams))
        next(streams)
    assert bench.b.numpy()[0] == 3 * 13


def test_a_built_replay_refuses_launches_that_conflict(bench):
    built = bench.g.launch()
    for z, x in ((bench.z, bench.a), (bench.x, bench.a), (bench.a, bench.z)):
        with pytest.raises(BorrowError, match=r"graph replay, built at .*homes.py:\d+, holds"):
            bench.launch(z, x)
    bench.launch(bench.a, bench.x).submit()  # which only reads what it reads
    built.submit()
    bench.settle()


def test_a_built_replay_holds_though_another_launch_was_looked_at(bench):
    built = bench.g.launch()
    bench.launch(bench.a, bench.x).submit()
    bench.launch(bench.a, bench.x).submit()
    with pytest.raises(BorrowError, match=r"graph replay, built at .*homes.py:\d+, holds"):
        bench.launch(bench.x, bench.a)
    built.close()
    bench.launch(bench.x, bench.a).submit()


def test_a_built_launch_refuses_a_replay(bench):
    built = bench.launch(bench.x, bench.b)
    with pytest.raises(BorrowError, match=r"one_more.*, built at .*homes.py:\d+, holds"):
        bench.g.launch()
    built.submit()
    reads = bench.launch(bench.a, bench.x)
    bench.g.launch().submit()
    reads.submit()
    bench.settle()


def test_a_dropped_replay_holds_nothing(bench):
    with pytest.warns(RuntimeWarning, match="graph replay, built at .*, was never run"):
        bench.g.launch()
    bench.launch(bench.x, bench.b).submit()
    assert bench.device.latest is None


def test_a_zip_and_a_replay_in_turns(bench):
    for _ in range(4):
        tw.zip(bench.launch(bench.x, bench.b), bench.launch(bench.a, bench.z)).submit()
        bench.g.launch().submit()
    assert bench.waits() == 0
    zipped = tw.zip(bench.launch(bench.x, bench.b), bench.launch(bench.a, bench.z))
    with pytest.raises(BorrowError, match="holds"):
        bench.g.launch()
    zipped.submit()
    assert bench.x.numpy()[0] == bench.b.numpy()[0] + 1


def test_a_replay_that_fails_is_known_to_launches(bench, monkeypatch):
    refused_replay(bench.g, monkeypatch)
    with pytest.raises(DriverError, match="no"):
        bench.launch(bench.b, bench.z)
    bench.launch(bench.z, bench.a).submit()  # a whole write
    assert bench.z.numpy()[0] == 1


def again(bench):
    return bench.launch(bench.x, bench.b)


def on_a_new_tensor(bench):
    for _ in range(4):
        made = tw.empty(SIZE, f32)
        bench.launch(made, bench.b).submit()
        bench.launch(bench.x, made).submit()
    made = tw.empty(SIZE, f32)
    bench.launch(made, bench.b).submit()
    return bench.launch(bench.x, made)


def second_of_two(bench):
    @tw.function
    def twice(a: tw.Tensor, b: tw.Tensor, x: tw.Tensor) -> tw.DeviceOp:
        first = bench.kernel(a.partition(SIZE), b)
        return first.then(lambda _: bench.kernel(x.partition(SIZE), b)).giving(x)

    for _ in range(5):
        twice(bench.a, bench.b, bench.x).submit()
        bench.g.launch().submit()
    return twice(bench.a, bench.b, bench.x)


@pytest.mark.parametrize("make", [again, on_a_new_tensor, second_of_two])
def test_a_launch_at_home_that_fails_is_known_to_replays(bench, monkeypatch, make):
    operation, launch = make(bench), bench.gpu.launch
    left = [DriverError("no")] if make is not second_of_two else [DriverError("no"), None]

    def fail(*given):
        error = left.pop() if left else None
        if error is not None:
            raise error
        return launch(*given)

    monkeypatch.setattr(bench.gpu, "launch", fail)
    with pytest.raises(DriverError, match="no"):
        operation.submit()
    with pytest.raises(DriverError, match="no"):
        bench.g.launch()  # which reads what it has written


def test_another_node_has_other_tensors(bench):
    bench.g.update(bench.launch(bench.a, bench.x))
    bench.settle()
    hold = bench.elsewhere.hold()
    bench.g.launch().submit(bench.elsewhere)
    bench.launch(bench.b, bench.z).submit()  # which is no part of it any more
    assert bench.waits() == 1
    bench.launch(bench.b, bench.a).submit()
    assert bench.waits() == 2
    hold.release()


def test_without_the_graph_they_stay_where_they_are(bench):
    bench.g = None
    bench.device.synchronize()
    assert bench.z.storage.shares == []
    hold = bench.device.stream.hold()
    bench.launch(bench.z, bench.b).submit()
    bench.launch(bench.a, bench.z).submit(bench.elsewhere)
    assert bench.waits() == 1
    hold.release()
    assert bench.a.numpy()[0] == bench.b.numpy()[0] + 2

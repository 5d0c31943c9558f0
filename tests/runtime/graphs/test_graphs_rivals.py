"""Graphs that write what others use: replays in turns, and all that has to make one look."""

from __future__ import annotations

import itertools

import pytest
import runtime_names as tw
from replay_bench import Bench, refused_replay

from tilewright.errors import BorrowError, DriverError
from tilewright.runtime.order.timeline import Timeline


class Rivals(Bench):
    """Two graphs that mix two tensors into each other, each replayed once."""

    def __init__(self, driver, device):
        super().__init__(driver, device)
        self.back = self.mix(self.x, self.z).graph()
        self.back.launch().submit()
        self.expected = [3.0, 2 * 3.0 + 3 + 1]  # in z and x

    def turns(self, times, *streams):
        for stream in itertools.islice(itertools.cycle(streams or (None,)), times):
            self.g.launch().submit(stream)
            self.back.launch().submit(stream)
            self.expect_turn()

    def expect_turn(self):
        z, x = self.expected
        z = z * 3 + x + 1
        self.expected = [z, x * 3 + z + 1]

    @property
    def found(self):
        return [self.z.numpy()[0], self.x.numpy()[0]]


@pytest.fixture
def bench(driver, cuda):
    return Rivals(driver, cuda)


def test_turns_on_one_stream_look_at_no_tensor(bench, monkeypatch):
    bench.turns(2)
    with monkeypatch.context() as patch:
        patch.setattr(Timeline, "order", lambda *_, **__: pytest.fail("a tensor was looked at"))
        bench.turns(5)
    assert bench.driver.calls("wait", "record", "query") == []
    assert bench.found == bench.expected


def test_one_of_them_over_and_over_looks_at_none_either(bench, monkeypatch):
    bench.turns(1)
    with monkeypatch.context() as patch:
        patch.setattr(Timeline, "order", lambda *_, **__: pytest.fail("a tensor was looked at"))
        for _ in range(3):
            bench.g.launch().submit()
    z, x = bench.expected
    for _ in range(3):
        z = z * 3 + x + 1
    assert bench.found == [z, x]


def test_who_comes_from_elsewhere_waits_for_the_last_of_them(bench):
    other = bench.device.new_stream()
    bench.turns(3)
    hold = bench.device.stream.hold()
    bench.turns(2)
    bench.mix(bench.other, bench.x).submit(other)
    assert len(bench.driver.calls("wait")) == 1
    hold.release()
    assert bench.other.numpy()[0] == bench.expected[1] + 1


@pytest.mark.parametrize("streams", [2, 3])
def test_turns_on_several_streams_are_ordered(bench, streams):
    others = [bench.device.new_stream() for _ in range(streams)]
    bench.driver.patient = True
    bench.turns(6, *others)
    assert bench.driver.calls("wait")
    assert bench.found == bench.expected


def test_each_on_a_stream_of_its_own(bench):
    here, there = (bench.device.new_stream() for _ in range(2))
    for _ in range(4):
        bench.g.launch().submit(here)
        bench.back.launch().submit(there)
        bench.expect_turn()
    assert bench.found == bench.expected


def test_an_earlier_replay_of_one_does_not_hide_a_later_one_of_the_other(bench):
    here, there, third = bench.device.stream, bench.device.new_stream(), bench.device.new_stream()
    shared, x, y = tw.zeros(8), tw.zeros(8), tw.zeros(8)
    with tw.graph() as reads:
        reads.record(bench.mix(tw.zeros(8), shared))
        reads.record(bench.mix(tw.zeros(8), x))
    writes = bench.mix(shared, y).graph()
    for graph, stream in ((writes, here), (reads, here), (reads, there), (reads, here)):
        graph.launch().submit(stream)
    writes.launch().submit(here)
    bench.mix(x, y).submit(here)  # so that the next one looks
    reads.launch().submit(here)
    bench.device.synchronize()
    hold = there.hold()
    reads.launch().submit(there)
    before = len(bench.driver.calls("wait"))
    bench.mix(shared, y).submit(third)
    assert len(bench.driver.calls("wait")) == before + 1
    hold.release()


def test_a_built_one_refuses_its_rival_though_that_is_calm(bench):
    bench.turns(2)
    built = bench.back.launch()
    with pytest.raises(BorrowError, match=r"graph replay, built at .*graphs_rivals.py:\d+, holds"):
        bench.g.launch()
    built.close()
    bench.turns(1)
    assert bench.found == bench.expected


def test_a_rival_that_fails_leaves_its_doubts(bench, monkeypatch):
    bench.turns(2)
    refused_replay(bench.back, monkeypatch)
    with pytest.raises(DriverError, match="no"):
        bench.g.launch()


def test_the_last_writer_of_two_counts_whichever_was_recorded_first(bench):
    second = bench.mix(bench.z, tw.zeros(8)).graph()
    assert waits(bench, [second, bench.g], bench.other, bench.z)


def test_the_last_reader_of_two_counts_whichever_was_recorded_first(bench):
    first, second = (bench.mix(tw.zeros(8), bench.other).graph() for _ in range(2))
    assert waits(bench, [second, first], bench.other, tw.zeros(8))


def waits(bench, graphs, z, x):
    """Whether something elsewhere waits for the last of some graphs, when the others have ended."""
    for graph in (*graphs, *graphs[:-1]):
        graph.launch().submit()
    bench.device.stream.sync()
    hold = bench.device.stream.hold()
    graphs[-1].launch().submit()
    bench.mix(z, x).submit(bench.device.new_stream())
    hold.release()
    return len(bench.driver.calls("wait")) == 1


def test_a_rival_that_is_gone_has_left_its_fences(bench):
    bench.turns(2)
    bench.back = None
    hold = bench.device.stream.hold()
    bench.g.launch().submit(bench.device.new_stream())
    assert len(bench.driver.calls("wait")) == 1
    hold.release()
    z, x = bench.expected
    assert bench.found == [z * 3 + x + 1, x]

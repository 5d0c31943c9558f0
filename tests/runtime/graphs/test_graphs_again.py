"""Replays one behind the other: the quick way, and all that has to make one leave it."""

from __future__ import annotations

import pytest
import runtime_names as tw
from paper_launches import FunctionWork
from replay_bench import Bench, refused_replay
from runtime_doubles import reads, updates

from tilewright.errors import BorrowError, DriverError, LaunchError
from tilewright.runtime.order.critical import critical


@pytest.fixture
def bench(driver, cuda):
    return Bench(driver, cuda)


def test_what_has_seen_one_replay_hears_of_the_next(bench):
    other = bench.device.new_stream()
    bench.replay(2)
    bench.z.wait()  # which makes a fence of the stamp
    hold = bench.device.stream.hold()
    bench.replay(3)
    bench.mix(bench.other, bench.z).submit(other)
    assert len(bench.driver.calls("wait")) == 1
    hold.release()
    assert bench.other.numpy()[0] == bench.value + 1


def test_each_replay_ends_where_it_ends(bench):
    first = bench.g.launch().submit()
    count = bench.device.stream.issued
    bench.replay(3)
    bench.replays += 1
    assert (first.fence.stream, first.fence.count) == (bench.device.stream, count)
    assert first.sync() == (None,)
    assert first.done


def read_it(bench):
    bench.mix(bench.other, bench.z).submit()


def test_a_replay_waits_for_a_use_on_another_stream(bench):
    bench.replay(2)
    other = bench.device.new_stream()
    hold = other.hold()
    bench.mix(bench.other, bench.z).submit(other)
    bench.driver.log.clear()
    bench.replay()
    assert len(bench.driver.calls("wait")) == 1
    hold.release()
    assert bench.z.numpy()[0] == bench.value


def test_replays_on_two_streams_are_ordered(bench):
    bench.replay(2)
    bench.replay(stream=bench.device.new_stream())
    bench.replay()
    assert len(bench.driver.calls("wait")) == 2
    assert bench.z.numpy()[0] == bench.value


def test_a_launch_that_fails_is_known_to_all(bench, monkeypatch):
    bench.replay(2)
    refused = refused_replay(bench.g, monkeypatch)
    with pytest.raises(DriverError, match="no"):
        refused.sync()
    with pytest.raises(DriverError, match="no"):
        bench.z.numpy()


def test_a_block_that_records_is_seen(bench):
    bench.replay(2)
    built = bench.g.launch()
    with tw.graph() as recording:
        recording.record(bench.mix(bench.other, tw.zeros(8)))
        built.submit()  # which has nothing to do with what is recorded
        bench.replays += 1
    with tw.graph() as recording:
        recording.record(bench.mix(bench.x, bench.other))
        built = bench.g.launch()
        with pytest.raises(LaunchError, match="recording runs nothing"):
            built.submit()
    assert bench.z.numpy()[0] == bench.value


# --- launches in turns with replays, on tensors of the graph ---


@pytest.fixture
def turns(bench):
    """A bench where launches read `z` in turns with replays, so that its timeline is direct."""
    for _ in range(3):
        bench.replay()
        read_it(bench)
    bench.driver.log.clear()
    return bench


def is_direct(bench, tensor):
    return tensor.storage.timeline in bench.g._built.access.direct


def test_launches_in_turns_with_replays_keep_both_quick(turns):
    assert turns.is_calm
    assert is_direct(turns, turns.z)
    assert not is_direct(turns, turns.x)  # no launch uses it
    for _ in range(3):
        turns.replay()
        read_it(turns)
    assert turns.is_calm
    assert turns.driver.calls("wait", "record", "query") == []
    assert turns.z.numpy()[0] == turns.value


def test_a_direct_timeline_that_no_launch_uses_is_forgotten(turns):
    turns.replay(40)
    assert turns.is_calm
    assert not is_direct(turns, turns.z)
    assert turns.z.numpy()[0] == turns.value


def test_a_built_replay_blocks_a_launch_on_a_direct_timeline(turns):
    built = turns.g.launch()
    with pytest.raises(BorrowError, match=r"^graph replay, built at .* holds .* for writing"):
        read_it(turns)
    built.close()
    read_it(turns)


def test_a_built_launch_on_a_direct_timeline_blocks_a_replay(turns):
    built = turns.mix(turns.other, turns.z)
    with pytest.raises(BorrowError, match=r"^mix, built at .* holds .* for reading"):
        turns.g.launch()
    built.submit()
    turns.replay()
    assert turns.z.numpy()[0] == turns.value


def test_a_replay_on_another_stream_waits_for_launches_that_it_was_not_told_of(turns):
    hold = turns.device.stream.hold()
    read_it(turns)
    turns.replay(stream=turns.device.new_stream())
    assert len(turns.driver.calls("wait")) == 1
    hold.release()
    assert turns.z.numpy()[0] == turns.value


def test_a_replay_on_another_stream_waits_for_a_launch_behind_the_last_replay(bench):
    """Handles of one region and a graph share a use: a replay recorded late leaves the launch."""
    wide, here, other = tw.zeros(16), bench.device.stream, bench.device.new_stream()
    graph = bench.mix(wide[:8], bench.x).graph()
    for _ in range(2):
        graph.launch().submit()
    wide.wait()  # which records the replay
    for _ in range(3):
        bench.mix(wide[:8], bench.x).submit()
        graph.launch().submit()
    here.sync()
    hold = here.hold()
    bench.mix(wide[:8], bench.x).submit()
    bench.driver.log.clear()
    graph.launch().submit(other)
    assert bench.driver.calls("wait") == [("wait", other.queue.handle, here.queue.handle)]
    hold.release()


def test_a_launch_elsewhere_waits_for_replays_and_launches(turns):
    hold = turns.device.stream.hold()
    turns.replay()
    read_it(turns)
    turns.mix(turns.z, turns.x).submit(turns.device.new_stream())
    turns.replays += 1  # the same as one
    assert len(turns.driver.calls("wait")) == 1
    hold.release()
    assert turns.z.numpy()[0] == turns.value


def test_a_replay_recorded_late_does_not_hide_a_later_launch(driver, cuda):
    bench = Bench(driver, cuda)
    others = [tw.zeros(8) for _ in range(4)]
    parts = [bench.x[:2], bench.x[2:4], bench.x[4:6], bench.x]  # the last as the graph reads it
    for _ in range(3):
        bench.replay()
        for other, part in zip(others, parts, strict=True):
            work = FunctionWork(bench.function, (other, bench.x))
            accesses = updates(other), reads(part)
            tw.make_operation("mix", cuda, accesses, work, None).submit()
    points = bench.x.storage.timeline.points
    found = critical(cuda, "looking", points, bench.x.region, writes=True)
    assert max(point.count for point in found) == cuda.stream.issued


def test_a_launch_with_the_use_of_a_graph_is_not_hidden_by_an_earlier_replay(bench):
    bench.replay()
    critical(bench.device, "looking", bench.x.storage.timeline.catch_up)
    view = bench.x[:]  # its use is the one that the graph has just recorded
    for _ in range(4):
        bench.mix(bench.other, view).submit()
        bench.replay()
    bench.mix(bench.other, view).submit()
    assert is_direct(bench, bench.x)
    points = bench.x.storage.timeline.points
    found = critical(bench.device, "looking", points, bench.x.region, writes=True)
    assert max(point.count for point in found) == bench.device.stream.issued


def test_graphs_that_share_a_direct_timeline_check_it(turns):
    back = turns.mix(turns.other, turns.z).graph()
    for _ in range(3):
        turns.replay()
        read_it(turns)
    assert is_direct(turns, turns.z)
    stream = turns.device.new_stream()
    hold = turns.device.stream.hold()
    turns.replay()
    back.launch().submit(stream)
    assert not is_direct(turns, turns.z)
    assert turns.z.storage.timeline.stream is None
    hold.release()
    turns.replay()
    assert turns.z.numpy()[0] == turns.value

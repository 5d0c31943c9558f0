"""Memory of dropped tensors, taken again with its timeline, on a GPU that exists on paper."""

from __future__ import annotations

import gc

import pytest
import runtime_names as tw

from tilewright.dtypes import f32
from tilewright.runtime.memory.creation import fill_by
from tilewright.runtime.memory.pool import Pool, pool
from tilewright.runtime.order.timeline import Timeline


@pytest.fixture
def taken(cuda, copy):
    """Makes a tensor that has taken the bytes of a dropped one."""

    def make(launches=5):
        x, before = tw.zeros(8), tw.empty(8)
        for _ in range(launches):
            copy(before, x).submit()
        del before
        made = tw.empty(8)
        assert not made.storage.is_lazy
        return made

    return make


def test_bytes_are_fresh_until_they_are_used(taken, copy):
    made = taken()
    assert made.storage.is_fresh
    copy(made, tw.zeros(8)).submit()
    assert not made.storage.is_fresh


def test_bytes_used_on_another_stream_with_lower_counts_are_not_fresh(taken, cuda, copy):
    made = taken()
    copy(made, tw.zeros(8)).submit(cuda.new_stream())
    assert not made.storage.is_fresh


def test_bytes_that_a_graph_writes_are_not_fresh(taken, copy):
    made, x = taken(), tw.zeros(8)
    copy(x, tw.zeros(8)).submit()
    with tw.graph() as graph:
        graph.record(copy(made, x))
    graph.launch().submit()
    assert not made.storage.is_fresh


def test_exported_bytes_are_not_fresh(taken):
    made = taken()
    assert made.export().__cuda_array_interface__["data"] == (made.address, False)
    assert not made.storage.is_fresh


def test_first_contents_come_from_the_pool_of_their_tensor(driver, taken, cuda, copy):
    x, mine = tw.ones(8), Pool(cuda)
    copy(taken(), x).submit()  # dropped again: the next tensor of the usual pool takes its bytes
    before = len(driver.calls("allocate"))
    with pool(mine):
        made = fill_by(8, f32, lambda tensor, stream: copy(tensor, x).submit(stream))
    assert made.numpy().tolist() == [1.0] * 8
    assert made.storage.pool is mine
    assert len(driver.calls("allocate")) == before + 1
    assert not tw.empty(8).storage.is_lazy
    assert len(driver.calls("allocate")) == before + 1


def test_a_forked_child_makes_tensors_without_the_driver(driver, cuda, copy, monkeypatch):
    x, other = tw.zeros(8), tw.empty(8)
    copy(other, x).submit()
    copy(tw.empty(8), other).submit()
    copy(x, other).submit(cuda.new_stream())
    del other  # its memory is freed behind a wait
    monkeypatch.setattr(cuda, "forked", True)
    before = len(driver.log)
    assert tw.empty(8).storage.is_lazy
    assert len(driver.log) == before


def test_an_interrupt_while_bytes_are_taken_leaves_bytes_to_launch_with(
    driver, cuda, copy, taken, monkeypatch
):
    x, made = tw.ones(8), tw.empty(8)
    copy(tw.empty(8), x).submit()
    gc.collect()
    borrows, left = Timeline.borrows, ["once"]

    def interrupted(timeline):
        if left:
            left.clear()
            raise KeyboardInterrupt
        return borrows(timeline)

    operation = copy(made, x)
    monkeypatch.setattr(Timeline, "borrows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        operation.submit()
    assert not left
    copy(made, x).submit()
    assert made.numpy().tolist() == [1.0] * 8


def _use_once(stream):
    """Leave memory on the free list of a stream."""
    with tw.stream(stream):
        x, z = tw.ones(8), tw.empty(8)
        tw.copy(z, x).submit()
        tw.copy(z, x).submit()
    stream.sync()


def test_a_stream_whose_free_list_has_memory_is_reused(cuda):
    for _ in range(20):
        _use_once(cuda.new_stream())
    assert len(cuda.streams) < 5


def test_a_stream_in_use_whose_free_list_has_memory_is_not_reused(cuda):
    kept = [cuda.new_stream() for _ in range(3)]
    for _ in range(3):
        for stream in kept:
            _use_once(stream)
        assert cuda.new_stream() not in kept

"""Graphs on arrays of NumPy: views of one memory are one thing to them, too."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from interop_kernels import add, known_ranges

import tilewright as tw
from tilewright.errors import BorrowError


@pytest.fixture(autouse=True)
def empty_table():
    assert known_ranges() == []
    yield
    assert known_ranges() == []


def ones(n):
    return np.ones(n, np.float32)


def test_views_of_one_array_are_one_memory():
    base = np.zeros(12, np.float32)
    with tw.graph() as g:
        g.record(add(tw.partition(base[:8], 4), ones(8), ones(8)))
        g.record(add(tw.partition(base[8:], 4), ones(4), ones(4)))
        g.record(add(tw.partition(base[4:], 4), ones(8), np.zeros(8, np.float32)))
    assert g._built._plan.after == ((), (), (0, 1))
    g.launch().sync()
    assert base.tolist() == [2.0] * 4 + [1.0] * 8


def test_a_built_replay_holds_other_views():
    base = np.zeros(8, np.float32)
    g = add(tw.partition(base, 4), ones(8), ones(8)).graph()
    g.launch().sync()
    replay = g.launch()
    with pytest.raises(BorrowError, match="graph replay, built at"):
        add(tw.partition(base[:4], 4), ones(4), ones(4))
    replay.sync()
    add(tw.partition(base[:4], 4), base[4:], ones(4)).submit()
    g.launch().submit()
    tw.synchronize()
    assert base.tolist() == [2.0] * 8


def test_a_view_that_bridges_two_graphs_waits_for_both():
    memory = np.zeros(12, np.float32)
    low = add(tw.partition(memory[:4], 4), ones(4), ones(4)).graph()
    high = add(tw.partition(memory[8:], 4), ones(4), ones(4)).graph()
    streams = [tw.Device("cpu").new_stream() for _ in range(3)]
    holds = [stream.hold() for stream in streams[:2]]
    low.launch().submit(streams[0])
    high.launch().submit(streams[1])
    whole = add(tw.partition(memory, 4), memory.copy(), ones(12)).submit(streams[2])
    assert not whole.done
    replays = [low.launch(), high.launch()]
    with pytest.raises(BorrowError, match="graph replay, built at"):
        add(tw.partition(memory[2:10], 4), ones(8), ones(8))
    for replay in replays:
        replay.close()
    for hold in holds:
        hold.release()
    whole.sync()
    assert memory.tolist() == [1.0] * 12


def test_a_graph_keeps_the_array():
    z, x = tw.zeros(8), ones(8)
    gone = weakref.ref(x)
    g = add(z.partition(4), x, x).graph()
    del x
    gc.collect()
    assert gone() is not None
    g.launch().sync()
    assert z.numpy()[0] == 2
    del g
    known_ranges()
    assert gone() is None

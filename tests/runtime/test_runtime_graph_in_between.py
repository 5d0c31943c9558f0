"""Replays beside launches at home, with something else in the middle: finalisers and signals."""

from __future__ import annotations

import itertools
from contextlib import suppress

import numpy as np
import paper_kernels
import pytest
from collector_points import Points
from paper_kernels import SIZE
from runtime_doubles import reads
from test_runtime_graph_cuda import Launch
from test_runtime_graph_homes import Bench
from test_runtime_order_model import Ended

import tilewright as tw
from tilewright import runtime
from tilewright.backends.cuda.module import POINTER, CudaFunction
from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.order.used_bytes import UsedBytes


@pytest.fixture
def bench(driver, cuda, monkeypatch):
    return Bench(paper_kernels.set_up(driver, monkeypatch), cuda).settle()


@pytest.fixture
def others():
    return [tw.from_numpy(np.zeros(SIZE, np.float32)) for _ in range(2)]


def end_on(stream, act):
    """Something ends when the stream is next looked at, and acts."""
    stream._kept.appendleft((0, Ended(act), 0))
    stream.has_loose_ends = True


# Each pair conflicts.
BUILDS = {
    "launch in a replay": (lambda b: b.g.launch(), lambda b: b.launch(b.x, b.b)),
    "replay in a launch": (lambda b: b.launch(b.x, b.b), lambda b: b.g.launch()),
    "replay in another launch": (lambda b: b.launch(b.z, b.x), lambda b: b.g.launch()),
}


@pytest.mark.parametrize("pair", BUILDS)
def test_what_a_finaliser_builds_meanwhile_is_refused_or_refuses(bench, pair):
    outer, nested = BUILDS[pair]
    for at in itertools.count():
        settle(bench, outer, nested)
        built, kept = [], []
        with Points(at, lambda kept=kept: attempt(bench, nested, kept)) as points:
            attempt(bench, outer, built)
        assert not (built and kept), points.where
        close(bench, [*built, *kept])
        if points.where is None:
            break
    assert at > 5


@pytest.mark.parametrize("nested", [lambda b: b.launch(b.x, b.b), lambda b: b.launch(b.z, b.a)])
def test_a_replay_that_is_being_told_of_holds_all_the_while(bench, others, nested):
    for _ in range(3):
        bench.launch(*others).submit()
    for at in itertools.count():
        settle(bench, nested)
        held, kept = bench.g.launch(), []
        with Points(at, lambda kept=kept: attempt(bench, nested, kept)) as points:
            told = bench.launch(*others)
        assert not kept, points.where
        close(bench, [told, held])
        if points.where is None:
            break
    assert at > 5


def settle(bench, *makes):
    """All as quick as it gets."""
    for make in makes:
        for _ in range(3):
            make(bench).submit()
    bench.settle(3)
    assert bench.x.storage.home is bench.z.storage.home is bench.device.stream


def attempt(bench, make, made):
    with suppress(BorrowError):
        made.append(make(bench))


def close(bench, made):
    for one in made:
        one.close()
    bench.device.settle_notes()
    assert bench.device.latest is None
    assert not bench.device.told
    assert not bench.g._built.lease.holders


def test_a_signal_while_one_is_told_of_leaves_no_tensor_at_home_unknown(bench, others, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    for _ in range(3):
        bench.launch(*others).submit()
    held = bench.g.launch()
    with monkeypatch.context() as patch:
        patch.setattr(UsedBytes, "_look_at_home", interrupt)
        with pytest.raises(KeyboardInterrupt):
            bench.launch(*others)
    held.close()
    bench.launch(bench.z, bench.b).submit()
    bench.device.synchronize()
    hold = bench.device.stream.hold()
    bench.launch(bench.z, bench.b).submit()
    bench.g.launch().submit(bench.elsewhere)
    assert bench.waits() == 1
    hold.release()


def test_a_graph_that_only_reads_is_replayed_by_a_finaliser_elsewhere(driver, cuda):
    driver.kernels |= {"look": ((8,), lambda *_: None)}
    function = CudaFunction(driver, b"", "look", (POINTER,))
    x = tw.from_numpy(np.zeros(SIZE, np.float32))
    look = runtime.WorkOp("look", cuda, (reads(x),), Launch((function,), (x,)), None)
    graph = look.graph()
    here, there = cuda.stream, cuda.new_stream()
    for _ in range(3):
        graph.launch().submit()
    cuda.synchronize()
    holds = [there.hold(), here.hold()]
    end_on(here, lambda: graph.launch().submit(there))
    graph.launch().submit()
    stamp = graph._built.lease.stamp
    assert stamp.stream is here
    assert stamp.count == here.issued
    assert here.waited[there] == there.issued
    for hold in holds:
        hold.release()


def test_a_graph_is_not_replayed_while_it_is_changed(bench):
    refused = []

    def replay():
        try:
            bench.g.launch().submit()
        except LaunchError as error:
            refused.append(str(error))

    for at in itertools.count():
        other = (bench.a, bench.z)[at % 2]
        operation = bench.launch(other, bench.x)
        with Points(at, replay, of_signals=True) as points:
            bench.g.update(operation)
        hold = bench.device.stream.hold()
        bench.g.launch().submit()
        before = bench.waits()
        bench.launch(bench.b, other).submit(bench.elsewhere)
        assert bench.waits() == before + 1, points.where
        hold.release()
        bench.device.synchronize()
        if points.where is None:
            break
    assert len(refused) > at // 2
    assert all("in the middle of another call" in text for text in refused)

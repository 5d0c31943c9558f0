"""Finalisers that launch where something was looked at just now, and is taken for granted then.

They come behind the question and before the answer is used: so the launch that follows must be
ordered all the same, and what was built before and is submitted meanwhile, too. On paper, as in
`test_runtime_nested_launches`.
"""

from __future__ import annotations

import gc
import itertools

import paper_kernels
import pytest
from collector_points import Points
from paper_kernels import SIZE
from test_runtime_nested_launches import WAYS, Bench, one_by_one, prepare

import tilewright as tw
from tilewright import f32
from tilewright.errors import BorrowError
from tilewright.runtime.order.alone import alone


@pytest.fixture
def bench(driver, cuda, monkeypatch):
    return Bench(paper_kernels.set_up(driver, monkeypatch), cuda)


def at_every_point(run):
    """Run something with an interruption at each of its points; some are made."""
    for at in itertools.count():
        points = run(at)
        if points.where is None:
            break
    assert at > 10


def attempt(act):
    """What a finaliser does, and whether it was let."""
    done = []

    def once():
        try:
            act()
        except BorrowError:
            return
        done.append(True)

    return once, done


def known(bench, tensor):
    """The fences that somebody who writes a tensor has to wait for."""
    with bench.device.lock:
        return alone(bench.device, tensor.storage.fences, tensor.region, writes=True)


# Writers elsewhere, of what the launch reads or writes.
WRITERS = {
    "input": lambda b: lambda: b.launch("x", "v").submit(b.elsewhere),
    "output": lambda b: lambda: b.launch("z", "v").submit(b.elsewhere),
    "input, by a replay": lambda b: b.replay("x", "v", b.elsewhere),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("way", ["prepared", "made", "chain", "replay and launch"])
def test_the_next_launch_waits_for_what_was_written_behind_the_first(bench, way, writer):
    make, steps = WAYS[way]
    launch, write = make(bench), WRITERS[writer](bench)
    written = "zv" if writer == "output" else "xv"

    def run(at):
        prepare(bench, write, launch)
        bench.gpu.patient = False
        for _ in range(4):
            launch()
        bench.settle()
        for one in [bench.launch("u", "b"), bench.launch("v", "b")]:
            one.close()  # another epoch: the launch looks again
        bench.reset()
        bench.gpu.patient = True
        act, done = attempt(write)
        with Points(at, act) as points:
            launch()
        launch()
        first, *others = bench.results()
        assert all(one == first for one in others), points.where
        added = [written] if done else []
        orders = [[*steps[:cut], *added, *steps[cut:], *steps] for cut in range(len(steps) + 1)]
        assert first in [one_by_one(order) for order in orders], points.where
        bench.gpu.patient = False
        bench.settle()
        return points

    at_every_point(run)


OUTER = {
    "launch": lambda b: lambda: b.launch("z", "x").submit(),
    "zip": lambda b: lambda: tw.zip(b.launch("z", "x"), b.launch("a", "x")).submit(),
    "series": lambda b: b.series(),
}


@pytest.mark.parametrize("outer", OUTER)
def test_one_that_was_built_before_and_is_submitted_meanwhile_is_not_forgotten(bench, outer):
    """It reads the same, and leaves a later count on a fence that both share."""
    launch = OUTER[outer](bench)

    def run(at):
        prepare(bench, launch, lambda: bench.launch("u", "x").submit())
        kept = bench.launch("u", "x")
        with Points(at, kept.submit) as points:
            launch()
        if points.where is None:
            kept.close()
        else:
            counts = [fence.count for fence in known(bench, bench.tensors["x"])]
            assert max(counts, default=0) >= kept.fence.count, points.where
        return points

    at_every_point(run)


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_a_part_of_new_memory_is_launched_on_while_another_begins_it(bench, is_elsewhere):
    stream = bench.elsewhere if is_elsewhere else None
    x, v = bench.tensors["x"], bench.tensors["v"]

    def launch(part, x, stream=None):
        bench.kernel(part.partition(SIZE), x).submit(stream)

    def run(at):
        bench.gpu.patient = False
        whole = tw.empty(2 * SIZE, f32)
        launch(whole[:SIZE], x)
        launch(whole[SIZE:], v, stream)
        del whole
        gc.collect()
        bench.settle()
        bench.gpu.patient = True
        bench.gpu.log.clear()
        whole = tw.empty(2 * SIZE, f32)
        part = whole[SIZE:]
        act, done = attempt(lambda: launch(part, v, stream))
        with Points(at, act) as points:
            launch(whole[:SIZE], x)
        assert done or points.where is None, (
            "parts that do not overlap never stand in each other's way"
        )
        assert len(bench.gpu.calls("allocate")) == 1, points.where
        fences = known(bench, part)
        assert not done or any(one.stream is (stream or bench.device.stream) for one in fences)
        home = whole.storage.home
        assert home is None or all(fence.stream is home for fence in fences), points.where
        bench.gpu.patient = False
        bench.settle()  # on paper, a use before the allocation is an error
        return points

    at_every_point(run)


@pytest.mark.parametrize("of_signals", [False, True])
def test_of_two_graphs_in_conflict_one_replay_is_built(bench, of_signals):
    graphs = [tw.graph(), tw.graph()]
    for graph, x in zip(graphs, "xv", strict=True):
        with graph:
            graph.record(bench.launch("z", x))
    first, second = graphs

    def run(at):
        for graph in (*graphs * 4, second, first):
            graph.launch().submit()
        bench.settle()
        built, kept = [], []
        act, _ = attempt(lambda: kept.append(second.launch()))
        with Points(at, act, of_signals=of_signals) as points:
            attempt(lambda: built.append(first.launch()))[0]()
        assert not (built and kept), points.where
        for one in (*built, *kept):
            one.close()
        return points

    at_every_point(run)


def test_a_rival_may_go_while_it_is_told_of_a_replay(bench):
    with tw.graph() as graph:
        graph.record(bench.launch("z", "x"))

    def run(at):
        with tw.graph() as rival:
            rival.record(bench.launch("z", "v"))
        for one in (rival, graph) * 3:
            one.launch().submit()
        bench.settle()
        held = [rival]
        del rival, one

        def end():
            held.clear()
            bench.launch("u", "v").submit()  # which settles what is left of it

        with Points(at, attempt(end)[0]) as points:
            graph.launch().submit()
        return points

    at_every_point(run)

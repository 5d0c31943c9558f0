"""Changes in the middle of which nothing else happens: no finaliser runs, and handlers are refused.

A GPU on paper. What a signal handler tries is tried in the middle of an operation's submission.
"""

from __future__ import annotations

import gc
import itertools
import re
import threading
from contextlib import suppress

import pytest
from collector_points import Points
from ready_bench import Bench, Newcomers, Ready

from tilewright.errors import LaunchError
from tilewright.runtime import collector
from tilewright.runtime.alone import alone, among_others
from tilewright.runtime.collector import forget_stretches, uncollected
from tilewright.runtime.graph import graph
from tilewright.runtime.newcomers import NewcomerOp
from tilewright.runtime.tickets import Ticket
from tilewright.runtime.zipping import zip_operations

REFUSED = (
    "cuda:0 is in the middle of another call, which this one has interrupted, as a signal handler"
    " does, and nothing can be built or submitted there: have the handler note what there is to do,"
    " and do it when that call is over"
)


class Garbage:
    """Does something when it goes, which the collector alone can see to."""

    def __init__(self, act):
        self.act, self.itself = act, self

    def __del__(self):
        self.act()


def is_at_rest():
    return gc.isenabled() and not collector._collector.stretches


# --- the collector --------------------------------------------------------------------------------


def test_no_finaliser_runs_in_a_stretch():
    ran = []

    def make_garbage():
        Garbage(lambda: ran.append(True))
        for _ in range(5 * gc.get_threshold()[0]):
            some = []
            some.append(some)
        return len(ran)

    gc.collect()
    assert uncollected(make_garbage) == 0
    assert is_at_rest()
    assert make_garbage() > 0


def test_the_last_one_out_starts_the_collector():
    inside, leave = threading.Event(), threading.Event()

    def stay():
        inside.set()
        leave.wait(10)
        return gc.isenabled()

    found = []
    thread = threading.Thread(target=lambda: found.append(uncollected(stay)))
    thread.start()
    inside.wait(10)
    assert not uncollected(uncollected, gc.isenabled)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert found == [False]
    assert is_at_rest()


def test_a_collector_that_its_user_has_stopped_stays_so():
    gc.disable()
    try:
        assert not uncollected(gc.isenabled)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_raises_leaves_nothing_stopped():
    with pytest.raises(ZeroDivisionError):
        uncollected(lambda: 1 // 0)
    assert is_at_rest()


def test_a_forked_child_has_its_own_thread_alone():
    collector._collector.stretches.append(None)
    uncollected(gc.isenabled)
    assert not gc.isenabled()
    forget_stretches()
    assert is_at_rest()


# --- signals that raise ---------------------------------------------------------------------------


@pytest.fixture
def device():
    return Bench(0, Ready).device


def test_what_a_signal_raises_leaves_nothing_barred_or_stopped(device):
    """Wherever in our own code it arrives; the collector may be started by the next stretch."""

    def interrupt():
        raise KeyboardInterrupt

    for at in itertools.count():
        points = Points(at, interrupt, raising=True)
        with suppress(KeyboardInterrupt), points, device.lock:
            alone(device, among_others, device, alone, device, len, ())
        uncollected(len, ())
        assert is_at_rest(), points.where
        assert not device.is_barred, points.where
        assert device.changes == 0, points.where
        if points.where is None:
            break
    assert at > 20


def test_others_may_come_where_they_are_let_in(device):
    epoch = device.epoch

    def found():
        return device.changes, device.is_barred, device.epoch == epoch

    def inside():
        return found(), among_others(device, found), found()

    with device.lock:
        assert alone(device, inside) == ((1, True, False), (0, False, True), (1, True, False))
        assert alone(device, alone, device, inside)[1:] == ((0, False, True), (2, True, False))
    assert found() == (0, False, True)


def test_a_change_that_others_have_to_know_of_begins_an_epoch(device):
    before = device.epoch

    def shift():
        device.epoch += 1

    with device.lock:
        alone(device, alone, device, shift)
    assert device.epoch == before + 1


def test_a_child_that_is_forked_in_the_middle_of_a_change_goes_on(device):
    def fork():
        device.restart()
        forget_stretches()

    device.backend.survives_fork = True
    with device.lock:
        alone(device, alone, device, fork)
    assert is_at_rest()
    assert device.changes == 0
    assert not device.is_barred


# --- handlers that do something -------------------------------------------------------------------


def build_new(bench):
    work = Newcomers(bench.device, bench.function, None)
    return NewcomerOp().build(work, tuple(bench.tensors[2:]), None, depth=1)


# What is built before, and what the handler does with it.
CASES = {
    "builds": (None, lambda b, _: b.build(2, 3).close()),
    "builds on new tensors": (None, lambda b, _: build_new(b).close()),
    "builds a replay": (None, lambda b, _: b.graph.launch().close()),
    "reads": (None, lambda b, _: b.tensors[2].numpy()),
    "waits": (None, lambda b, _: b.tensors[2].wait()),
    "exports": (None, lambda b, _: b.tensors[2].export()),
    "submits": (lambda b: b.build(2, 3), lambda _, built: built.submit()),
    "submits what is on new tensors": (build_new, lambda _, built: built.submit()),
    "submits a chain": (
        lambda b: b.build(2, 3).then(lambda _: b.build(3, 2)),
        lambda _, built: built.submit(),
    ),
    "submits a zip": (
        lambda b: zip_operations(b.build(2, 3)),
        lambda _, built: built.submit(),
    ),
    "submits a replay": (lambda b: b.graph.launch(), lambda _, built: built.submit()),
    "closes": (lambda b: b.build(2, 3), lambda _, built: built.close()),
    "changes a graph": (lambda b: b.build(2, 1), lambda b, built: b.graph.update(built)),
}


@pytest.fixture(params=[Ready, Newcomers, None], ids=["again", "new", "long"])
def bench(request):
    bench = Bench(0, request.param)
    with graph() as bench.graph:
        bench.graph.record(bench.build(2, 3))
    for _ in range(3):
        bench.build(0, 1).submit()
        bench.graph.launch().submit()
    bench.device.synchronize()
    return bench


@pytest.mark.parametrize("case", CASES)
def test_a_handler_in_the_middle_of_a_submission_is_refused(bench, case, monkeypatch):
    make, act = CASES[case]
    built = None if make is None else make(bench)
    order, tried = Ticket.order, []

    def interrupted(ticket, stream):
        if not tried:
            tried.append(True)
            with pytest.raises(LaunchError, match=f"^{re.escape(REFUSED)}$"):
                act(bench, built)
        order(ticket, stream)

    monkeypatch.setattr(Ticket, "order", interrupted)
    bench.build(0, 1).submit(bench.streams[1])
    assert tried
    act(bench, built)  # which has lost nothing, and works when that is over

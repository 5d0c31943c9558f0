"""Changes in the middle of which nothing else happens: no finaliser runs, and handlers are refused.

A GPU on paper. What a signal handler tries is tried in the middle of an operation's submission.
"""

from __future__ import annotations

import gc
import itertools
import re
import sys
import threading
from contextlib import suppress

import pytest
from collector_points import Points
from ready_bench import Bench, Launch, Newcomers, Ready
from runtime_doubles import reads, updates

from tilewright import runtime as tw
from tilewright.dtypes import f32
from tilewright.errors import BorrowError, LaunchError, OutOfMemoryError
from tilewright.runtime.graphs import built_graph
from tilewright.runtime.graphs.graph import graph
from tilewright.runtime.ops.newcomers import NewcomerOp
from tilewright.runtime.ops.zip import zip_operations
from tilewright.runtime.order import collector
from tilewright.runtime.order.alone import alone, among_others
from tilewright.runtime.order.collector import forget_stretches, uncollected
from tilewright.runtime.order.tickets import Ticket

pool = sys.modules["tilewright.runtime.memory.pool"]  # by name: `runtime.pool` is a function
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
    """Wherever in our own code it arrives."""

    def interrupt():
        raise KeyboardInterrupt

    epoch = device.epoch
    for at in itertools.count():
        points = Points(at, interrupt, raising=True)
        with suppress(KeyboardInterrupt), points, device.lock:
            alone(device, among_others, device, alone, device, len, ())
        assert is_at_rest(), points.where
        assert device.epoch == epoch, points.where
        assert not device.is_barred, points.where
        assert device.changes == 0, points.where
        if points.where is None:
            break
    assert at > 15


@pytest.mark.filterwarnings("ignore:operation mix, built at .* was never run:RuntimeWarning")
@pytest.mark.parametrize("kind", [Ready, Newcomers, None], ids=["again", "new", "long"])
def test_what_a_signal_raises_while_something_is_built_leaves_nothing_held(kind):
    def interrupt():
        raise KeyboardInterrupt

    bench = Bench(0, kind)
    for at in itertools.count():
        points, built = Points(at, interrupt, raising=True), []
        with suppress(KeyboardInterrupt), points:
            built.append(bench.build(0, 1))
        for one in built:
            one.close()
        with bench.device.lock:
            bench.device.settle_notes()
        bench.build(0, 1).submit()  # or it would be refused
        if points.where is None:
            break
    assert at > 3


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


def in_a_change(monkeypatch, act):
    """Do something in the middle of the next submission that has to look."""
    order = Ticket.order

    def interrupted(ticket, stream):
        monkeypatch.setattr(Ticket, "order", order)
        act()
        order(ticket, stream)

    monkeypatch.setattr(Ticket, "order", interrupted)


def test_a_handler_hears_of_a_failure(bench, monkeypatch):
    accesses, work = (updates(bench.tensors[2]),), Launch(bench.function, bench.tensors[2:])
    failed = tw.WorkOp("bad", bench.device, accesses, work, None, failure=lambda: ValueError("bad"))
    failed.submit().fence.stream.queue.wait(failed.fence.count)

    def hear():
        with pytest.raises(ValueError, match="bad"):
            failed.sync()

    in_a_change(monkeypatch, hear)
    bench.build(0, 1).submit(bench.streams[1])
    assert failed.state is tw.State.FAILED


def test_what_ends_in_a_change_ends_behind_it(bench, monkeypatch):
    """Its finaliser could launch."""
    ended, stream = [], bench.streams[0]
    with bench.device.lock:
        stream.keep(Garbage(lambda: ended.append(bench.device.changes)))
        stream.advance()
    gc.collect()

    def settle():
        stream.settle()
        gc.collect()
        assert not ended

    in_a_change(monkeypatch, settle)
    bench.build(0, 1).submit(bench.streams[1])
    stream.settle()
    gc.collect()
    assert ended == [0]


def test_nothing_is_calm_in_the_epoch_of_a_change():
    """Work that was put on the stream of another library, which has to be found first."""
    bench = Bench(0, Ready)

    class Theirs:
        def __cuda_stream__(self):
            return 0, bench.streams[0].queue.number

    for _ in range(3):
        bench.build(0, 1).submit(Theirs())
    assert bench._works[0, 1].epoch <= bench.device.epoch
    bench.build(0, 1).submit()
    bench.build(0, 1).submit()
    assert bench._works[0, 1].epoch == bench.device.epoch


def test_first_contents_that_failed_while_room_was_made_are_made_again(monkeypatch):
    bench = Bench(0, None)
    x = tw.full(8, 7, f32, device=bench.device)
    storage, make_room = x.storage, pool._make_room
    tries = [OutOfMemoryError("no room")]
    allocate = type(bench.streams[0].queue).allocate

    def refuse_once(queue, *args):
        if tries:
            raise tries.pop()
        return allocate(queue, *args)

    def fail(*_):
        raise ValueError("first contents")

    def make_room_meanwhile(*args):
        contents, storage._initialiser = storage._initialiser, fail
        with pytest.raises(ValueError, match="first contents"):  # of what a finaliser launches
            build_reader(bench, 2, x).submit()
        storage._initialiser = contents
        make_room(*args)

    monkeypatch.setattr(type(bench.streams[0].queue), "allocate", refuse_once)
    monkeypatch.setattr(pool, "_make_room", make_room_meanwhile)
    build_reader(bench, 0, x).submit()
    assert storage.has_begun
    assert x.numpy().tolist() == [7] * 8


def build_reader(bench, number, x):
    tensors = (bench.tensors[number], x)
    accesses = (updates(tensors[0]), reads(x))
    return tw.WorkOp("mix", bench.device, accesses, Launch(bench.function, tensors), None)


def test_a_replay_that_is_built_while_a_graph_gets_memory_keeps_it_from_being_changed(monkeypatch):
    bench, kept = Bench(0, None), []
    with graph() as made:
        made.record(bench.build(2, 3))
    allocate = built_graph._allocate

    def meanwhile(device, jobs):
        kept.append(among_others(device, made.launch))
        allocate(device, jobs)

    monkeypatch.setattr(built_graph, "_allocate", meanwhile)
    with pytest.raises(BorrowError, match=r"graph replay, built at .* holds the graph"):
        made.update(bench.build(2, 1))
    kept[0].submit()

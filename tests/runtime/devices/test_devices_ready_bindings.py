"""Launches made over and over: by launch while their stream is busy, by graph while it waits."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from types import SimpleNamespace

import pytest

from tilewright.errors import DriverError

cu = pytest.importorskip("cuda.bindings.driver", reason="needs the `cuda` extra")
bindings = pytest.importorskip("tilewright.backends.cuda.ready_bindings")

CODES = cu.CUresult
MODES = cu.CUstreamCaptureMode
LAUNCHES, QUESTIONS = bindings._LAUNCHES, bindings._QUESTIONS


class Driver(bindings.ReadyCalls):
    """Writes down what it is asked for; graphs are numbers."""

    context, context_id = None, "ours"

    def __init__(self):
        self.log = []
        self.made = 0
        self.rooms = []
        self.refuses = False
        self.current = "ours"  # the context of the thread

    def bind(self):
        self.current = "ours"

    def load(self, *_):
        raise AssertionError("nothing is loaded")

    def check(self, call, code):
        if code is not CODES.CUDA_SUCCESS:
            raise DriverError(f"{call}: {code.name}")

    def make_room(self, places):
        self.rooms.append(places)

    def create_graph(self):
        self.made += 1
        return f"graph {self.made}"

    def add_launch_node(self, graph, after, kernel, shape, parameters):
        assert after == []
        return f"node of {graph}: {shape.grid[0]} blocks, {parameters}"

    def instantiate_graph(self, graph):
        if self.refuses:
            raise DriverError("cuGraphInstantiate: no room")
        return f"executable {graph}"

    def destroy_executable_graph(self, executable):
        self.log.append(f"destroy {executable}")

    def destroy_graph(self, graph):
        self.log.append(f"destroy {graph}")


@pytest.fixture
def driver(monkeypatch):
    """A driver whose calls are written down, with streams that are busy or wait."""
    made = Driver()
    made.busy = set()
    made.mode = MODES.CU_STREAM_CAPTURE_MODE_GLOBAL

    def launch(shape, *_):
        made.log.append(f"launch on {int(shape.hStream)}")
        return (CODES.CUDA_SUCCESS,)

    def launch_graph(executable, stream):
        made.log.append(f"{executable} on {int(stream)}")
        return (CODES.CUDA_SUCCESS,)

    def query(stream):
        assert made.mode is MODES.CU_STREAM_CAPTURE_MODE_RELAXED, "or a capture elsewhere is lost"
        made.log.append(f"query {int(stream)}")
        is_busy = int(stream) in made.busy
        return (CODES.CUDA_ERROR_NOT_READY if is_busy else CODES.CUDA_SUCCESS,)

    def exchange(mode):
        before, made.mode = made.mode, mode
        return CODES.CUDA_SUCCESS, before

    monkeypatch.setattr(cu, "cuLaunchKernelEx", launch)
    monkeypatch.setattr(cu, "cuGraphLaunch", launch_graph)
    monkeypatch.setattr(cu, "cuStreamQuery", query)
    monkeypatch.setattr(cu, "cuCtxGetId", lambda _: (CODES.CUDA_SUCCESS, made.current))
    monkeypatch.setattr(cu, "cuThreadExchangeStreamCaptureMode", exchange)
    return made


class Queue:
    """A stream of ours; something may happen when it is asked whether it is."""

    def __init__(self, number, *, has_context=True):
        self.handle = SimpleNamespace(handle=cu.CUstream(number), has_context=has_context)
        self.when_asked = []

    @property
    def is_adopted(self):
        while self.when_asked:
            self.when_asked.pop()()
        return False


class Stream:
    """Of a device that has others as well."""

    def __init__(self, number, others, **how):
        self.queue = Queue(number, **how)
        self.is_at_work = False
        others.append(self)
        self.device = SimpleNamespace(streams=others)

    def has_ended(self):
        return not self.is_at_work


def a_stream(number, others=None, **how):
    return Stream(number, [] if others is None else others, **how)


def prepared(driver, *, may_change=False):
    kernel = SimpleNamespace(handle=0, waits=True)
    return driver.prepare_launch(kernel, 7, SimpleNamespace(address=64, may_change=may_change))


def until_a_graph(launch, stream):
    """As often as it takes, if the stream waits for the host."""
    for _ in range(LAUNCHES + 2):
        launch(stream, ())


def taken(driver):
    """Calls of a driver since the last time, and how often in a row."""
    found = []
    for one in driver.log:
        if found and found[-1][0] == one:
            found[-1][1] += 1
        else:
            found.append([one, 1])
    driver.log.clear()
    return [f"{count} x {one}" for one, count in found]


def test_a_stream_that_waits_for_the_host_is_given_graphs(driver):
    launch, stream = prepared(driver), a_stream(1)
    for _ in range(2 * LAUNCHES + 2):
        launch(stream, ())
    assert taken(driver) == [
        f"{LAUNCHES + 1} x launch on 1",
        "1 x query 1",
        f"{LAUNCHES + 1} x executable graph 1 on 1",
    ]
    assert driver.mode is MODES.CU_STREAM_CAPTURE_MODE_GLOBAL


def test_a_stream_that_is_busy_is_given_launches_which_start_early(driver):
    launch, stream = prepared(driver), a_stream(1)
    driver.busy.add(1)
    for _ in range(2 * LAUNCHES + 2):
        launch(stream, ())
    assert taken(driver) == [
        f"{LAUNCHES + 1} x launch on 1",
        f"{QUESTIONS} x query 1",
        f"{LAUNCHES + 1} x launch on 1",
    ]
    assert not driver.made


def test_a_stream_that_has_caught_up_by_the_last_question_waits_for_the_host(driver, monkeypatch):
    launch, stream = prepared(driver), a_stream(1)
    driver.busy.add(1)
    query, asked = cu.cuStreamQuery, []

    def end_at_last(number):
        asked.append(number)
        if len(asked) == QUESTIONS:
            driver.busy.clear()
        return query(number)

    monkeypatch.setattr(cu, "cuStreamQuery", end_at_last)
    until_a_graph(launch, stream)
    assert taken(driver)[-1] == "1 x executable graph 1 on 1"


def test_a_stream_that_becomes_busy_is_given_launches_again(driver):
    launch, stream = prepared(driver), a_stream(1)
    for _ in range(2 * LAUNCHES + 2):
        launch(stream, ())
    driver.busy.add(1)
    taken(driver)
    launch(stream, ())
    assert taken(driver) == [f"{QUESTIONS} x query 1", "1 x launch on 1"]
    driver.busy.clear()
    for _ in range(LAUNCHES + 1):
        launch(stream, ())
    assert taken(driver)[-1] == "1 x executable graph 1 on 1"  # the one there is


def test_a_graph_stays_with_its_stream(driver):
    # On another one it would wait for the first, and the host may release that one after this.
    launch, first, second = prepared(driver), a_stream(1), a_stream(2)
    for _ in range(LAUNCHES + 2):
        launch(first, ())
    assert taken(driver)[-1] == "1 x executable graph 1 on 1"
    for _ in range(3 * LAUNCHES):
        launch(second, ())
    assert {one for one in taken(driver) if "graph" in one} == set()
    for _ in range(LAUNCHES + 2):
        launch(first, ())
    assert taken(driver)[-1] == "1 x executable graph 1 on 1"
    assert driver.made == 1


def test_launches_on_streams_in_turn_are_no_graphs(driver):
    launch, first, second = prepared(driver), a_stream(1), a_stream(2)
    for _ in range(3 * LAUNCHES):
        launch(first, ())
        launch(second, ())
    assert taken(driver) == ["1 x launch on 1", "1 x launch on 2"] * (3 * LAUNCHES)


def test_parameters_that_change_are_no_graph(driver):
    launch, stream = prepared(driver, may_change=True), a_stream(1)
    for _ in range(3 * LAUNCHES):
        launch(stream, ())
    assert taken(driver) == [f"{3 * LAUNCHES} x launch on 1"]


def test_what_a_graph_fails_with_is_told(driver, monkeypatch):
    monkeypatch.setattr(cu, "cuGraphLaunch", lambda *_: (CODES.CUDA_ERROR_LAUNCH_FAILED,))
    launch, stream = prepared(driver), a_stream(1)
    for _ in range(LAUNCHES + 1):
        launch(stream, ())
    with pytest.raises(DriverError, match="cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED"):
        launch(stream, ())


@pytest.mark.parametrize("has_context", [True, False])
def test_a_graph_on_the_default_stream_is_that_of_its_context(driver, monkeypatch, has_context):
    # In that of the thread it would not be refused, and run behind nothing that it has to wait for.
    asked, query = [], cu.cuStreamQuery

    def note(call, *given):
        asked.append(driver.current)
        return call(*given)

    monkeypatch.setattr(cu, "cuStreamQuery", partial(note, query))
    monkeypatch.setattr(cu, "cuGraphLaunch", partial(note, cu.cuGraphLaunch))
    launch, stream = prepared(driver), a_stream(1, has_context=has_context)
    for _ in range(LAUNCHES + 4):
        driver.current = "another"
        launch(stream, ())
    assert asked == ["another" if has_context else "ours"] * 4
    assert "3 x executable graph 1 on 1" in taken(driver)


@pytest.mark.parametrize("has_context", [True, False])
def test_so_is_a_replay(driver, has_context):
    driver.current = "another"
    driver.launch_graph("executable", a_stream(1, has_context=has_context).queue.handle)
    assert taken(driver) == ["1 x executable on 1"]
    assert driver.current == ("another" if has_context else "ours")


def test_what_a_replay_fails_with_is_told(driver, monkeypatch):
    monkeypatch.setattr(cu, "cuGraphLaunch", lambda *_: (CODES.CUDA_ERROR_LAUNCH_FAILED,))
    with pytest.raises(DriverError, match="cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED"):
        driver.launch_graph("executable", a_stream(1).queue.handle)


def test_a_graph_that_cannot_be_made_is_not_missed(driver):
    launch, stream = prepared(driver), a_stream(1)
    driver.refuses = True
    for _ in range(3 * LAUNCHES):
        launch(stream, ())
    assert driver.made == 1  # and is not tried again
    assert [one for one in taken(driver) if "destroy" in one] == ["1 x destroy graph 1"]


def test_an_unused_graph_is_given_back_before_the_next_is_made(driver):
    launch, stream = prepared(driver), a_stream(1)
    until_a_graph(launch, stream)
    taken(driver)
    del launch
    gc.collect()
    assert taken(driver) == []  # a finaliser calls no driver
    another = prepared(driver)
    until_a_graph(another, stream)
    assert taken(driver)[2:] == [
        "1 x destroy executable graph 1",
        "1 x destroy graph 1",
        "1 x executable graph 2 on 1",
    ]


def test_there_are_no_more_graphs_than_some(driver, monkeypatch):
    monkeypatch.setattr(bindings, "_MOST", 2)
    launches, stream = [prepared(driver) for _ in range(3)], a_stream(1)
    for number in range(3):
        until_a_graph(launches[number], stream)
    assert driver.made == 2
    del launches[0]
    gc.collect()
    until_a_graph(launches[-1], stream)
    assert driver.made == 3


def test_a_graph_is_made_when_no_other_stream_is_at_work(driver):
    """The driver may wait for all of them to make it, and one may be waiting for the caller."""
    others = []
    launch, stream, other = prepared(driver), a_stream(1, others), a_stream(2, others)
    other.is_at_work = True
    for _ in range(3 * LAUNCHES):
        launch(stream, ())
    assert driver.made == 0
    other.is_at_work = False
    for _ in range(LAUNCHES + 1):
        launch(stream, ())
    assert driver.made == 1
    taken(driver)
    other.is_at_work = True  # which is nothing to a graph that is there
    for _ in range(2 * LAUNCHES):
        launch(stream, ())
    assert not any("launch on" in one for one in taken(driver))


def test_a_stream_that_cannot_be_asked_costs_a_launch_its_graph_alone(driver):
    others = []
    launch, stream, other = prepared(driver), a_stream(1, others), a_stream(2, others)

    def ended():
        raise DriverError("its owner has destroyed it")

    other.has_ended = ended
    for _ in range(2 * LAUNCHES):
        launch(stream, ())
    assert sum(one == "launch on 1" for one in driver.log) == 2 * LAUNCHES


def test_graphs_leave_to_others_the_room_that_those_had(driver):
    kept, stream = [], a_stream(1)
    for _ in range(bindings._PLACES + 1):
        kept.append(prepared(driver))
        until_a_graph(kept[-1], stream)
    assert driver.rooms == [2 * bindings._PLACES] * 2
    kept.clear()  # the driver keeps their places, once
    until_a_graph(prepared(driver), stream)
    assert driver.rooms == [2 * bindings._PLACES] * 2


def test_a_choice_that_breaks_off_is_made_again(driver, monkeypatch):
    launch, first, second = prepared(driver), a_stream(1), a_stream(2)
    launch(first, ())
    chosen = bindings._ReadyLaunch.choose

    def interrupted(self, stream, **how):
        chosen(self, stream, **how)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bindings._ReadyLaunch, "choose", interrupted)
        with pytest.raises(KeyboardInterrupt):
            launch(second, ())
    taken(driver)
    launch(first, ())
    assert taken(driver) == ["1 x launch on 1"]  # not where the other would have been


def test_a_finaliser_may_make_the_same_launch_on_another_stream_meanwhile(driver):
    launch, first, second = prepared(driver), a_stream(1), a_stream(2)
    first.queue.when_asked.append(lambda: launch(second, ()))
    for _ in range(3):
        launch(first, ())
    assert taken(driver) == ["1 x launch on 2", "3 x launch on 1"]


@pytest.mark.parametrize("may_change", [False, True])
def test_an_unused_stream_is_not_kept(driver, may_change):
    launch, first, second = prepared(driver, may_change=may_change), a_stream(1), a_stream(2)
    for stream in (first, second):
        launch(stream, ())
    kept = weakref.ref(first.queue)
    del first, stream
    gc.collect()
    assert kept() is None

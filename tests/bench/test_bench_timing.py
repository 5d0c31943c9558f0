"""`do_bench` and its clocks. No test asserts a time: only what ran, in which order, how often."""

import math
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import tilewright as tw
from tilewright.bench import DeviceClock, EagerClock, Effort, HostClock, Timer, Timing, do_bench
from tilewright.bench.subjects import Subject, drain

QUICK = Effort(repetitions=3, warmup=0.0, shortest=0.0, rounds=2)


def test_quantiles_lie_between_the_figures():
    timing = Timing((4.0, 1.0, 3.0, 2.0))
    assert (timing.median, timing.least) == (2.5, 1.0)
    assert [timing.quantile(q) for q in (0, 0.5, 1)] == [1.0, 2.5, 4.0]
    assert timing.quantile(0.25) == pytest.approx(1.75)
    assert Timing((7.0,)).quantile(0.2) == 7.0
    assert timing.to_json()["repetitions"] == 4
    with pytest.raises(ValueError, match=r"between 0 and 1, and 1\.5 is not"):
        timing.quantile(1.5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"repetitions": 0}, "at least one repetition and one round are needed, not repetitions=0"),
        ({"rounds": 0}, "rounds=0"),
        ({"warmup": -1.0}, "warmup and shortest are seconds, not below zero, .* warmup=-1"),
        ({"shortest": -1.0}, "shortest=-1"),
        ({"longest": 0.0}, "longest is above, not .* longest=0"),
        ({"longest": math.nan}, "longest=nan"),
    ],
)
def test_an_effort_that_measures_nothing_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Effort(**wrong)


@pytest.mark.parametrize(
    ("seconds", "figures"), [(0.0, 9), (1e-3, 9), (2e-3, 5), (4e-3, 3), (5.0, 3)]
)
def test_what_takes_long_has_fewer_figures_but_not_one(seconds, figures):
    effort = Effort(repetitions=9, warmup=0.0, longest=0.01)
    assert effort.figures(seconds) == figures
    assert Effort(repetitions=2, longest=0.01).figures(5.0) == 2
    timer = Timer(effort=effort)
    subject = timer.first_runs(lambda: None)
    assert subject.seconds > 0
    subject.seconds = seconds
    assert len(timer.measure(subject, 1).seconds) == figures


def test_any_callable_is_timed():
    ran = []
    timing = do_bench(lambda: ran.append(1), effort=QUICK)
    assert len(timing.seconds) == 3
    assert all(second >= 0 for second in timing.seconds)
    assert len(ran) >= 3 + 1, "the first run compiles and is not counted"


def test_what_is_built_is_submitted_and_what_is_submitted_is_left_alone():
    x, y = tw.from_numpy(np.arange(8.0)), tw.zeros((8,), tw.f64)
    do_bench(lambda: tw.copy(y, x), effort=QUICK)
    assert y.numpy().tolist() == list(range(8))
    do_bench(lambda: tw.fill(y, 1.0).submit(), effort=QUICK)
    assert y.numpy().tolist() == [1.0] * 8


def test_several_take_turns():
    ran: list[str] = []
    Timer(effort=QUICK).time([lambda: ran.append("a"), lambda: ran.append("b")])
    assert ran[-3:] == ["a", "b", "a"]


def test_what_cannot_be_timed_is_refused():
    x = tw.zeros((4,), tw.f32)
    operation = tw.fill(x, 1.0)
    with pytest.raises(TypeError, match="a callable is timed, and LaunchOp is none: write `lambda"):
        do_bench(operation, effort=QUICK)
    operation.close()
    with pytest.raises(ValueError, match="the sequence of callables is empty"):
        do_bench([], effort=QUICK)


def test_short_runs_are_timed_in_batches_and_flushed_ones_are_not(monkeypatch):
    monkeypatch.setitem(Timer.__init__.__globals__["_LARGER_THAN_CACHES"], "cpu", 64)
    slow = Effort(repetitions=2, warmup=0.001, shortest=1.0)
    assert Timer(effort=slow).time(lambda: None).batch == 100
    assert Timer(effort=slow, flush=True).time(lambda: None).batch == 1


@pytest.mark.parametrize("clock", [DeviceClock, EagerClock, HostClock])
def test_clocks_count_each_repetition_and_not_what_comes_before(clock):
    device = tw.Device("cpu")
    stream = device.new_stream()
    x = tw.zeros((4,), tw.f32)
    log: list[str] = []

    def run():
        log.append("run")
        return tw.fill(x, 1.0)

    found = clock(stream).measure(Subject(run), lambda: log.append("before"), 3, 2)
    drain(device.stream)
    assert len(found) == 3
    assert log == ["before", "run", "run"] * 3


def test_a_held_stream_is_let_go_when_the_callable_waits_for_it(monkeypatch):
    monkeypatch.setitem(DeviceClock.measure.__globals__, "_PATIENCE", 0.01)
    stream = tw.Device("cpu").new_stream()
    x = tw.zeros((4,), tw.f32)
    subject = Subject(lambda: tw.fill(x, 1.0).sync_on(stream))
    assert len(DeviceClock(stream).measure(subject, lambda: None, 2, 1)) == 2
    assert subject.room == 0, "from then on it is not held"
    assert threading.active_count() < 50


def test_the_first_run_of_each_callable_is_never_held(monkeypatch):
    stream = tw.Device("cpu").new_stream()
    held: list[bool] = []
    log: list[str] = []
    monkeypatch.setattr(DeviceClock, "_held", _noting(held, DeviceClock._held))

    def run(name):
        log.append(f"{name} {'held' if held and held[-1] else 'free'}")

    timer = Timer(stream, QUICK, clock=DeviceClock(stream))
    subject, _ = timer.prepare([lambda: run("a"), lambda: run("b")])
    assert log[:2] == ["a free", "b free"]
    timer.measure(subject, 1)
    assert log[-1].endswith("held")


def _noting(held, real):
    @contextmanager
    def noting(clock, holding):
        held.append(holding)
        with real(clock, holding) as gave_up:
            yield gave_up

    return noting


def test_more_runs_than_a_held_stream_takes_are_put_in_groups():
    stream = tw.Device("cpu").new_stream()
    ran = []
    subject = Subject(lambda: ran.append(1))
    assert len(DeviceClock(stream).measure(subject, lambda: None, 200, 1)) == 200
    assert len(DeviceClock(stream).measure(subject, lambda: None, 1, 500)) == 1
    assert len(ran) == 700

"""Calls in the middle of others: finalisers that launch, signals, contents that fail.

A GPU on paper. A call that comes in a critical section is refused and changes nothing; elsewhere it
runs as a whole. Work that may have been put on a stream is ordered.
"""

from __future__ import annotations

import pytest
import runtime_names as tw
from collector_points import Ended
from launch_bench import Bench, Bound, Planned, build
from runtime_doubles import writes

from tilewright.dtypes import f32
from tilewright.errors import BorrowError, LaunchError, OutOfMemoryError
from tilewright.runtime.memory.creation import fill_by
from tilewright.runtime.ops.lifecycle import Ends
from tilewright.runtime.order.borrow import Role

KINDS = pytest.mark.parametrize("kind", [Bound, Planned, None], ids=["bound", "plan", "once"])


def bench_of(kind):
    """Launches on the first two tensors have been made before, and are over."""
    bench = Bench(0, kind)
    for _ in range(3):
        bench.build(0, 1).submit()
    bench.device.stream.sync()
    return bench


def order(bench):
    return [entry[0] for entry in bench.driver.calls("launch", "record", "wait")]


def keep(stream, thing):
    """Have the stream end something by the time it is submitted to."""
    with stream.device.lock:
        stream.keep(thing)
        stream.advance()
    stream.queue.completed()


# --- finalisers that launch -----------------------------------------------------------------------


@KINDS
def test_a_finaliser_before_the_critical_section_may_build_an_operation(kind):
    bench = bench_of(kind)
    built = []
    operation = bench.build(0, 1)
    keep(bench.device.stream, Ended(lambda: built.append(bench.build(2, 3))))
    operation.submit()
    with pytest.raises(BorrowError):
        bench.build(2, 3)
    built.pop().close()
    bench.build(2, 3).close()
    bench.build(0, 1).close()


@KINDS
def test_a_finaliser_may_not_write_what_a_built_operation_reads(kind):
    bench = bench_of(kind)
    refused = []

    def write():
        with pytest.raises(BorrowError) as found:
            bench.build(1, 2).submit(bench.streams[1])
        refused.append(found)

    operation = bench.build(0, 1)
    keep(bench.device.stream, Ended(write))
    operation.submit()
    assert refused


@KINDS
def test_a_call_during_the_launch_itself_is_refused(kind, monkeypatch):
    """Any call, and also on other tensors: nothing has changed behind it."""
    bench = bench_of(kind)
    operation, other = bench.build(0, 1), bench.build(2, 3)
    launch, refused = bench.driver.launch, []
    calls = (
        lambda: bench.build(3, 1),
        lambda: other.submit(bench.streams[1]),
        other.sync,
        other.close,
        bench.tensors[3].numpy,
        bench.tensors[3].wait,
    )

    def collected(*args):
        for call in calls:
            with pytest.raises(LaunchError, match="cuda:0 is in the middle of mix") as found:
                call()
            refused.append(found)
        launch(*args)

    with monkeypatch.context() as patch:
        patch.setattr(bench.driver, "launch", collected)
        operation.submit()
    assert len(refused) == len(calls)
    assert other.state is tw.State.BUILT
    with pytest.raises(BorrowError):
        bench.build(3, 2)
    bench.driver.log.clear()
    other.submit(bench.streams[2])
    assert order(bench) == ["launch"]
    bench.build_once(bench.tensors[0], bench.tensors[3]).submit(bench.streams[2])
    assert order(bench) == ["launch", "record", "wait", "launch"]
    assert bench.tensors[2].numpy()[0] == 2 * 3 + 3 + 1


@KINDS
def test_a_finaliser_may_launch_while_room_is_made(kind, monkeypatch):
    """Not in a critical section: the borrow of the operation alone stands against it."""
    bench = bench_of(kind)
    x, z = bench.tensors[1], tw.empty(8, f32, device=bench.device)
    if kind is None:
        operation = bench.build_once(z, x)
    else:
        work = Planned(bench.device, bench.function, None)
        work.roles = (Role(tw.Mode.READ, "x"), Role(tw.Mode.UPDATE, "z"))
        operation = build(work, (x, z))
    allocate, tried, refused, other = bench.driver.allocate, [], [], bench.tensors[3]

    def no_room(*args):
        if not tried:
            tried.append(True)
            raise OutOfMemoryError("no room")
        return allocate(*args)

    class Cycle:
        def __del__(self):
            with pytest.raises(BorrowError) as found:
                bench.build_once(x, bench.tensors[2]).submit(bench.streams[1])
            refused.append(found)
            bench.build_once(other, bench.tensors[2]).submit(bench.streams[1])

    cycle = Cycle()
    cycle.itself = cycle
    del cycle
    monkeypatch.setattr(bench.driver, "allocate", no_room)
    operation.submit()
    assert refused
    bench.build_once(x, bench.tensors[2]).close()
    assert other.numpy()[0] == 3 * 3 + 2 + 1


@KINDS
def test_garbage_that_builds_something_when_it_goes(kind):
    """A refusal collects garbage first; an operation that this builds is seen as well."""
    bench = bench_of(kind)

    class Cycle:
        def __init__(self, held):
            self.itself, self.held = self, held

        def __del__(self):
            built.append(bench.build(0, 2))

    built = []
    Cycle(bench.build(3, 1))
    with pytest.raises(BorrowError), pytest.warns(RuntimeWarning, match="was never run"):
        bench.build_once(bench.tensors[0], bench.tensors[3])
    built.pop().close()
    bench.build_once(bench.tensors[0], bench.tensors[3]).close()


def test_what_a_stream_ends_may_have_it_end_more():
    stream = bench_of(Bound).device.stream
    with stream.device.lock:
        stream.keep(Ended(stream.settle), 100)
        stream.keep(Ended(lambda: None), 50)
        stream.advance()
        stream.settle()
    assert not stream.has_loose_ends
    assert stream.kept_bytes == 0


# --- signals --------------------------------------------------------------------------------------


def watch(stream, seen):
    """Call a function whenever the queue of a stream hears of another operation."""

    class Watched(type(stream.queue)):
        @property
        def marked(self):
            return vars(self)["count"]

        @marked.setter
        def marked(self, count):
            vars(self)["count"] = count
            seen(count)

    vars(stream.queue)["count"] = vars(stream.queue).pop("marked")
    stream.queue.__class__ = Watched


@KINDS
@pytest.mark.parametrize("target", [0, 2], ids=["used before", "used first"])
def test_a_launch_counts_as_submitted_if_a_signal_comes_behind_it(kind, target):
    bench = bench_of(kind)
    operation, has_come = bench.build(target, 1), []

    def interrupt(_):
        if not has_come:
            has_come.append(True)
            raise KeyboardInterrupt

    watch(bench.streams[0], interrupt)
    with pytest.raises(KeyboardInterrupt):
        operation.submit()
    assert operation.state is tw.State.SUBMITTED
    bench.build(3, target).close()  # its output can be read
    bench.driver.log.clear()
    z = bench.tensors[target]
    bench.build_once(z, bench.tensors[3], writes).submit(bench.streams[1])
    assert order(bench) == ["record", "wait", "launch"]
    assert bench.streams[1].waited[bench.streams[0]] == bench.streams[0].issued
    operation.sync()


@KINDS
def test_a_launch_is_not_trusted_if_a_signal_comes_in_the_drivers_call(kind, monkeypatch):
    """The driver may have taken it: later work is ordered behind it, and readers are told."""
    bench = bench_of(kind)
    launch = bench.driver.launch

    def interrupted(*args):
        launch(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bench.driver, "launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bench.build(0, 1).submit()
    with pytest.raises(LaunchError, match="the launch was interrupted"):
        bench.build(2, 0)
    bench.driver.log.clear()
    z, x = bench.tensors[0], bench.tensors[2]
    bench.build_once(z, x, writes).submit(bench.streams[1])
    assert order(bench) == ["record", "wait", "launch"]
    assert bench.streams[1].waited[bench.streams[0]] == bench.streams[0].issued
    bench.build(2, 1).close()


# --- two at once ----------------------------------------------------------------------------------


@KINDS
def test_a_step_that_was_submitted_meanwhile_runs_once(kind):
    bench = bench_of(kind)
    operation = bench.build(0, 1)
    operation.submit()
    bench.driver.log.clear()
    with pytest.raises(LaunchError, match="was submitted already"):
        operation.put_part(bench.streams[0], Ends())
    assert order(bench) == []


@KINDS
def test_an_operation_that_was_issued_can_be_waited_for(kind):
    """The queue hears of it first: another thread that sees the count may wait at once."""
    bench = bench_of(kind)
    stream, seen = bench.streams[0], []
    watch(stream, lambda count: seen.append(stream.issued < count))
    for _ in range(3):
        bench.build(0, 1).submit()
        stream.advance()
        assert stream.issued == stream.queue.marked
    assert all(seen)
    assert len(seen) == 6


# --- contents that could not be made --------------------------------------------------------------


@pytest.mark.parametrize("again_on", [1, 2])
def test_contents_that_failed_are_made_again(driver, cuda, again_on):
    """In other memory: that of the first try goes back behind the work that it may have."""
    streams, calls = [cuda.new_stream() for _ in range(3)], []

    def initialise(tensor, stream):
        calls.append(tensor.storage)
        tw.fill(tensor, 1).submit(stream)
        if len(calls) == 1:
            raise OSError("there is no assembler")

    tensor = fill_by(8, f32, initialise)
    with pytest.raises(OSError, match="no assembler"):
        tw.fill(tensor, 3).submit(streams[1])
    assert tensor.storage.is_lazy
    driver.log.clear()
    tw.fill(tensor[:4], 3).submit(streams[again_on])
    assert [entry[0] for entry in driver.calls("wait", "fill")] == ["fill", "fill"]
    assert tensor.storage not in calls
    assert tensor.address not in (calls[0].address, 0)
    assert tensor.numpy().tolist() == [3.0] * 4 + [1.0] * 4


def test_a_fill_that_failed_is_made_again_in_order(driver, cuda, monkeypatch):
    fill, tried = driver.fill, []

    def fail(*args):
        if not tried:
            tried.append(True)
            raise OSError("no")
        fill(*args)

    monkeypatch.setattr(driver, "fill", fail)
    tensor, target = tw.full(8, 2, f32), tw.empty(8, f32)
    first, second, third = (cuda.new_stream() for _ in range(3))
    with pytest.raises(OSError, match="no"):
        tw.copy(target, tensor).submit(first)
    driver.log.clear()
    tw.copy(target, tensor).submit(second)
    tw.fill(tensor, 1).submit(third)
    names = [entry[0] for entry in driver.calls("wait", "fill", "copy")]
    assert names == ["wait", "fill", "copy", "wait", "fill"]

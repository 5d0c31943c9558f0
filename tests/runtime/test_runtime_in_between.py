"""What happens in the middle of a submission: finalisers that launch, signals, contents that fail.

A GPU on paper. Whatever comes in between, borrows stay until fences have taken their place, and
what may have been put on a stream is ordered.
"""

from __future__ import annotations

import pytest
from ready_bench import Bench, Launch, Newcomers, Planned, Ready
from runtime_doubles import reads, updates, writes
from tilewright.runtime.ops.newcomers import NewcomerOp
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.order.tickets import Role

from tilewright import runtime as tw
from tilewright.dtypes import f32
from tilewright.errors import BorrowError, LaunchError, OutOfMemoryError
from tilewright.runtime.graphs.graph import graph
from tilewright.runtime.memory.creation import fill_by
from tilewright.runtime.ops.lifecycle import Ends
from tilewright.runtime.ops.zip import zip_operations

WAYS = pytest.mark.parametrize("way", [Ready, Newcomers, None], ids=["again", "new", "long"])


class Ended:
    """Something that does as it likes when it ends."""

    def __init__(self, act):
        self.act = act

    def __del__(self):
        self.act()


class Interrupted:
    """Stands for a fence; a signal arrives when it is to be moved on."""

    def __init__(self, fence):
        vars(self).update(fence=fence, has_come=False)

    def __setattr__(self, name, value):
        if not self.has_come:
            vars(self)["has_come"] = True
            raise KeyboardInterrupt
        setattr(self.fence, name, value)

    def __getattr__(self, name):
        return getattr(self.fence, name)


def bench_of(way):
    """Launches on the first two tensors have been made before, and are over."""
    bench = Bench(0, way)
    for _ in range(3):
        bench.build(0, 1).submit()
    bench.device.stream.sync()
    return bench


def long_way(bench, z, x, mode=updates):
    accesses = (mode(z), reads(x))
    return tw.make_operation("mix", bench.device, accesses, Launch(bench.function, (z, x)), None)


def order(bench):
    return [entry[0] for entry in bench.driver.calls("launch", "record", "wait")]


def keep(stream, thing):
    """Have the stream end something by the time it is submitted to."""
    with stream.device.lock:
        stream.keep(thing)
        stream.advance()
    stream.queue.completed()


# --- finalisers that launch -----------------------------------------------------------------------


@WAYS
def test_what_a_submission_ends_may_build_an_operation(way):
    bench = bench_of(way)
    built = []
    operation = bench.build(0, 1)
    keep(bench.device.stream, Ended(lambda: built.append(bench.build(2, 3))))
    operation.submit()
    with pytest.raises(BorrowError):
        bench.build(2, 3)
    built.pop().close()
    bench.build(2, 3).close()
    bench.build(0, 1).close()


@WAYS
def test_what_a_submission_ends_may_not_write_what_it_reads(way):
    bench = bench_of(way)
    refused = []

    def write():
        with pytest.raises(BorrowError) as found:
            bench.build(1, 2).submit(bench.streams[1])
        refused.append(found)

    operation = bench.build(0, 1)
    keep(bench.device.stream, Ended(write))
    operation.submit()
    assert refused


@pytest.mark.parametrize("way", [Ready, Newcomers], ids=["again", "new"])
def test_a_finaliser_may_run_during_the_launch_itself(way, monkeypatch):
    """The collector runs where it likes: another reader comes, and a writer does not."""
    bench = bench_of(way)
    operation = bench.build(0, 1)
    launch, done = bench.driver.launch, []

    def collected(*args):
        if not done:
            done.append(True)
            with pytest.raises(BorrowError):
                long_way(bench, bench.tensors[1], bench.tensors[2])
            bench.build(2, 1).submit(bench.streams[1])
        launch(*args)

    monkeypatch.setattr(bench.driver, "launch", collected)
    operation.submit()
    assert done
    bench.driver.log.clear()
    long_way(bench, bench.tensors[1], bench.tensors[3]).submit(bench.streams[2])
    assert order(bench) == ["record", "wait", "record", "wait", "launch"]  # for both readers


@pytest.mark.parametrize("kind", [ReadyOp, NewcomerOp, None])
def test_a_finaliser_may_launch_while_room_is_made(kind, monkeypatch):
    """For an output, behind an input that somebody would like to write elsewhere."""
    bench = bench_of(Newcomers)
    x, z = bench.tensors[1], tw.empty(8, f32, device=bench.device)
    if kind is None:
        accesses = (reads(x), updates(z))
        work = Launch(bench.function, (z, x))
        operation = tw.make_operation("mix", bench.device, accesses, work, None)
    else:
        work = Planned(bench.device, bench.function, None)
        work.roles = (Role(tw.Mode.READ, "x"), Role(tw.Mode.UPDATE, "z"))
        operation = kind().build(work, (x, z), None, depth=1)
    allocate, tried, refused = bench.driver.allocate, [], []

    def no_room(*args):
        if not tried:
            tried.append(True)
            raise OutOfMemoryError("no room")
        return allocate(*args)

    class Cycle:
        def __del__(self):
            with pytest.raises(BorrowError) as found:
                long_way(bench, x, bench.tensors[2]).submit(bench.streams[1])
            refused.append(found)

    cycle = Cycle()
    cycle.itself = cycle
    del cycle
    monkeypatch.setattr(bench.driver, "allocate", no_room)
    operation.submit()
    assert refused
    long_way(bench, x, bench.tensors[2]).close()


@WAYS
def test_garbage_that_builds_something_when_it_goes(way):
    """A refusal collects what only garbage holds; that is not to take what was looked at before."""
    bench = bench_of(way)

    class Cycle:
        def __init__(self, held):
            self.itself, self.held = self, held

        def __del__(self):
            built.append(bench.build(0, 2))

    built = []
    Cycle(bench.build(3, 1))
    with pytest.raises(BorrowError), pytest.warns(RuntimeWarning, match="was never run"):
        long_way(bench, bench.tensors[0], bench.tensors[3])
    built.pop().close()
    long_way(bench, bench.tensors[0], bench.tensors[3]).close()


def test_what_a_stream_ends_may_have_it_end_more():
    stream = bench_of(Ready).device.stream
    with stream.device.lock:
        stream.keep(Ended(stream.settle), 100)
        stream.keep(Ended(lambda: None), 50)
        stream.advance()
        stream.settle()
    assert not stream.has_loose_ends
    assert stream.kept_bytes == 0


# --- signals --------------------------------------------------------------------------------------


def check_ordered(bench):
    """What was interrupted may run: a write elsewhere waits for it, and nobody trusts it."""
    bench.driver.log.clear()
    with pytest.raises(LaunchError, match="the launch was interrupted"):
        bench.build(2, 0)
    long_way(bench, bench.tensors[0], bench.tensors[2], writes).submit(bench.streams[1])
    assert order(bench) == ["record", "wait", "launch"]
    assert bench.streams[1].waited[bench.streams[0]] == bench.streams[0].issued
    bench.build(2, 1).close()


def test_a_signal_behind_a_prepared_launch():
    bench = bench_of(Ready)
    work = bench._works[0, 1]
    work.fences = tuple(map(Interrupted, work.fences))
    with pytest.raises(KeyboardInterrupt):
        bench.build(0, 1).submit()
    check_ordered(bench)


def test_a_signal_behind_a_launch_of_new_tensors():
    bench = bench_of(Newcomers)
    operation = bench.build(0, 1)

    def interrupted(*_):
        raise KeyboardInterrupt

    operation._ready.each = operation._ready.each._replace(leave=interrupted)
    with pytest.raises(KeyboardInterrupt):
        operation.submit()
    check_ordered(bench)


def test_a_signal_behind_another_launch():
    bench = bench_of(None)
    operation = bench.build(0, 1)

    class Roles(tuple):
        """A signal arrives when they are looked at behind the launch."""

        def __iter__(self):
            if bench.driver.calls("launch"):
                bench.driver.log.clear()
                raise KeyboardInterrupt
            return super().__iter__()

    bench.driver.log.clear()
    operation.ticket.roles = Roles(operation.ticket.roles)
    with pytest.raises(KeyboardInterrupt):
        operation.submit()
    assert operation.state.value == "submitted"  # its fences were left all the same
    bench.build(2, 0).close()
    bench.driver.log.clear()
    long_way(bench, bench.tensors[0], bench.tensors[2], writes).submit(bench.streams[1])
    assert order(bench) == ["record", "wait", "launch"]


def test_a_signal_behind_the_launches_of_a_zip():
    bench = bench_of(Ready)
    operation = zip_operations(bench.build(0, 1), bench.build(2, 3))
    places = operation._batch._places
    places[0] = places[0]._replace(fence=Interrupted(places[0].fence))
    with pytest.raises(KeyboardInterrupt):
        operation.submit()
    bench.driver.log.clear()
    with pytest.raises(LaunchError, match="the launch was interrupted"):
        bench.build(3, 2)  # what the last of them wrote
    for tensor in bench.tensors:
        fences = [use.fence for use in (*tensor.storage._writes, *tensor.storage._reads)]
        assert max(fence.count for fence in fences) >= bench.streams[0].issued - 1
    bench.build(0, 1).close()


def test_a_signal_behind_a_replay(cuda, driver):
    x, z, other = (tw.full(8, n, f32) for n in range(3))
    with graph() as recorded:
        recorded.record(tw.copy(z, x))
    for _ in range(2):  # the second one follows at once
        recorded.launch().submit()
    cuda.stream.sync()
    lease = recorded._built.access
    lease.stamp = Interrupted(lease.stamp)
    with pytest.raises(KeyboardInterrupt):
        recorded.launch().submit()
    with pytest.raises(LaunchError, match="the launch was interrupted"):
        tw.copy(other, z)
    driver.log.clear()
    tw.fill(z, 1).submit(cuda.new_stream())
    assert [entry[0] for entry in driver.calls("wait", "fill")] == ["wait", "fill"]


# --- two at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [Ready, None])
def test_a_step_that_somebody_else_submits_meanwhile_runs_once(way):
    bench = bench_of(way)
    operation = bench.build(0, 1)
    operation.submit()
    bench.driver.log.clear()
    with pytest.raises(LaunchError, match="was submitted already"):
        operation.put_part(bench.streams[0], Ends())
    assert order(bench) == []


@WAYS
def test_whoever_sees_what_was_issued_may_wait_for_it(way):
    bench = bench_of(way)
    stream, seen = bench.streams[0], []

    class Watched(type(stream.queue)):
        """Nobody can have seen an operation of which the queue has not heard."""

        @property
        def marked(self):
            return vars(self)["count"]

        @marked.setter
        def marked(self, count):
            vars(self)["count"] = count
            seen.append(stream.issued < count)

    vars(stream.queue)["count"] = vars(stream.queue).pop("marked")
    stream.queue.__class__ = Watched
    for _ in range(3):
        bench.build(0, 1).submit()
        stream.advance()
        assert stream.issued == stream.queue.marked
    assert all(seen)
    assert len(seen) == 6


# --- contents that could not be made --------------------------------------------------------------


@pytest.mark.parametrize("again_on", [1, 2])
def test_memory_whose_contents_failed_is_ordered_behind_its_allocation(driver, cuda, again_on):
    streams, calls = [cuda.new_stream() for _ in range(3)], []

    def initialise(tensor, stream):
        calls.append(stream)
        if len(calls) == 1:
            raise OSError("there is no assembler")
        tw.fill(tensor, 1).submit(stream)

    tensor = fill_by(8, f32, initialise)
    with pytest.raises(OSError, match="no assembler"):
        tw.fill(tensor, 3).submit(streams[1])
    driver.log.clear()
    tw.fill(tensor, 3).submit(streams[again_on])
    names = [entry[0] for entry in driver.calls("wait", "fill")]
    assert names == [*(["wait"] if again_on == 2 else []), "fill", "fill"]
    assert tensor.numpy().tolist() == [3.0] * 8


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

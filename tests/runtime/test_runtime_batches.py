"""Zips of launches that are ready: all at once, and in nothing different from one by one."""

from __future__ import annotations

import gc

import pytest
from ready_bench import Bench, Newcomers, Planned, Ready

from tilewright import runtime as tw
from tilewright.errors import BorrowError, DriverError, LaunchError
from tilewright.runtime.ops.batches import make_batch
from tilewright.runtime.ops.zip import zip_operations


@pytest.fixture(params=[Ready, Planned, Newcomers])
def bench(request):
    made = Bench(0, request.param)
    for z, x in ((0, 1), (2, 1)):
        made.build(z, x).submit()
    return made


def build_parts(bench):
    return bench.build(0, 1), bench.build(2, 1)


def launches(bench):
    return len(bench.driver.calls("launch"))


def test_all_are_launched_and_nothing_waits(bench):
    before, parts = launches(bench), build_parts(bench)
    whole = zip_operations(*parts)
    assert launches(bench) == before
    assert whole.submit().sync() == (None, None)
    assert launches(bench) == before + 2
    assert bench.driver.calls("wait", "record") == []
    assert [part.done for part in parts] == [True, True]
    with pytest.raises(LaunchError, match="handed its result over already"):
        parts[0].sync()
    assert bench.tensors[0].numpy()[0] == (0 * 3 + 2) * 3 + 2


def test_whoever_sees_that_a_part_is_submitted_sees_where_it_ends(bench):
    parts, seen = build_parts(bench), []

    class Watched(type(parts[0])):
        __slots__ = ()

        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if self.state is tw.State.SUBMITTED:
                seen.append(bool(self.fence))

    whole = zip_operations(*parts)
    for part in parts:
        part.__class__ = Watched
    whole.submit()
    assert seen
    assert all(seen)


def test_whatever_is_ready_at_home_goes_as_one(bench):
    parts = build_parts(bench)
    batch = make_batch(parts, "both")
    assert batch is not None
    batch.dissolve()
    bench.tensors[3].storage.home = None
    elsewhere = bench.build(3, 1)
    assert make_batch((elsewhere,), "one") is None
    for operation in (*parts, elsewhere):
        operation.close()


def test_what_comes_behind_on_another_stream_waits_for_all(bench):
    zip_operations(*build_parts(bench)).submit()
    bench.build(3, 2).submit(bench.streams[1])
    assert len(bench.driver.calls("wait")) == 1
    assert bench.tensors[3].numpy()[0] == 3 * 3 + bench.tensors[2].numpy()[0] + 1


@pytest.mark.parametrize("is_submitted", [True, False])
def test_a_built_one_holds_everything_until_it_runs(bench, is_submitted):
    whole = zip_operations(*build_parts(bench))
    for tensor in (bench.tensors[0], bench.tensors[2]):
        with pytest.raises(BorrowError, match=r"mix, built at .*ready_bench.py:\d+, holds z"):
            tensor.numpy()
    with pytest.raises(BorrowError):
        bench.build(1, 3)
    bench.build(3, 1).submit()  # another reader
    if is_submitted:
        whole.submit()
    else:
        whole.close()
    bench.build(1, 3).submit()
    bench.build(0, 1).submit()
    assert not any(tensor.storage.borrows for tensor in bench.tensors)


def test_a_dropped_one_gives_its_borrows_back(bench):
    whole = zip_operations(*build_parts(bench))
    with pytest.warns(RuntimeWarning, match="was never run"):
        del whole
    gc.collect()
    bench.build(0, 1).submit()
    assert not any(tensor.storage.borrows for tensor in bench.tensors)


def submit_elsewhere(bench):
    bench.build(3, 1).submit(bench.streams[1])


def leave_a_note(bench):
    dropped = bench.build(3, 1)
    with pytest.warns(RuntimeWarning, match="was never run"):
        del dropped


def record_a_reader(bench):
    with tw.graph() as made:
        made.record(bench.build(3, 1))
    bench.kept.append((made.launch().submit(), None))


@pytest.mark.parametrize("change", [submit_elsewhere, leave_a_note, record_a_reader])
def test_what_happens_meanwhile_is_seen(change):
    found = []
    for kind in (Ready, Planned, None):
        bench = Bench(0, kind)
        for z, x in ((0, 1), (2, 1)):
            bench.build(z, x).submit()
        whole = zip_operations(*build_parts(bench))
        change(bench)
        whole.submit()
        calls = bench.driver.calls("launch", "wait", "record", "launch_graph")
        found.append([(entry[0], *map(str, entry[1:])) for entry in calls])
    assert found[0] == found[1] == found[2]


def test_on_another_stream_they_are_ordered(bench):
    zip_operations(*build_parts(bench)).submit(bench.streams[1])
    assert len(bench.driver.calls("wait")) == 1
    assert bench.tensors[0].storage.home is not bench.streams[0]


def test_a_launch_that_fails_stops_those_behind_it(bench):
    ready = bench.build(2, 1)
    ready.close()
    parts = bench.build(0, 1), bench.build(2, 1), bench.build(3, 1)
    works, bench._works[2, 1].launch = bench._works[2, 1].launch, fail
    whole = zip_operations(*parts)
    before = launches(bench)
    with pytest.raises(DriverError, match="no"):
        whole.submit()
    bench._works[2, 1].launch = works
    assert launches(bench) == before + 1
    assert [part.state for part in parts] == [
        tw.State.SUBMITTED, tw.State.FAILED, tw.State.FAILED,
    ]  # fmt: skip
    assert bench.tensors[0].numpy()[0] == 8
    with pytest.raises(DriverError, match="no"):
        bench.tensors[2].numpy()
    assert bench.tensors[3].numpy()[0] == 3
    assert not any(tensor.storage.borrows for tensor in bench.tensors)
    bench.build(3, 1).submit()


def fail(*_):
    raise DriverError("no")


def test_in_a_chain_in_another_zip_and_in_a_graph(bench):
    inner = zip_operations(*build_parts(bench))
    zip_operations(inner, bench.build(3, 1)).submit()
    chain = bench.build(3, 1).then(lambda _: zip_operations(*build_parts(bench)))
    assert chain.sync() == (None, None)
    with tw.graph() as made:
        made.record(zip_operations(*build_parts(bench)))
    assert len(made) == 2
    assert not any(tensor.storage.borrows for tensor in bench.tensors)


def test_inside_a_block_that_records_it_is_looked_at(bench):
    whole = zip_operations(*build_parts(bench))
    with tw.graph() as made:
        made.record(bench.build(3, 1))
        whole.submit()  # which has nothing to do with what is recorded
    made.launch().submit()
    with tw.graph() as made:
        made.record(bench.build(1, 3))
        whole = zip_operations(*build_parts(bench))
        with pytest.raises(LaunchError, match="recording runs nothing"):
            whole.submit()


def test_a_forked_child_is_refused(bench):
    whole = zip_operations(*build_parts(bench))
    bench.device.restart()
    with pytest.raises(DriverError, match="CUDA does not survive a fork"):
        whole.submit()

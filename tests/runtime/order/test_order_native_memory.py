"""Launches by the hundred thousand leave no object and no reference behind."""

import gc
import sys

import pytest
from launch_bench import Bench, Bound

import tilewright as tw
from tilewright import native
from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.ops.lifecycle import State

pytestmark = pytest.mark.skipif(
    native.EXTENSION is None, reason=f"launches run in Python: {native.WHY_NOT}"
)
COUNT = 100_000


class Silent(Bound):
    """A launch that does not reach the driver."""

    def _prepare(self, function, tensors):
        return lambda stream, tensors: None


class Broken(Exception):
    """The failure of a driver's call."""


def submitted(bench):
    bench.build(0, 1).submit()


def closed(bench):
    bench.build(0, 1).close()


def refused(bench):
    first = bench.build(0, 1)
    with pytest.raises(BorrowError, match="holds z for writing"):
        bench.build(0, 2)
    with pytest.raises(LaunchError, match="submitted already"):
        first.submit().submit()


def failing(bench):
    operation = bench.build(0, 1)
    launch, operation.work.launch = operation.work.launch, raises
    with pytest.raises(Broken):
        operation.submit()
    operation.work.launch = launch
    assert operation.state is State.FAILED
    tw.fill(bench.tensors[0], 1.0).submit()  # writes it again
    bench.device.synchronize()
    bench.driver.log.clear()


def raises(*_):
    raise Broken


def held(bench):
    """References to objects that every launch touches."""
    timelines = [tensor.storage.timeline for tensor in bench.tensors]
    kept = [None, State.BUILT, State.CLOSED, State.SUBMITTED, (), True, bench.device, *timelines]
    return [sys.getrefcount(one) for one in [*kept, *bench.tensors, *bench.streams]]


@pytest.mark.parametrize(
    ("change", "count"),
    [(submitted, COUNT), (closed, COUNT // 5), (refused, COUNT // 50), (failing, COUNT // 100)],
)
def test_launches_leave_nothing_behind(change, count):
    bench = Bench(3, Silent)
    for _ in range(300):
        change(bench)
    bench.device.synchronize()
    gc.collect()
    blocks, references = sys.getallocatedblocks(), held(bench)
    for _ in range(count):
        change(bench)
    bench.device.synchronize()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 200
    grown = [after - before for before, after in zip(references, held(bench), strict=True)]
    assert max(map(abs, grown)) < 50, grown


def test_launches_on_torch_tensors_leave_nothing_behind(driver, monkeypatch):
    pytest.importorskip("torch", reason="needs torch")
    import torch_doubles as doubles

    lib, _ = doubles.set_up(driver, monkeypatch), doubles.Allocator(monkeypatch)
    tensors = lib.bound()

    def launch_many(count):
        for _ in range(count):
            lib.launch(*tensors).submit()
        tw.Device("cuda").synchronize()
        driver.log.clear()
        gc.collect()

    launch_many(500)
    blocks, references = sys.getallocatedblocks(), [sys.getrefcount(one) for one in tensors]
    for _ in range(10):
        launch_many(500)
    assert sys.getallocatedblocks() - blocks < 2500  # the driver on paper keeps some
    assert [sys.getrefcount(one) for one in tensors] == references

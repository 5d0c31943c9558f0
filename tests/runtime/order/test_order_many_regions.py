"""Launches over and over on many parts of one memory: every one of them is waited for."""

from __future__ import annotations

import pytest
from launch_bench import Bench, Bound, Planned
from torch_doubles import SIZE

import tilewright as tw
from tilewright import f32

torch = pytest.importorskip("torch", reason="needs torch")
ROWS = 40  # more than are kept before it is looked whether they have passed


@pytest.fixture
def rows(lib):
    whole = tw.zeros(ROWS * SIZE, f32)
    return [whole[SIZE * n : SIZE * n + SIZE] for n in range(ROWS)]


def launch(lib, row):
    return lib.add(row.partition(SIZE), lib.ones, lib.ones)


def not_waited_for(lib, cuda, rows):
    """The rows that another stream reads at once, though they are being written."""
    found = []
    for number, row in enumerate(rows):
        other, z = cuda.new_stream(), tw.zeros(SIZE, f32)
        lib.driver.log.clear()
        lib.add(z.partition(SIZE), row, lib.ones).submit(other)
        waits = [entry[1:3] for entry in lib.driver.log if entry[0] == "wait"]
        if (other.queue.handle, cuda.stream.queue.handle) not in waits:
            found.append(number)
    return found


@pytest.mark.parametrize("is_zipped", [False, True])
def test_rows_of_one_tensor(lib, cuda, rows, is_zipped):
    lib.ones = tw.ones(SIZE, f32)

    def write_all():
        operations = (launch(lib, row) for row in rows)
        if is_zipped:
            tw.zip(*operations).submit()
        else:
            for operation in operations:
                operation.submit()

    for _ in range(4):
        write_all()
    lib.finish()
    tw.synchronize()
    hold = cuda.stream.hold()
    write_all()
    assert not_waited_for(lib, cuda, rows) == []
    hold.release()
    tw.synchronize()


@pytest.mark.parametrize("kind", [Bound, Planned])
def test_zips_that_never_run_leave_no_use(kind):
    bench = Bench(0, kind)
    bench.build(0, 1).submit()
    timelines = [tensor.storage.timeline for tensor in bench.tensors]
    before = [[*timeline.uses] for timeline in timelines]
    for _ in range(100):
        tw.zip(bench.build(0, 1), bench.build(2, 3)).close()
    assert [timeline.uses for timeline in timelines] == before
    assert [timeline.held for timeline in timelines] == [None] * 4

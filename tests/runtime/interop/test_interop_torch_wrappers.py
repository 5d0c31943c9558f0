"""Wrappers of torch tensors: their ranges end, merge and are forgotten, and the order stays."""

from __future__ import annotations

import gc
import weakref

import pytest
from torch_doubles import SIZE

import tilewright as tw
from tilewright.runtime.interop import foreign, passed

torch = pytest.importorskip("torch", reason="needs torch")


def end_ranges(lib, cuda):
    """Let all work end, and all ranges that nothing uses with it."""
    lib.finish()
    tw.synchronize()
    with cuda.lock:
        for group in list(foreign.RANGES.groups):
            foreign.RANGES.end(group)


def waits_for(lib, act, stream):
    """Whether work on a new stream of torch's waits for another."""
    lib.stream = lib.driver.create_stream()
    lib.driver.log.clear()
    act()
    return ("wait", lib.stream, stream) in lib.order()


def test_a_range_that_ended_between_two_launches(lib, cuda):
    """The uses that the wrapper keeps are recorded again where others look for them."""
    z, x, y = lib.bound()
    end_ranges(lib, cuda)
    assert foreign.RANGES.groups == []
    lib.launch(z, x, y).submit()
    first, other = lib.stream, torch.zeros(SIZE)
    assert waits_for(lib, lambda: lib.launch(other, z[:], y).submit(), first)


def test_a_partition_whose_range_has_ended(lib, cuda):
    z, x, y = lib.bound()
    cut = tw.partition(z, SIZE)
    walked = tw.partition(z, SIZE).persistent()
    end_ranges(lib, cuda)
    lib.add(cut, x, y).submit()
    first = lib.stream
    assert walked.tensor.address == z.data_ptr()
    assert waits_for(lib, lambda: lib.launch(x, z, y).submit(), first)


def test_a_partition_whose_range_an_overlapping_one_has_replaced(lib, cuda):
    lib.bound(2 * SIZE)
    _, x, y = lib.bound()
    place, wide = torch.zeros(2 * SIZE), [torch.ones(2 * SIZE) for _ in range(2)]
    cut = tw.partition(place[:SIZE], SIZE)
    lib.launch(place, *wide).submit()  # which lies otherwise
    first = lib.stream
    lib.stream = second = lib.driver.create_stream()
    lib.driver.log.clear()
    lib.add(cut, x, y).submit()
    assert ("wait", second, first) in lib.order()
    assert waits_for(lib, lambda: lib.launch(place, *wide).submit(), second)


@pytest.mark.parametrize("is_cut_before", [False, True])
def test_an_overlap_is_refused_though_nothing_runs_there(lib, cuda, is_cut_before):
    """The range of the output ends when that of the input comes."""
    _, _, y = lib.bound()
    place = torch.zeros(2 * SIZE)
    z, x = place[:SIZE], place[SIZE // 2 : SIZE // 2 + SIZE]
    cut = tw.partition(z, SIZE)
    if is_cut_before:
        lib.launch(y, x, torch.ones(SIZE)).close()
        end_ranges(lib, cuda)
    with pytest.raises(tw.BorrowError, match="z is written by this launch and also read by it"):
        lib.add(cut, x, y)
    lib.add(cut, place[SIZE:], y).close()


def test_a_built_operation_keeps_its_tensors(lib):
    for make in (lib.bound, lib.trio):
        tensors = make()
        memory = [weakref.ref(one.untyped_storage()) for one in tensors]
        operation = lib.launch(*tensors)
        del tensors
        gc.collect()
        assert None not in [one() for one in memory]
        operation.submit()
        lib.finish()


def test_wrappers_forgotten_while_an_operation_is_built(lib, monkeypatch):
    z, x, y = lib.bound()
    operation = lib.launch(z, x, y)
    monkeypatch.setattr(passed, "_MANY", 1)
    others = [torch.zeros(SIZE) for _ in range(3)]
    for other in others:
        lib.launch(other, x, y).close()
    assert passed.wrapped(others[0]) is not None
    with pytest.raises(tw.BorrowError, match="their order is not stated"):
        lib.launch(z, x, y)
    operation.submit()
    first = lib.stream
    assert waits_for(lib, lambda: lib.launch(others[0], z, y).submit(), first)


def test_ranges_of_forgotten_wrappers_go(lib, cuda, monkeypatch):
    monkeypatch.setattr(foreign, "MANY_LEFT", 8)
    monkeypatch.setattr(passed, "_MANY", 8)
    _, x, y = lib.bound()
    kept = [torch.zeros(SIZE) for _ in range(64)]
    for tensor in kept:
        lib.launch(tensor, x, y).submit()
        lib.finish()
    assert len(foreign.RANGES.groups) <= 32


def test_groups_that_merge_while_an_operation_is_built(lib):
    """The bridge joins both; the operation is found there, and its uses are recorded there."""
    lib.bound(2 * SIZE)
    _, x, y = lib.bound()
    place, wide = torch.zeros(2 * SIZE), [torch.ones(2 * SIZE) for _ in range(2)]
    low, high = place[:SIZE], place[SIZE:]
    operations = [lib.launch(low, x, y), lib.launch(high, x, y)]
    for _ in range(2):
        with pytest.raises(tw.BorrowError, match="their order is not stated"):
            lib.launch(place, *wide)
    for operation in operations:
        operation.submit()
    lib.launch(low, x, y).submit()
    first = lib.stream
    assert waits_for(lib, lambda: lib.launch(place, *wide).submit(), first)


def test_two_tensors_at_one_place(lib):
    """They are one range, and each is given back as itself."""
    z, x, y = lib.bound()
    alias = x[:]
    for kernel in (lib.add, lib.add.grid(1), lib.add.grid(1)):
        given = kernel(tw.partition(z, SIZE), x, alias).sync()
        assert given[1] is x
        assert given[2] is alias
    with pytest.raises(tw.BorrowError, match="z is written by this launch and also read by it"):
        lib.launch(x, alias, y)


@pytest.mark.parametrize("kind", ["cold", "bound"])
def test_a_tensor_cut_down_before_it_is_recorded(lib, kind):
    """The graph has the place that the operation was built for."""
    z, x, y = lib.bound() if kind == "bound" else lib.trio()
    operation = lib.launch(z, x, y)
    tail = z[SIZE // 2 :]
    z.resize_(SIZE // 4)
    with tw.graph() as graph:
        graph.record(operation)
    replay = graph.launch()
    other = torch.zeros(SIZE // 2)
    with pytest.raises(tw.BorrowError, match="their order is not stated"):
        lib.add(tw.partition(other, SIZE // 2), tail, tail)
    replay.submit()
    lib.finish()
    assert tail.tolist() == [7.0] * (SIZE // 2)


@pytest.mark.parametrize("kind", ["cold", "bound"])
def test_a_tensor_that_moves_before_it_is_recorded(lib, kind):
    z, x, y = lib.bound() if kind == "bound" else lib.trio()
    operation = lib.launch(z, x, y)
    z.data = torch.zeros(SIZE)
    with (
        pytest.raises(tw.BorrowError, match="has been moved or resized since"),
        tw.graph() as graph,
    ):
        graph.record(operation)


def test_a_graph_keeps_its_tensors(lib):
    z, x, y = lib.bound()
    with tw.graph() as graph:
        graph.record(lib.launch(z, x, y))
    memory = [weakref.ref(one) for one in (x, y)]
    del x, y
    gc.collect()
    graph.launch().submit()
    lib.finish()
    assert z.tolist() == [7.0] * SIZE
    assert None not in [one() for one in memory]


def test_an_interrupt_behind_the_launch_leaves_the_tensors_kept(lib, monkeypatch):
    tensors = lib.bound()
    version = tensors[0]._version
    memory = [weakref.ref(one.untyped_storage()) for one in tensors]
    operation = lib.launch(*tensors)
    launch = operation.work.launch

    def interrupted(*given):
        launch(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(operation.work, "launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            operation.submit()
    assert tensors[0]._version == version + 1
    del tensors, operation
    gc.collect()
    assert None not in [one() for one in memory]
    lib.finish()

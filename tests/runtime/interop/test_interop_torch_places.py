"""Memory that torch gives out again and again: launches are found by where a tensor lies."""

from __future__ import annotations

import gc

import pytest
from torch_doubles import SIZE, way

import tilewright as tw

torch = pytest.importorskip("torch", reason="needs torch")


def test_memory_that_comes_back_finds_bound_launches(lib):
    """As it does in every step of a loop; the objects are new."""
    _, x, y = lib.bound()
    place = torch.zeros(SIZE)
    for expected in ("plan", "bound", "bound", "bound"):
        operation = lib.launch(place[:], x, y)
        assert way(operation) == expected
        operation.submit()
        gc.collect()
    assert lib.order() == [("launch", lib.stream, "plain_add")] * 4
    assert place._version == 4
    lib.finish()
    assert place.tolist() == [7.0] * SIZE


def test_memory_that_comes_back_as_something_else(lib):
    _, x, y = lib.bound(2 * SIZE)
    place = torch.zeros(4 * SIZE)
    wanted = x + y
    for _ in range(4):
        for view in (place[: 2 * SIZE], place[SIZE : 3 * SIZE], place[2 * SIZE :]):
            lib.launch(view, x, y).submit()
            lib.finish()
            assert torch.equal(view, wanted)
        del view
        gc.collect()


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_memory_that_comes_back_on_another_stream(lib, is_forgotten):
    """A bound launch is found again, and its uses are recorded where others look for them."""
    _, x, y = lib.bound()
    place, others = torch.zeros(SIZE), [torch.zeros(SIZE) for _ in range(2)]
    for _ in range(4):
        lib.launch(place[:], x, y).submit()
    gc.collect()
    if is_forgotten:
        lib.finish()
        for _ in range(3):
            tw.synchronize()
    first, lib.stream = lib.stream, lib.driver.create_stream()
    lib.driver.log.clear()
    operation = lib.launch(place[:], x, y)
    assert way(operation) == "bound"
    operation.submit()
    second, before = lib.stream, lib.order()
    assert (("wait", second, first) in before) is not is_forgotten
    lib.stream = lib.driver.create_stream()
    lib.driver.log.clear()
    lib.launch(others[0], place[:], y).submit()
    assert ("wait", lib.stream, second) in lib.order()


def test_memory_that_comes_back_when_all_is_forgotten(lib):
    """On the same stream, with nothing else having happened: its uses are new ones."""
    _, x, y = lib.bound()
    place, other = torch.zeros(SIZE), torch.zeros(SIZE)
    for _ in range(4):
        lib.launch(place[:], x, y).submit()
    gc.collect()
    lib.finish()
    for _ in range(3):
        tw.synchronize()
    operation = lib.launch(place[:], x, y)
    assert way(operation) == "bound"
    operation.submit()
    gc.collect()
    first, lib.stream = lib.stream, lib.driver.create_stream()
    lib.driver.log.clear()
    lib.launch(other, place[:], y).submit()
    assert ("wait", lib.stream, first) in lib.order()


def test_new_arrays_of_a_launch_that_was_built_before_a_fork(lib, cuda):
    _, x, y = lib.bound()
    place = torch.zeros(SIZE)
    operation = lib.launch(place, x, y)
    assert way(operation) == "plan"
    cuda.restart()
    lib.driver.log.clear()
    with pytest.raises(tw.DriverError, match="CUDA does not survive a fork"):
        operation.submit()
    assert lib.order() == []


def test_a_new_array_that_moves_before_the_submission(lib):
    _, x, y = lib.bound()
    z = torch.zeros(SIZE)
    operation = lib.launch(z, x, y)
    assert way(operation) == "plan"
    z.data = torch.zeros(SIZE)
    with pytest.raises(tw.BorrowError, match="has been moved or resized since"):
        operation.submit()
    assert lib.order() == []


def test_new_arrays_on_another_stream_than_they_were_built_for(lib):
    _, x, y = lib.bound()
    z = torch.zeros(SIZE)
    operation = lib.launch(z, x, y)
    first, lib.stream = lib.stream, lib.driver.create_stream()
    operation.submit()
    assert [entry[:2] for entry in lib.order() if entry[0] == "launch"] == [("launch", lib.stream)]
    lib.stream = first
    lib.driver.log.clear()
    lib.launch(x, z, y).submit()
    assert any(entry[:2] == ("wait", first) for entry in lib.order())


def test_new_arrays_while_their_library_records(lib):
    _, x, y = lib.bound()
    z = torch.zeros(SIZE)
    operation = lib.launch(z, x, y)
    issued = tw.Device("cuda").adopt_stream(lib.number(0)).issued
    lib.stream.capturing = True
    operation.submit()
    assert [entry[0] for entry in lib.driver.log] == ["launch"]
    assert tw.Device("cuda").adopt_stream(lib.number(0)).issued == issued
    lib.finish()  # the graph keeps no tensor: that is the caller's to do, as for torch's own


def test_a_new_array_that_requires_grad(lib):
    _, x, y = lib.bound()
    z = torch.zeros(SIZE, requires_grad=True)
    with pytest.raises(tw.BorrowError, match="requires grad"):
        lib.launch(z, x, y)
    with torch.no_grad():
        lib.launch(z, x, y).submit()
    assert z._version == 1


def test_a_place_that_was_written_in_between_by_another_form(lib):
    lib.bound(2 * SIZE)
    _, x, y = lib.bound(SIZE)
    place, wide = torch.zeros(2 * SIZE), [torch.ones(2 * SIZE) for _ in range(2)]
    for _ in range(4):
        lib.launch(place[:SIZE], x, y).submit()
    gc.collect()
    lib.finish()
    for _ in range(3):
        tw.synchronize()
    first, lib.stream = lib.stream, lib.driver.create_stream()
    second = lib.stream
    lib.launch(place, *wide).submit()
    lib.stream = first
    lib.driver.log.clear()
    lib.launch(place[:SIZE], x, y).submit()
    assert ("wait", first, second) in lib.order()


def test_a_sole_stream_that_another_form_changes_before_the_submission(lib):
    lib.bound(SIZE)
    _, x, y = lib.bound(2 * SIZE)
    place = torch.zeros(2 * SIZE)
    _, *narrow = lib.trio()
    first = lib.stream
    operation = lib.launch(place, x, y)
    lib.stream = second = lib.driver.create_stream()
    part = tw.partition(place[:SIZE], SIZE)
    lib.stream = first
    operation.submit()
    lib.stream = second
    lib.driver.log.clear()
    lib.add(part, *narrow).submit()
    assert ("wait", second, first) in lib.order()


def test_a_new_tensor_in_a_chain_is_run_by_the_chain_alone(lib):
    _, x, y = lib.bound()
    z = torch.zeros(SIZE)
    operation = lib.launch(z, x, y)
    chain = operation.map(lambda given: given)
    with pytest.raises(tw.LaunchError, match="is part of another operation"):
        operation.submit()
    assert lib.order() == []
    chain.submit()
    assert len(lib.driver.calls("launch")) == 1


def test_an_output_that_only_its_partition_has(lib):
    """The passed view is gone when the operation is submitted; its memory is looked at instead."""
    _, x, y = lib.bound()
    place = torch.zeros(SIZE)
    for _ in range(4):
        lib.launch(place[:], x, y).submit()
    operation = lib.launch(place[:], x, y)
    assert way(operation) == "bound"
    operation.submit()
    assert place._version == 5
    operation = lib.launch(place[:], x, y)
    lib.finish()  # the old memory is freed at once, without a GPU
    place.resize_(1 << 16)  # and the memory that they share is another
    with pytest.raises(tw.BorrowError, match="has been moved or resized since"):
        operation.submit()
    assert lib.order() == [("launch", lib.stream, "plain_add")] * 5

"""Tensors that come to a place where others were: they take over a handle, and nothing else.

The memory is a buffer of the host that torch has one tensor on at a time, each with a version of
its own, as its allocator gives memory out again.
"""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest
from torch_doubles import SIZE, Allocator, way

import tilewright as tw
from tilewright.runtime.interop import passed_arrays
from tilewright.runtime.interop import ranges as foreign_ranges

torch = pytest.importorskip("torch", reason="needs torch")


class Memory:
    """A buffer that is given out again and again."""

    def __init__(self, size=SIZE):
        self._bytes = bytearray(4 * size)

    def take(self, start=0, stop=None, dtype=torch.float32):
        whole = torch.frombuffer(memoryview(self._bytes), dtype=dtype)
        return whole[start:stop] if start or stop else whole


def identity(tensor):
    return id(tw.partition(tensor, SIZE).tensor)


def producer_of(tensor):
    return weakref.ref(tw.partition(tensor, SIZE).tensor.storage.producer)


def refuse(text, error=tw.BorrowError):
    return pytest.raises(error, match=re.escape(text))


@pytest.fixture
def comer(lib):
    """Memory whose first tensor was written by a launch and is gone, and the other tensors."""
    _, x, y = lib.prepared()
    memory = Memory()
    first = memory.take()
    lib.launch(first, x, y).submit()
    seen = identity(first)
    del first
    lib.finish()
    return memory, x, y, seen


def test_the_handle_is_taken_over(lib, comer):
    memory, x, y, seen = comer
    second = memory.take()
    assert identity(second) == seen
    lib.launch(second, x, y).submit()
    lib.finish()
    assert second.tolist() == [7.0] * SIZE


def test_an_output_that_only_its_partition_has(lib):
    """The handle is had again when the operation that has the partition is gone."""
    _, x, y = lib.prepared()
    memory = Memory()
    tensor = memory.take()
    place = tw.partition(tensor, SIZE).tensor.storage.origin
    del tensor
    for _ in range(4):
        operation = lib.launch(memory.take(), x, y).submit()
        assert place.vacant == []
        lib.finish()
        del operation
        tw.synchronize()
        assert len(place.vacant) == 1
    assert memory.take().tolist() == [7.0] * SIZE


def test_a_write_raises_the_version_of_the_tensor_that_has_come(lib, comer):
    memory, x, y, seen = comer
    for _ in range(3):
        tensor = memory.take()
        assert identity(tensor) == seen
        assert tensor._version == 0
        lib.launch(tensor, x, y).submit()
        assert tensor._version == 1
        del tensor


def test_the_tensor_that_has_come_requires_grad(lib, comer):
    memory, x, y, seen = comer
    second = memory.take().requires_grad_()
    assert identity(second) == seen
    with refuse("the torch tensor requires grad"):
        lib.launch(second, x, y)
    del second
    third = memory.take()
    assert identity(third) == seen
    lib.launch(third, x, y).submit()


def test_the_tensor_that_has_come_is_moved(lib, comer):
    """The message says where that one was passed."""
    memory, x, y, seen = comer
    second = memory.take()
    operation, line = lib.launch(second, x, y), identity.__code__.co_firstlineno + 1
    assert identity(second) == seen
    second.data = torch.zeros(SIZE)
    with refuse("has been moved or resized since") as caught:
        operation.submit()
    assert f":{line}, has been" not in str(caught.value)
    assert "torch_doubles.py" in str(caught.value)


HOLDERS = {
    "partition": lambda _lib, cut, _x, _y: cut,
    "view": lambda _lib, cut, _x, _y: cut.tensor[:4],
    "reference": lambda _lib, cut, _x, _y: weakref.ref(cut.tensor),
    "operation": lambda lib, cut, x, y: lib.add(cut, x, y),
}


@pytest.mark.parametrize("held", HOLDERS)
def test_a_handle_that_somebody_has_is_not_taken_over(lib, held):
    _, x, y = lib.prepared()
    memory = Memory()
    first = memory.take()
    cut = tw.partition(first, SIZE)
    seen = id(cut.tensor)
    kept = HOLDERS[held](lib, cut, x, y)
    del cut
    del first  # then: nobody else has the handle
    gc.collect()
    second = memory.take()
    assert held == "reference" or identity(second) != seen  # or the number is free again
    assert held != "reference" or kept() is None
    if held == "operation":
        with refuse("nobody has said which comes first"):
            lib.launch(second, x, y)
        kept.submit()
    lib.launch(second, x, y).submit()
    assert second._version == 1


def test_without_a_lock_of_the_interpreter_nothing_is_taken_over(lib, monkeypatch):
    monkeypatch.setattr(passed_arrays, "COUNTS", False)
    memory = Memory()
    first = memory.take()
    place = tw.partition(first, SIZE).tensor.storage.origin
    del first
    tw.synchronize()
    assert place.vacant == []


def test_memory_goes_back_while_the_handle_waits(lib, monkeypatch):
    allocator = Allocator(monkeypatch)
    _, x, y = lib.prepared()
    memory = Memory()
    tensor = memory.take()
    lib.launch(tensor, x, y).submit()
    address, producer = tensor.data_ptr(), producer_of(tensor)
    stream = tw.Device("cuda").adopt_stream(lib.number(0))
    del tensor
    lib.launch(x, y, y).submit()
    assert producer() is None
    assert allocator.told == [(address, stream)]


def test_who_comes_while_the_last_one_is_in_use_elsewhere_waits(lib, monkeypatch, cuda):
    """It was used on a side stream, freed, and given out again."""
    Allocator(monkeypatch)
    _, x, y = lib.prepared()
    memory = Memory()
    tensor = memory.take()
    lib.launch(tensor, x, y).submit()
    seen = identity(tensor)
    lib.stream, side = lib.driver.create_stream(), lib.stream
    del tensor
    lib.driver.log.clear()
    tensor = memory.take()
    assert identity(tensor) == seen
    lib.launch(tensor, x, y).submit()
    assert ("wait", lib.stream, side) in lib.order()


@pytest.mark.parametrize("is_over", [True, False])
def test_a_waiting_handle_goes_with_whoever_bridges_it(lib, monkeypatch, is_over):
    Allocator(monkeypatch)
    _, x, y = lib.prepared()
    _, *wide = lib.prepared(2 * SIZE)
    memory = Memory(2 * SIZE)
    for start in (0, SIZE):
        lib.launch(memory.take(start, start + SIZE), x, y).submit()
    if is_over:
        lib.finish()
        tw.synchronize()
    whole = memory.take()
    operation = lib.launch(whole, *wide)
    for start in (0, SIZE):
        half = memory.take(start, start + SIZE)
        with refuse("nobody has said which comes first"):
            lib.launch(half, x, y)
        with refuse("nobody has said which comes first"):
            lib.launch(x, half, y)
    operation.submit()


@pytest.mark.parametrize("is_over", [True, False])
def test_handles_that_wait_at_one_place_are_of_one_memory(lib, is_over):
    """The group ends and begins again with the first that is taken; the other is part of it."""
    _, x, y = lib.prepared()
    memory = Memory()
    both = [memory.take(), memory.take()]
    for one in both:
        lib.launch(one, x, y).submit()
    places = {identity(one) for one in both}
    lib.finish()
    tw.synchronize()
    both.clear()
    del one
    tw.synchronize()
    if is_over:  # and is gone, as when there are many
        for group in list(foreign_ranges.RANGES.groups):
            foreign_ranges.RANGES.end(group)
    both = [memory.take(), memory.take()]
    assert {identity(one) for one in both} == places
    operation = lib.launch(both[0], x, y)
    with refuse("nobody has said which comes first"):
        lib.launch(both[1], x, y)
    wide = Memory(2 * SIZE)  # elsewhere
    _, *more = lib.prepared(2 * SIZE)
    lib.launch(wide.take(), *more).submit()
    operation.submit()
    assert tw.partition(both[0], SIZE).tensor.storage._group.count == 2
    storages = [tw.partition(one, SIZE).tensor.storage for one in both]
    assert {len(one._group.living()) for one in storages} == {2}


def test_members_that_were_taken_over_are_joined_when_they_are_bridged(lib):
    _, x, y = lib.prepared()
    memory = Memory(3 * SIZE)
    for _ in range(2):
        lefts = [memory.take(0, SIZE) for _ in range(2)]
        right = memory.take(2 * SIZE, 3 * SIZE)
        for one in (*lefts, right):
            identity(one)
        del lefts, right, one
        tw.synchronize()
        for group in list(foreign_ranges.RANGES.groups):
            foreign_ranges.RANGES.end(group)
    lefts = [memory.take(0, SIZE) for _ in range(2)]
    right = memory.take(2 * SIZE, 3 * SIZE)
    tensors = (right, *lefts)
    handles = [tw.partition(one, SIZE).tensor for one in tensors]
    whole = memory.take()
    across = tw.partition(whole, SIZE).tensor
    assert all(one.storage.shares_memory(across.storage) for one in handles)
    lib.launch(lefts[1], x, y).close()


def test_memory_that_is_given_out_in_parts_later(lib, monkeypatch):
    """They share nothing with each other, though they did with the tensor that is gone."""
    Allocator(monkeypatch)
    _, x, _ = lib.prepared()
    _, *wide = lib.prepared(2 * SIZE)
    memory = Memory(2 * SIZE)
    for start in (0, SIZE):  # so that handles wait there
        identity(memory.take(start, start + SIZE))
    lib.launch(memory.take(), *wide).submit()
    lib.finish()
    tw.synchronize()
    halves = [memory.take(start, start + SIZE) for start in (0, SIZE)]
    storages = [tw.partition(half, SIZE).tensor.storage for half in halves]
    assert not storages[0].shares_memory(storages[1])
    assert {one._group.high - one._group.low for one in storages} == {4 * SIZE}
    operation = lib.launch(halves[0], halves[1], x)
    assert way(operation) == "planned"
    operation.submit()


def test_the_same_memory_as_another_dtype(lib, comer):
    memory, x, y, seen = comer
    for _ in range(5):
        lib.launch(memory.take(), x, y).submit()
    other = memory.take(dtype=torch.int32)
    assert identity(other) != seen
    assert tw.partition(other, SIZE).tensor.dtype is tw.i32
    with pytest.raises(tw.LaunchError):
        lib.launch(other, x, y)
    third = memory.take()
    assert tw.partition(third, SIZE).tensor.dtype is tw.f32
    both = memory.take(dtype=torch.int32).view(torch.float32)
    with refuse("z is written by this launch and also read by it as x"):
        lib.launch(third, both, y)


def test_a_negation_that_lies_like_the_last_tensor(lib, comer):
    memory, x, y, _ = comer
    for _ in range(5):
        lib.launch(memory.take(), x, y).submit()
    with refuse("is a negation that torch has not computed", tw.LaunchError):
        lib.launch(memory.take(), torch._neg_view(x), y)


def test_a_waiting_handle_after_a_fork(lib, comer, cuda):
    memory, _, _, _ = comer
    cuda.restart()
    with pytest.raises(tw.DriverError, match="CUDA does not survive a fork"):
        tw.partition(memory.take(), SIZE)


def test_handles_that_wait_are_few(lib, monkeypatch):
    monkeypatch.setattr(passed_arrays, "_VACANT", 8)
    memory = Memory(3 * SIZE)  # a form that no other test has
    tensors = [memory.take() for _ in range(20)]
    places = {tw.partition(one, SIZE).tensor.storage.origin for one in tensors}
    (place,) = places
    assert place.form.vacancies == 0
    del tensors
    tw.synchronize()
    assert len(place.vacant) == place.form.vacancies == 8
    assert place.group.count == 0


def test_memory_whose_handle_waits_is_free_for_another_device(lib):
    memory = Memory()
    tensor = memory.take()
    identity(tensor)
    with refuse("two devices have no order", tw.LaunchError):
        tw.from_dlpack(np.frombuffer(memory._bytes, np.float32))
    del tensor
    assert tw.from_dlpack(np.frombuffer(memory._bytes, np.float32)).device is tw.Device("cpu")


def test_a_range_that_is_over_is_remembered_and_keeps_nothing(lib):
    _, x, y = lib.prepared()
    memory = Memory()
    tensor = memory.take()
    lib.launch(tensor, x, y).submit()
    lib.finish()
    tw.synchronize()
    address, producer = tensor.data_ptr(), producer_of(tensor)
    del tensor
    tw.synchronize()
    assert producer() is None
    (group,) = (one for one in foreign_ranges.RANGES.groups if one.low == address)
    assert group.is_over
    tensor = memory.take()
    lib.driver.log.clear()
    lib.launch(tensor, x, y).submit()
    assert lib.order() == [("launch", lib.stream, "plain_add")]
    assert not group.is_over


def test_memory_that_was_used_on_two_streams_is_at_home_again(lib, cuda):
    x, _, y = lib.prepared()
    memory = Memory()
    tensor = memory.take()
    lib.launch(x, tensor, y).submit(cuda.new_stream())
    lib.launch(torch.zeros(SIZE), tensor, y).submit()
    assert tw.partition(tensor, SIZE).tensor.storage.home is None
    lib.finish()
    tw.synchronize()
    del tensor
    tensor = memory.take()
    storage = tw.partition(tensor, SIZE).tensor.storage
    assert storage.home is cuda.adopt_stream(lib.number(0))
    assert storage.is_forgotten

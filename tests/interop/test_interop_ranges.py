"""Foreign memory is known by its addresses: views share borrows and order, and end with it."""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop_kernels import add, copy, known_ranges, numbers

import tilewright as tw
from tilewright import f32
from tilewright.runtime.interop.array import adopt
from tilewright.runtime.interop.numpy_arrays import read_numpy


@pytest.fixture(autouse=True)
def empty_table():
    assert known_ranges() == []
    yield
    assert known_ranges() == []


def blocked(text: str = "would"):
    return pytest.raises(tw.BorrowError, match=re.escape(text))


def test_an_output_may_not_overlap_an_input():
    memory = numbers(128)
    with blocked("z is written by this launch and also read by it as x"):
        copy(tw.partition(memory[:64], 16), memory[63:127])
    with blocked("z is written by this launch and also read by it as x"):
        copy(tw.partition(memory[10:74], 16), memory.view(np.uint8).view(np.float32)[:64])
    copy(tw.partition(memory[:64], 16), memory[64:]).sync()
    assert (memory[:64] == memory[64:]).all()


def test_a_built_operation_holds_every_view():
    memory = np.zeros(100, np.float32)
    held = copy(tw.partition(memory[:64], 16), tw.ones((64,), f32))
    with blocked("holds z for writing and has not been run"):
        copy(tw.partition(np.zeros(8, np.float32), 8), memory[60:68])
    with blocked("holds z for writing and has not been run"):
        tw.from_dlpack(memory[:1]).numpy()
    copy(tw.partition(np.zeros(8, np.float32), 8), memory[64:72]).sync()
    held.sync()
    assert memory.sum() == 64


def test_a_view_that_bridges_two_others_joins_them():
    memory = np.zeros(100, np.float32)
    left = copy(tw.partition(memory[:20], 16), tw.ones((20,), f32))
    right = copy(tw.partition(memory[80:], 16), tw.ones((20,), f32))
    assert len(known_ranges()) == 2
    across = tw.from_dlpack(memory)
    assert len(known_ranges()) == 1
    with blocked():
        across.numpy()
    middle = across[20:80]
    assert not middle.numpy().any()
    left.sync()
    with blocked():
        across.numpy()
    right.sync()
    assert across.numpy().sum() == 40
    with blocked("also read by it as x"):  # and they are one for every new operation
        copy(tw.partition(memory[:30], 16), across[:30])


def test_bridging_keeps_what_is_in_flight():
    memory, one = np.zeros(96, np.float32), tw.Device("cpu").new_stream()
    hold = one.hold()
    copy(tw.partition(memory[:32], 16), tw.ones((32,), f32)).submit(one)
    copy(tw.partition(memory[64:], 16), tw.ones((32,), f32)).submit(one)
    seen = np.zeros(96, np.float32)
    reader = copy(tw.partition(seen, 16), memory).submit()
    assert not reader.done
    hold.release()
    reader.sync()
    assert seen.sum() == 64


def test_streams_are_ordered_by_memory_not_by_handle():
    memory, streams = np.zeros(64, np.float32), [tw.Device("cpu").new_stream() for _ in range(3)]
    hold = streams[0].hold()
    ones = tw.ones((64,), f32)
    for step in range(30):
        previous = memory.view(np.int32).view(np.float32)
        target = np.zeros(64, np.float32)
        copy(tw.partition(target, 16), previous).submit(streams[step % 3])
        add(tw.partition(memory, 16), target, ones).submit(streams[(step + 1) % 3])
    hold.release()
    assert (tw.from_dlpack(memory).numpy() == 30).all()


def test_the_producer_lives_while_an_operation_runs():
    class Array(np.ndarray):
        pass

    stream = tw.Device("cpu").new_stream()
    hold = stream.hold()
    memory = np.zeros(64, np.float32).view(Array)
    alive = weakref.ref(memory)
    copy(tw.partition(memory, 16), tw.ones((64,), f32)).submit(stream)
    del memory
    gc.collect()
    assert alive() is not None
    hold.release()
    assert known_ranges() == []
    assert alive() is None


def test_a_dropped_operation_lets_go():
    memory = np.zeros(8, np.float32)
    operation = copy(tw.partition(memory, 8), tw.ones((8,), f32))
    operation.close()
    del operation
    assert known_ranges() == []
    copy(tw.partition(memory, 8), tw.ones((8,), f32)).sync()


def test_many_short_lived_views_of_one_array():
    memory, ones = np.zeros(64, np.float32), tw.ones((64,), f32)
    for _ in range(200):
        add(tw.partition(memory, 16), memory + 0, ones).submit()
        tw.synchronize()
    assert (memory == 200).all()


def test_moving_a_foreign_tensor():
    x = tw.from_dlpack(numbers(8))
    y = tw.move(x)
    with pytest.raises(tw.MovedError):
        x.numpy()
    assert y.numpy().sum() == 28


def test_empty_arrays_meet_nobody():
    memory = np.zeros(8, np.float32)
    held = copy(tw.partition(memory, 8), tw.ones((8,), f32))
    assert tw.from_dlpack(memory[4:4]).numpy().size == 0
    held.close()


ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 12), st.booleans()), min_size=1, max_size=8
)


@given(ranges)
def test_borrows_agree_with_the_bytes(steps):
    """An operation is refused exactly if one that is built and overlaps it writes, or it does."""
    memory = np.zeros(72, np.float32)
    source = tw.ones((12,), f32)
    built: list[tuple[int, int, bool, tw.DeviceOp]] = []
    for start, length, writes in steps:
        part = memory[start : start + length]
        clash = any(start < a + n and a < start + length and (writes or w) for a, n, w, _ in built)
        arguments = (part, source[:length]) if writes else (np.zeros(length, np.float32), part)
        try:
            operation = copy(tw.partition(arguments[0], 4), arguments[1])
        except tw.BorrowError:
            assert clash
        else:
            assert not clash
            built.append((start, length, writes, operation))
    for *_, operation in built:
        operation.close()


def test_memory_of_another_device_is_refused_and_forgotten():
    """What was refused has joined nobody, so its end concerns nobody."""
    memory = numbers(8)
    handle = tw.from_dlpack(memory)
    elsewhere = read_numpy(memory)._replace(device=tw.Device("cpu:1"))
    with pytest.raises(tw.LaunchError, match="two devices have no order"):
        adopt(elsewhere)
    del elsewhere
    gc.collect()
    assert np.array_equal(handle.numpy(), memory)

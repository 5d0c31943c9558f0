"""Streams without a reference are given out again, and no others."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from runtime_doubles import operation, writes

import tilewright as tw


@pytest.fixture
def device(device_name):
    found = tw.Device(device_name)
    found.synchronize()
    gc.collect()
    return found


def test_streams_made_in_a_loop_are_few(device):
    x = tw.zeros(16, device=device)
    before = len(device.streams)
    for step in range(100):
        tw.fill(x, float(step)).sync_on(device.new_stream())
    np.testing.assert_array_equal(x.numpy(), np.full(16, 99, np.float32))
    assert len(device.streams) <= before + 3


def test_a_stream_with_a_reference_is_not_given_out(device):
    mine = [device.new_stream() for _ in range(3)]
    assert all(device.new_stream() is not one for one in mine)
    assert len(set(map(id, mine))) == 3


def test_a_stream_that_has_something_to_do_is_not_given_out(device):
    x = tw.zeros(16, device=device)
    x.wait()
    stream = device.new_stream()
    known, hold = id(stream), stream.hold()
    tw.fill(x, 1.0).submit(stream)
    del stream
    another = device.new_stream()
    assert id(another) != known
    tw.fill(tw.zeros(16, device=device), 1.0).sync_on(another)  # which waits for no other
    hold.release()
    np.testing.assert_array_equal(x.numpy(), np.ones(16, np.float32))


def test_a_stream_that_is_held_has_something_to_do(device):
    stream = device.new_stream()
    known, hold = id(stream), stream.hold()
    del stream
    another = device.new_stream()
    assert id(another) != known
    tw.fill(tw.zeros(16, device=device), 1.0).sync_on(another)  # which is not held
    hold.release()


def test_a_tensor_remembers_its_stream(device):
    x = tw.zeros(16, device=device)
    stream = device.new_stream()
    tw.fill(x, 1.0).sync_on(stream)
    known = id(stream)
    del stream
    others = [device.new_stream() for _ in range(2)]
    assert known not in map(id, others)
    np.testing.assert_array_equal(x.numpy(), np.ones(16, np.float32))


def test_a_failure_that_was_not_told_is_not_told_to_a_stranger():
    device = tw.Device("cpu")
    z = tw.zeros(16, device=device)
    stream = device.new_stream()
    known = id(stream)
    operation("broken", fail, writes(z)).submit(stream)
    stream.wait(stream.issued)
    del stream, z
    gc.collect()
    assert id(device.new_stream()) != known
    with pytest.raises(ValueError, match="broken"):
        device.synchronize()


def fail(_):
    raise ValueError("broken")

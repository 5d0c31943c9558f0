"""Threads of the CPU's queues: few, given back, not needed; and queues that have an end of room."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from runtime_doubles import copy, operation, put, writes

import tilewright as tw
from tilewright import Mut, f32
from tilewright.backends.cpu import executor, stream, workers
from tilewright.dims import B

START = threading.Thread.start


@tw.kernel
def grow(z: Mut[f32, B]) -> None:
    z.store(z.load() + 1)


@pytest.fixture
def device(fresh_devices, monkeypatch):
    """A CPU on which no thread runs yet."""
    monkeypatch.setattr(stream, "WORKERS", workers.Workers())
    return fresh_devices("cpu")


@pytest.fixture
def no_threads(monkeypatch):
    """Until it is called, no thread can be started."""

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return lambda: monkeypatch.setattr(threading.Thread, "start", START)


def test_work_is_done_by_those_who_wait_where_no_thread_can_be_started(device, no_threads):
    z = tw.zeros(4, device=device)
    put(z, 1).submit()
    put(z, 2).submit()
    np.testing.assert_array_equal(z.numpy(), [2, 2, 2, 2])
    device.synchronize()
    no_threads()
    put(z, 3).submit()
    np.testing.assert_array_equal(z.numpy(), [3, 3, 3, 3])


def test_streams_follow_each_other_without_a_thread(device, no_threads):
    x, z = (tw.zeros(4, device=device) for _ in range(2))
    first, second = device.new_stream(), device.new_stream()
    put(x, 5).submit(first)
    copy(z, x).submit(second)
    put(x, 6).submit(first)
    np.testing.assert_array_equal(z.numpy(), [5, 5, 5, 5])
    np.testing.assert_array_equal(x.numpy(), [6, 6, 6, 6])


def test_a_failure_is_told_without_a_thread(device, no_threads):
    def fail(_):
        raise ZeroDivisionError("of its own")

    z = tw.zeros(4, device=device)
    failing = operation("fail", fail, writes(z)).submit()
    with pytest.raises(ZeroDivisionError, match="of its own"):
        failing.sync()
    put(z, 1).sync()
    np.testing.assert_array_equal(z.numpy(), [1, 1, 1, 1])


def test_a_thread_that_starts_later_does_what_was_queued_before(device, no_threads):
    z = tw.zeros(4, device=device)
    done = put(z, 1).submit()
    assert not done.done
    no_threads()
    put(z, 2).submit().sync()
    assert done.done


def test_blocks_run_where_no_thread_can_be_started(device, no_threads, monkeypatch):
    monkeypatch.setattr(executor, "usable_cores", lambda: 4)
    z = tw.zeros(8 << 14, device=device)
    grow(z.partition(1 << 14)).sync()  # tiles of a size that is worth threads
    np.testing.assert_array_equal(z.numpy(), np.ones(8 << 14, np.float32))


def test_streams_made_used_and_dropped_leave_few_threads(device):
    x = tw.zeros(4, device=device)
    put(x, 1).sync()
    before, most = threading.active_count(), 0
    for _ in range(3000):
        put(tw.zeros(4, device=device), 1).submit(device.new_stream())
        most = max(most, threading.active_count())
    device.synchronize()
    assert most <= before + workers.MOST


def test_streams_that_are_all_busy_share_the_threads(device):
    before = threading.active_count()
    used = [device.new_stream() for _ in range(500)]
    holds = [one.hold() for one in used]
    tensors = [tw.zeros(4, device=device) for _ in used]
    for tensor, one in zip(tensors, used, strict=True):
        put(tensor, 7).submit(one)
    assert threading.active_count() <= before + workers.MOST  # a queue that is held has none
    for hold in reversed(holds):
        hold.release()
    assert all((tensor.numpy() == 7).all() for tensor in tensors)


def test_threads_end_when_nothing_is_left_to_do(device, monkeypatch):
    monkeypatch.setattr(workers, "_IDLE_SECONDS", 0.01)
    put(tw.zeros(4, device=device), 1).sync()
    threads = tuple(stream.WORKERS._threads)
    for thread in threads:
        thread.join()
    assert not stream.WORKERS._threads
    z = tw.zeros(4, device=device)
    put(z, 1).sync()
    np.testing.assert_array_equal(z.numpy(), [1, 1, 1, 1])


# --- room -----------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """Queues with room for a few tasks."""
    monkeypatch.setattr(stream, "MOST_TASKS", 8)


def test_a_submission_waits_until_there_is_room(device, small):
    z, seen = tw.zeros(4, device=device), []
    go, steps = threading.Event(), 100
    operation("wait", lambda _: go.wait(), writes(z)).submit()
    queue = device.stream.queue

    def fill():
        for step in range(steps):
            if len(queue._tasks) >= 8:
                go.set()  # as full as it gets, while nothing has run
            put(z, step).submit()
            seen.append(len(queue._tasks))

    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
    assert len(seen) == steps
    assert max(seen) <= 8 + 4  # tasks of one operation
    np.testing.assert_array_equal(z.numpy(), [steps - 1] * 4)


def test_steps_of_a_chain_wait_for_room(device, small):
    z, seen = tw.zeros(4, device=device), []

    def step(number):
        seen.append(len(device.stream.queue._tasks))
        return put(z, number)

    chain = put(z, 0)
    for number in range(1, 50):
        chain = chain.then(lambda _, number=number: step(number))
    chain.sync()
    assert max(seen) <= 8 + 4
    np.testing.assert_array_equal(z.numpy(), [49] * 4)


def test_a_stream_that_is_held_takes_what_it_is_given(device, small):
    z = tw.zeros(4, device=device)
    hold = device.stream.hold()
    for step in range(50):
        put(z, step).submit()
    hold.release()
    np.testing.assert_array_equal(z.numpy(), [49] * 4)


def test_a_stream_that_waits_for_one_that_is_held_does_so_too(device, small):
    x, z = (tw.zeros(4, device=device) for _ in range(2))
    put(x, 1).sync()
    other = device.new_stream()
    hold = device.stream.hold()
    put(x, 2).submit()
    for _ in range(50):
        copy(z, x).submit(other)
    hold.release()
    np.testing.assert_array_equal(z.numpy(), [2] * 4)


def test_streams_that_wait_for_each_other_have_room(device, small):
    z = tw.zeros(4, device=device)
    streams = [device.new_stream() for _ in range(4)]
    for step in range(300):
        put(z, step).submit(streams[step % 4])
    np.testing.assert_array_equal(z.numpy(), [299] * 4)


def test_a_replay_waits_for_room(device, small):
    z = tw.zeros(4, device=device)
    with tw.graph() as graph:
        graph.record(put(z, 3))
    for _ in range(100):
        graph.launch().submit()
        assert len(device.stream.queue._tasks) <= 8 + 4
    np.testing.assert_array_equal(z.numpy(), [3] * 4)


def test_queues_that_seem_to_wait_for_each_other_are_not_followed_for_ever():
    one, other = stream.CpuQueue("one"), stream.CpuQueue("other")
    one.order_after(other, 1)
    other.order_after(one, 1)
    one.stop()
    other.marked = 1  # which is behind its wait
    assert one.known == other.known == 0

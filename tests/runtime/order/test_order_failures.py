"""A failure belongs to its operation and reaches every observer."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import NoWork, copy, operation, put, reads, updates, writes

from tilewright.errors import LaunchError, OutOfBoundsError
from tilewright.runtime.interop.imports import from_dlpack
from tilewright.runtime.ops.lifecycle import State


def check(message="index 9 left axis 0"):
    return lambda: OutOfBoundsError(message)


def failing(z, *others, message="index 9 left axis 0"):
    """An operation that writes and then reports a failure."""
    accesses = (writes(z), *(reads(other) for other in others))
    return operation("gather", lambda z, *_: z.fill(5), *accesses, failure=check(message))


def test_every_observer_sees_it(device):
    z, y, w = tw.zeros(4), tw.zeros(4), tw.zeros(4)
    hold = device.stream.hold()
    op = failing(z).submit()
    behind = copy(y, z).submit()
    further = copy(w, y).submit()
    assert not op.done
    hold.release()
    observers = [op.sync, behind.sync, further.sync, z.numpy, y.numpy, w.numpy, z.wait]
    observers += [z[1:].numpy, z.reshape(2, 2).numpy, op.sync]
    for observer in observers:
        with pytest.raises(OutOfBoundsError, match="index 9 left axis 0"):
            observer()
    assert {op.state, behind.state, further.state} == {State.FAILED}
    assert op.done


def test_everything_is_waited_for_before_a_failure_is_told(device, monkeypatch):
    """Code that catches the failure may use the results of other streams."""
    put(tw.zeros(4), 1).sync()  # loaded before, which would wait for streams that are held
    first, second, told = device.new_stream(), device.new_stream(), []
    waiting, wait = threading.Event(), type(second.queue).wait

    def noted(queue, count):
        if queue is second.queue:
            waiting.set()
        wait(queue, count)

    def synchronize():
        try:
            tw.synchronize()
        except OutOfBoundsError as error:
            told.append(error)

    monkeypatch.setattr(type(second.queue), "wait", noted)
    failing(tw.zeros(4)).submit(first)
    hold = second.hold()
    op = put(tw.zeros(4), 1).submit(second)
    thread = threading.Thread(target=synchronize)
    thread.start()
    is_waiting = waiting.wait(20)
    assert not told
    hold.release()
    thread.join()
    assert is_waiting
    assert len(told) == 1
    assert op.done


@pytest.mark.parametrize("how", ["while it runs", "when it is submitted"])
def test_a_failure_keeps_nothing_that_those_have_who_were_told(cpu, how):
    """Memory of other libraries stays known by its place, and would keep its failure for good."""

    class Array(np.ndarray):
        pass

    class Work:
        def enqueue(self, stream):
            if how == "when it is submitted":
                raise LaunchError("no such place")

    def run(array):
        handle = from_dlpack(array)  # which the exception's traceback has
        tw.make_operation("gather", cpu, (writes(handle),), Work(), None, failure=check()).sync()

    array = np.zeros(4, np.float32).view(Array)
    alive, text = weakref.ref(array), ""
    for _ in range(2):
        try:
            run(array)
        except (OutOfBoundsError, LaunchError) as error:
            text = str(error)
    assert text in ("index 9 left axis 0", "no such place")
    del array
    gc.collect()
    with pytest.raises(OutOfBoundsError) if how == "while it runs" else nullcontext():
        cpu.synchronize()
    put(tw.zeros(4), 1).sync()
    assert alive() is None


def test_the_stream_tells_once(device):
    z, y = tw.zeros(4), tw.zeros(4)
    hold = device.stream.hold()
    failing(z).submit()
    copy(y, z).submit()
    hold.release()
    with pytest.raises(OutOfBoundsError):
        device.stream.sync()
    device.stream.sync()
    with pytest.raises(OutOfBoundsError):
        y.numpy()


def test_the_stream_tells_each_failure(device):
    y, z = tw.zeros(4), tw.zeros(4)
    failing(z, message="first").submit()
    failing(y, message="second").submit()
    with pytest.raises(OutOfBoundsError, match="first"):
        device.synchronize()
    with pytest.raises(OutOfBoundsError, match="second"):
        device.synchronize()
    tw.synchronize()


def test_derived_failures_cross_streams(device):
    first, second = device.new_stream(), device.new_stream()
    y, z = tw.zeros(4), tw.zeros(4)
    hold = first.hold()
    failing(z).submit(first)
    copy(y, z).submit(second)
    hold.release()
    with pytest.raises(OutOfBoundsError):
        second.sync()
    with pytest.raises(OutOfBoundsError):
        first.sync()


def test_new_readers_are_refused_and_unrelated_operations_are_not(device):
    x, y, z = tw.ones(4), tw.zeros(4), tw.zeros(4)
    op = failing(z).submit()
    with pytest.raises(OutOfBoundsError):
        op.sync()
    with pytest.raises(OutOfBoundsError):
        copy(y, z)
    with pytest.raises(OutOfBoundsError):
        operation("up", lambda a: None, updates(z))
    copy(y, x).sync()
    assert y.numpy()[0] == 1


def test_refused_at_submission_if_it_failed_meanwhile(device):
    y, z = tw.zeros(4), tw.zeros(4)
    hold = device.stream.hold()
    op = failing(z).submit()
    late = copy(y, z)
    hold.release()
    with pytest.raises(OutOfBoundsError):
        op.sync()
    with pytest.raises(OutOfBoundsError):
        late.submit()
    assert late.state is State.FAILED
    put(y, 1).sync()


def test_overwriting_the_whole_tensor_clears_it(device):
    z = tw.zeros(4)
    op = failing(z).submit()
    put(z, 3).submit()
    assert z.numpy().tolist() == [3.0] * 4
    with pytest.raises(OutOfBoundsError):
        op.sync()


def test_overwriting_a_part_does_not(device):
    z = tw.zeros(4)
    failing(z).submit()
    put(z[:2], 3).submit()
    with pytest.raises(OutOfBoundsError):
        z.numpy()
    put(z[2:], 3).submit()
    with pytest.raises(OutOfBoundsError):
        z[:2].numpy()


def test_a_failed_part_leaves_the_other(device):
    z = tw.zeros(4)
    z.numpy()
    failing(z[:2]).submit()
    assert z[2:].numpy().tolist() == [0, 0]
    with pytest.raises(OutOfBoundsError):
        z[:2].numpy()


def test_outputs_keep_what_was_written_and_the_stream_goes_on(cpu):
    z = tw.zeros(4)
    with pytest.raises(OutOfBoundsError):
        failing(z).sync()
    assert np.frombuffer(z.storage.allocation.array.data, np.float32).tolist() == [5.0] * 4
    put(z, 1).sync()
    assert z.numpy()[0] == 1


def test_work_that_raises_is_a_failure_too(device):
    z = tw.zeros(4)

    def explode(_):
        raise OutOfBoundsError("inside")

    op = operation("k", explode, writes(z)).submit()
    with pytest.raises(OutOfBoundsError, match="inside"):
        z.numpy()
    with pytest.raises(OutOfBoundsError, match="inside"):
        op.sync()


def test_a_long_chain_behind_a_failure(device):
    tensors = [tw.zeros(4), tw.zeros(4)]
    for tensor in tensors:
        tensor.wait()
    hold = device.stream.hold()
    failing(tensors[0]).submit()
    # A held stream of a GPU takes so many entries; then a submission waits for it.
    for step in range(3000 if device.kind == "cpu" else 20):
        copy(tensors[(step + 1) % 2], tensors[step % 2]).submit()
    hold.release()
    with pytest.raises(OutOfBoundsError):
        tensors[1].numpy()


def test_an_unseen_failure_is_kept_for_the_end(device):
    z = tw.zeros(4)
    failing(z).submit()
    device.stream.wait(device.stream.issued)
    assert len(device.unseen) == 1
    with pytest.raises(OutOfBoundsError):
        z.numpy()
    assert not device.unseen


def test_good_operations_leave_nothing_behind(device):
    z = tw.zeros(4)
    for _ in range(500):
        put(z, 1).submit()
    z.numpy()
    assert not device.stream._unsettled
    assert not device.stream._kept
    assert not device.unseen


def test_a_record_is_not_reused_while_its_operation_runs(cpu):
    z = tw.zeros(4)
    record = cpu.new_record()
    address = record.address
    words = record.allocation.array.view(np.int32)

    def failure(record=record):
        return OutOfBoundsError("late") if record.read()[0] else None

    hold = cpu.stream.hold()
    op = operation("k", lambda _: words.__setitem__(0, 1), writes(z), failure=failure).submit()
    del record, failure
    gc.collect()
    others = [cpu.new_record() for _ in range(200)]
    assert address not in {other.address for other in others}
    hold.release()
    with pytest.raises(OutOfBoundsError, match="late"):
        op.sync()
    del others
    gc.collect()
    again = [cpu.new_record() for _ in range(256)]
    assert address in {other.address for other in again}
    assert all(other.read() == (0,) * 16 for other in again)


def test_a_failure_that_was_overwritten_does_not_come_back(cuda):
    def write(tensor, failure=None):
        return tw.make_operation("w", cuda, (writes(tensor),), NoWork(), None, failure=failure)

    def read(tensor):
        return tw.make_operation("r", cuda, (reads(tensor),), NoWork(), None)

    whole = tw.zeros(16)
    part = whole[:8]
    read(whole).submit()
    failed = write(part, lambda: LaunchError("lost")).submit()
    with pytest.raises(LaunchError, match="lost"):
        failed.sync()
    write(whole).submit()
    write(part).submit()  # with the use of the failed write
    read(whole).submit(cuda.new_stream())
    read(part).sync()
    part.wait()

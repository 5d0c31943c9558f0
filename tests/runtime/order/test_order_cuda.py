"""Calls to the CUDA driver, and their order, on a GPU that exists on paper."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest
import runtime_names as tw
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_launches import FunctionWork, copy_kernel, load, mix_kernel, paper_device
from runtime_doubles import NoWork, RecordingDriver, reads, updates, writes

from tilewright.backends.cuda.module import POINTER, CudaFunction
from tilewright.dtypes import bf16, f32, f64, i64
from tilewright.errors import DriverError, LaunchError, OutOfMemoryError


class TestOrder:
    def test_a_thousand_submissions_record_no_event(self, driver, copy):
        x, z = tw.full(8, 2), tw.zeros(8)
        for _ in range(500):
            copy(z, x).submit()
            copy(x, z).submit()
        assert x.numpy().tolist() == [2.0] * 8
        assert driver.calls("create_event", "record", "wait", "query") == []
        assert len(driver.calls("synchronize")) == 1
        assert len(driver.calls("allocate")) == 2

    def test_another_stream_waits_through_one_event(self, driver, cuda, copy):
        first, second = cuda.new_stream(), cuda.new_stream()
        x, y, z = tw.full(8, 2), tw.full(8, 3), tw.zeros(8)
        copy(z, x).submit(first)
        copy(y, z).submit(second)
        assert [entry[0] for entry in driver.calls("create_event", "record", "wait")] == [
            "create_event",
            "record",
            "wait",
        ]
        assert driver.calls("wait") == [("wait", second.queue.handle, first.queue.handle)]
        names = [entry[0] for entry in driver.log]
        assert names.index("wait") < len(names) - 1 - names[::-1].index("launch")
        copy(y, x).submit(second)  # waited past it already
        assert len(driver.calls("wait")) == 1
        copy(z, x).submit(first)  # and back: the event of the other stream
        assert driver.calls("wait")[1:] == [("wait", first.queue.handle, second.queue.handle)]
        assert y.numpy().tolist() == [2.0] * 8

    def test_many_slices_in_flight_ask_the_driver_seldom(self, driver, cuda, copy):
        driver.patient = True
        rows, z = tw.zeros((1000, 8)), tw.zeros(8)
        for row in range(1000):
            copy(z, rows[row]).submit()
            copy(rows[row], z).submit()
        assert len(driver.calls("query")) < 4 * 2000

    def test_a_passed_fence_needs_no_event(self, driver, cuda, copy):
        first, second = cuda.new_stream(), cuda.new_stream()
        x, y, z = tw.full(8, 2), tw.zeros(8), tw.zeros(8)
        copy(z, x).submit(first).sync()
        copy(y, z).submit(second)
        assert driver.calls("create_event", "record", "wait") == []

    def test_reader_and_writer_orders(self, driver, cuda, copy):
        first, second = cuda.new_stream(), cuda.new_stream()
        x, y, z = tw.full(8, 2), tw.full(8, 5), tw.zeros(8)
        copy(z, x).submit(first)  # x read on the first stream
        copy(x, y).submit(second)  # write after read
        copy(z, y).submit(second)  # write after write
        assert len(driver.calls("wait")) == 1
        assert (z.numpy()[0], x.numpy()[0]) == (5, 5)

    def test_freed_on_the_stream_of_last_use_after_waits(self, driver, cuda, copy):
        first, second = cuda.new_stream(), cuda.new_stream()
        x, y, z = tw.full(8, 2), tw.zeros(8), tw.zeros(8)
        copy(y, x).submit(first)
        copy(z, x).submit(second)
        freed = x.address
        del x
        gc.collect()
        assert driver.calls("free") == []  # a finaliser calls no driver
        assert z.numpy()[0] == 2
        assert [entry[2] for entry in driver.calls("free")] == [freed]
        cuda.synchronize()
        assert freed not in driver.memory

    def test_operation_dropped_in_flight_keeps_its_memory(self, driver, cuda, copy):
        z = tw.zeros(8)
        op = copy(z, tw.full(8, 6)).submit()
        del op
        gc.collect()
        for _ in range(3):
            copy(tw.zeros(8), tw.zeros(8)).submit()
            gc.collect()
        assert z.numpy()[0] == 6
        assert len(driver.calls("allocate")) < 8  # memory that was dropped is used again
        with cuda.lock:
            cuda.empty_free_lists()
        assert len(driver.calls("free")) == len(driver.calls("allocate")) - 1

    def test_a_submitted_operation_keeps_no_tensor(self, cuda):
        z, x = tw.zeros(8), tw.zeros(8)
        operations = []
        for _ in range(3):  # on the sole stream of both from the second one on
            operations.append(tw.copy(z, x).submit())
        memory = weakref.ref(x.storage)
        del x
        gc.collect()
        assert memory() is None
        assert operations[-1].sync() is z

    def test_an_empty_tensor_launches_and_copies_nothing(self, driver, copy):
        z = tw.zeros((0, 4))
        assert z.numpy().shape == (0, 4)
        assert driver.calls("fill", "copy_out") == []

    def test_no_blocks_are_no_launch(self, driver, cuda):
        driver.kernels["copy"] = ((8,), copy_kernel)
        CudaFunction(driver, b"", "copy", (POINTER,)).launch(cuda.stream, 0, (0,), ())
        assert driver.calls("launch") == []


class TestContents:
    def test_creation(self, driver, cuda):
        assert cuda.target == "sm_90"
        assert tw.zeros((2, 3), f64).numpy().tolist() == [[0, 0, 0]] * 2
        assert tw.full(3, 1.5, bf16).numpy().astype(float).tolist() == [1.5] * 3
        assert tw.full(3, -2, i64).numpy().tolist() == [-2] * 3
        assert tw.full(3, 1.25, f64).numpy().tolist() == [1.25] * 3
        patterns = [entry[2] for entry in driver.calls("fill")]
        assert patterns[0] == b"\0"  # bytes that are all equal are one byte fill
        assert [len(pattern) for pattern in patterns] == [1, 2, 8, 8]

    def test_upload_is_kept_until_it_has_been_read(self, cuda, copy):
        x, z = tw.from_numpy(np.arange(8, dtype=np.float32)), tw.zeros(8)
        source = weakref.ref(x.storage._initialiser.source)
        copy(z, x).submit()
        gc.collect()
        assert source() is not None
        assert z.numpy().tolist() == list(range(8))
        assert source() is None

    def test_slices_come_back_packed(self, cuda):
        values = np.arange(24, dtype=np.float32).reshape(4, 6)
        part = tw.from_numpy(values)[1:3, 2:5].numpy()
        assert part.tolist() == values[1:3, 2:5].tolist()
        assert part.flags.c_contiguous


class TestFailures:
    def test_a_refused_launch_belongs_to_the_operation(self, driver, cuda, copy):
        x, y, z = tw.zeros(8), tw.zeros(8), tw.zeros(8)
        x.numpy()
        working = driver.launch

        def refuse(*_):
            raise DriverError("cuLaunchKernel failed with CUDA_ERROR_INVALID_VALUE (1)")

        driver.launch = refuse
        op = copy(z, x)
        with pytest.raises(DriverError, match="cuLaunchKernel"):
            op.submit()
        with pytest.raises(DriverError, match="cuLaunchKernel"):
            op.sync()
        driver.launch = working
        with pytest.raises(DriverError, match="cuLaunchKernel"):
            copy(y, z)
        copy(z, x).sync()
        assert z.numpy()[0] == 0

    def test_out_of_memory_says_what_for(self, driver, cuda):
        def refuse(nbytes, _pool, _stream):
            raise OutOfMemoryError(f"the GPU has no room for {nbytes} bytes")

        driver.allocate = refuse
        z = tw.zeros((1024, 1024))
        with pytest.raises(OutOfMemoryError) as caught:
            z.numpy()
        assert "4194304 bytes" in str(caught.value)
        assert "it was for f32[1024, 1024] (4.0 MiB), made at " in str(caught.value)
        assert "test_order_cuda.py" in str(caught.value)

    def test_a_checked_launch_is_looked_at_after_its_fence(self, driver, cuda):
        driver.kernels["check"] = ((8,), lambda _d, _b, at: fail_at(int.from_bytes(at, "little")))
        function = CudaFunction(driver, b"", "check", (POINTER,))
        record = cuda.new_record()
        z = tw.zeros(8)

        class Work:
            def enqueue(self, stream):
                function.launch(stream, 1, (record.address,), (record,))

        def failure():
            words = record.read()
            return LaunchError(f"site {words[1]}") if words[0] else None

        op = tw.make_operation("check", cuda, (writes(z),), Work(), z, failure=failure).submit()
        later = tw.make_operation("later", cuda, (updates(z),), NoWork(), z).submit()
        assert not op.done
        for observer in (op.sync, later.sync, z.numpy, z.wait, op.sync):
            with pytest.raises(LaunchError, match="site 7"):
                observer()

    def test_records_are_reused_after_they_are_dropped(self, driver, cuda):
        kept = [cuda.new_record() for _ in range(300)]
        assert len({record.address for record in kept}) == 300
        assert len(driver.calls("allocate_pinned")) == 2
        first = kept[0].address
        fail_at(first)
        assert kept[0].read()[:2] == (1, 7)
        kept.clear()
        again = [cuda.new_record() for _ in range(512)]
        assert first in {record.address for record in again}
        assert all(record.read() == (0,) * 16 for record in again)
        assert len(driver.calls("allocate_pinned")) == 2

    def test_a_forked_child_is_refused(self, driver, cuda):
        z = tw.zeros(8)
        z.numpy()
        calls = len(driver.log)
        cuda.restart()  # as a forked child does
        with pytest.raises(DriverError, match=r"does not survive a fork.*`spawn`"):
            z.numpy()
        with pytest.raises(DriverError, match="fork"):
            cuda.synchronize()
        del z
        gc.collect()
        with pytest.raises(DriverError, match="fork"):
            tw.zeros(8).numpy()
        assert len(driver.log) == calls

    def test_a_held_stream_waits_for_a_word_in_pinned_memory(self, cuda):
        hold = cuda.stream.hold()
        driver = cuda.backend.driver
        assert driver.log[-1] == ("wait_value", hold.address, 1)
        word = ctypes.c_int32.from_address(hold.address)
        assert word.value == 0
        hold.release()
        assert word.value == 1


def fail_at(where):
    (ctypes.c_int32 * 2).from_address(where)[:] = (1, 7)


@settings(max_examples=60, deadline=None)
@given(
    plan=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.booleans()),
        max_size=24,
    ),
    seed=st.integers(0, 2**16),
)
def test_any_interleaving_gives_what_program_order_gives(plan, seed):
    """Random operations on three streams; the paper GPU runs them in any order events allow."""
    driver = RecordingDriver(seed)
    device = paper_device(driver)
    function = load(driver, "mix", mix_kernel)
    streams = [device.new_stream() for _ in range(3)]
    tensors = [tw.full(8, number, f32, device=device) for number in range(4)]
    expected = [np.full(8, number, np.float32) for number in range(4)]
    for stream, z, x, drops in plan:
        if z == x:
            continue
        work = FunctionWork(function, (tensors[z], tensors[x]))
        accesses = (updates(tensors[z]), reads(tensors[x]))
        tw.make_operation("mix", device, accesses, work, None).submit(streams[stream])
        expected[z] = expected[z] * 3 + expected[x] + 1
        if drops:  # a temporary that dies in flight
            temporary = tw.zeros(8, f32, device=device)
            work = FunctionWork(function, (temporary, tensors[x]))
            accesses = (updates(temporary), reads(tensors[x]))
            tw.make_operation("mix", device, accesses, work, None).submit(streams[stream])
            del temporary, work, accesses
        driver.step(driver.streams[seed % 3])
    for tensor, values in zip(tensors, expected, strict=True):
        assert tensor.numpy().tolist() == values.tolist()


def test_no_driver_is_said_clearly():
    with pytest.raises(DriverError, match=r"no CUDA driver here .*install an NVIDIA driver"):
        tw.Device("cuda:0")


def test_stamps_of_the_cuda_device_are_events_with_times(cuda, driver):
    stream = cuda.stream
    x = tw.empty((4,), f32)
    tw.fill(x, 0.0).sync()
    first = stream.stamp()
    tw.fill(x, 1.0).submit()
    second = stream.stamp()
    stream.sync()
    assert second.seconds_since(first) == 1.0
    assert [entry[0] for entry in driver.calls("create_event", "record")] == [
        "create_event", "record", "create_event", "record",
    ]  # fmt: skip

"""Order between operations on CPU streams. Streams are stopped by gates, never by sleeping."""

from __future__ import annotations

import contextvars
import threading
import weakref

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import copy, operation, put, reads, updates, writes

from tilewright.errors import BorrowError, LaunchError


def add_one(array):
    array += 1


def test_a_thousand_alternating_submissions(device):
    x, z = tw.zeros(64), tw.zeros(64)
    for _ in range(500):
        operation("up", lambda z, x: np.add(x, 1, out=z), writes(z), reads(x)).submit()
        operation("back", np.copyto, writes(x), reads(z)).submit()
    assert x.numpy().tolist() == [500.0] * 64
    assert device.stream.waited == {}


class TestAcrossStreams:
    """A conflict on another stream waits for it, and only for it."""

    def test_read_after_write(self, device):
        first, second = device.new_stream(), device.new_stream()
        x, z = tw.zeros(8), tw.zeros(8)
        hold = first.hold()
        put(x, 7).submit(first)
        late = copy(z, x).submit(second)
        assert second.waited[first] == first.issued
        assert not late.done
        hold.release()
        late.sync()
        assert z.numpy().tolist() == [7.0] * 8

    def test_write_after_read(self, device):
        first, second = device.new_stream(), device.new_stream()
        x, z = tw.ones(8), tw.zeros(8)
        x.wait()
        hold = first.hold()
        early = copy(z, x).submit(first)
        late = put(x, 5).submit(second)
        assert not late.done
        hold.release()
        late.sync()
        assert early.done
        assert (z.numpy()[0], x.numpy()[0]) == (1, 5)

    def test_write_after_write(self, device):
        first, second = device.new_stream(), device.new_stream()
        z = tw.zeros(8)
        hold = first.hold()
        put(z, 1).submit(first)
        put(z, 2).submit(second)
        hold.release()
        assert z.numpy()[0] == 2

    def test_read_after_read_does_not_wait(self, device):
        first, second = device.new_stream(), device.new_stream()
        x, a, b = tw.ones(8), tw.empty(8), tw.empty(8)
        put(x, 3).sync()
        hold = first.hold()
        held = copy(a, x).submit(first)
        copy(b, x).submit(second).sync()
        assert not held.done
        assert b.numpy()[0] == 3
        hold.release()
        held.sync()

    def test_disjoint_slices_do_not_wait(self, device):
        first, second = device.new_stream(), device.new_stream()
        z = tw.zeros((2, 8))
        z.numpy()
        hold = first.hold()
        held = put(z[0], 1).submit(first)
        put(z[1], 2).submit(second).sync()
        assert not held.done
        assert z[1].numpy()[0] == 2
        hold.release()
        assert z.numpy()[:, 0].tolist() == [1, 2]

    def test_one_wait_orders_everything_before_it(self, device):
        first, second = device.new_stream(), device.new_stream()
        x, y, z = tw.zeros(8), tw.zeros(8), tw.zeros(8)
        hold = first.hold()
        put(x, 1).submit(first)
        put(y, 2).submit(first)
        calls = []
        original = second.queue.order_after
        second.queue.order_after = lambda *given: calls.append(given) or original(*given)
        operation("late", np.copyto, writes(z), reads(y)).submit(second)
        operation("later", np.copyto, writes(z), reads(x)).submit(second)
        assert len(calls) == 1
        hold.release()
        assert z.numpy()[0] == 1

    def test_a_passed_fence_needs_no_wait(self, device):
        first, second = device.new_stream(), device.new_stream()
        x, z = tw.zeros(8), tw.zeros(8)
        put(x, 1).submit(first).sync()
        copy(z, x).submit(second).sync()
        assert second.waited == {}

    def test_waits_are_inherited(self, device):
        first, second, third = (device.new_stream() for _ in range(3))
        x, y, z = tw.zeros(8), tw.zeros(8), tw.zeros(8)
        hold = first.hold()
        put(x, 1).submit(first)
        copy(y, x).submit(second)
        copy(z, y).submit(third)
        assert third.waited[first] == second.waited[first]
        hold.release()
        assert z.numpy()[0] == 1

    def test_the_host_reads_on_the_writers_stream(self, device):
        first = device.new_stream()
        z = tw.zeros(8)
        put(z, 1).submit(first)
        z.numpy()
        assert device.stream.issued == 0


class TestContext:
    def test_the_current_stream(self, device):
        other = device.new_stream()
        assert device.stream is device.stream
        z = tw.zeros(4)
        with tw.stream(other) as chosen:
            assert chosen is other
            assert device.stream is other
            put(z, 1).submit()
        assert device.stream is not other
        assert other.issued
        assert device.stream.issued == 0

    def test_blocks_inside_each_other(self, device):
        outer, inner = device.new_stream(), device.new_stream()
        with tw.stream(outer):
            with tw.stream(inner):
                assert device.stream is inner
            assert device.stream is outer
        assert device.stream is device.default

    def test_a_new_thread_starts_with_the_default_stream(self, device):
        seen = []
        with tw.stream(device.new_stream()) as chosen:
            thread = threading.Thread(target=lambda: seen.append(device.stream))
            thread.start()
            thread.join()
            assert device.stream is chosen
        assert seen == [device.default]

    def test_a_copied_context_keeps_its_stream(self, device):
        with tw.stream(device.new_stream()) as chosen:
            copied = contextvars.copy_context()
        assert device.stream is device.default
        assert copied.run(lambda: device.stream) is chosen

    def test_devices_by_name(self, cpu):
        assert tw.Device("cpu") is cpu
        assert tw.Device("cpu:0") is cpu
        assert tw.Device("cpu:1") is not cpu
        assert (cpu.name, cpu.kind, cpu.ordinal, cpu.target) == ("cpu", "cpu", 0, "cpu")
        with tw.device("cpu:1") as second:
            assert tw.zeros(3).device is second
        assert tw.zeros(3).device is cpu
        assert repr(second) == "Device('cpu:1')"

    @pytest.mark.parametrize("name", ["gpu", "cpu:x", "cpu:-1", "", "cpu:"])
    def test_bad_names(self, name):
        with pytest.raises(LaunchError, match="device"):
            tw.Device(name)

    def test_synchronize_waits_for_every_stream(self, device):
        tensors = [tw.zeros(4) for _ in range(3)]
        ops = [put(tensor, 1).submit(device.new_stream()) for tensor in tensors]
        tw.synchronize()
        assert all(op.done for op in ops)


class TestThreads:
    def test_two_threads_on_one_tensor(self, device):
        z = tw.zeros(16)
        z.numpy()
        lock = threading.Lock()

        def work():
            with tw.stream(device.new_stream()):
                for _ in range(200):
                    with lock:  # built operations conflict; submitted ones are ordered
                        operation("up", add_one, updates(z)).submit()

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert z.numpy().tolist() == [400.0] * 16

    def test_two_threads_without_a_lock_are_refused_or_right(self, device):
        z = tw.zeros(16)
        z.numpy()
        done = []

        def work():
            for _ in range(200):
                try:
                    operation("up", add_one, updates(z)).submit()
                except BorrowError:
                    continue
                done.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert z.numpy()[0] == len(done) > 0


class TestMemory:
    def test_lazy_tensors_get_bytes_once_on_the_first_users_stream(self, device):
        made = []

        def make(tensor, stream):
            made.append((tensor.shape, stream))
            put(tensor, 3).submit(stream)

        z = tw.fill_by((4,), np.float32, make)
        assert z.storage.is_lazy
        assert "no bytes yet" in repr(z)
        first = device.new_stream()
        y = tw.zeros(4)
        copy(y, z).submit(first)
        copy(y, z).submit()
        assert y.numpy().tolist() == [3.0] * 4
        assert made == [((4,), first)]

    def test_a_failing_initialiser_is_tried_again(self, device):
        attempts = []

        def make(tensor, stream):
            attempts.append(tensor)
            if len(attempts) == 1:
                raise ValueError("not yet")
            put(tensor, 2).submit(stream)

        z = tw.fill_by((4,), np.float32, make)
        with pytest.raises(ValueError, match="not yet"):
            z.numpy()
        assert z.numpy().tolist() == [2.0] * 4

    def test_bytes_outlive_their_handles_until_the_last_use(self, cpu):
        x, z = tw.from_numpy(np.arange(8.0)), tw.empty(8, np.float64)
        x.numpy()
        alive = weakref.ref(x.storage.allocation.array.base)
        hold = cpu.stream.hold()
        copy(z, x).submit()
        del x
        tw.zeros(1).storage.device.settle_deferred()
        assert alive() is not None
        hold.release()
        assert z.numpy().tolist() == list(range(8))
        cpu.synchronize()
        cpu.stream.sync()
        put(z, 0).sync()
        assert alive() is None

    def test_a_built_operation_keeps_what_it_uses(self, device):
        z = tw.zeros(8)
        op = copy(z, tw.ones(8))
        op.sync()
        assert z.numpy()[0] == 1

    def test_from_numpy_copies_at_the_call(self, device):
        source = np.arange(4.0)
        hold = device.stream.hold()
        x = tw.from_numpy(source)
        source[:] = 9
        hold.release()
        assert x.numpy().tolist() == [0, 1, 2, 3]

    def test_many_regions_stay_few_uses(self, device):
        z = tw.zeros((200, 4))
        for row in range(200):
            put(z[row], row).sync()
        assert len(z.storage.timeline.uses) < 40
        assert z.numpy()[:, 0].tolist() == list(range(200))

"""Operations that are ready, on a GPU on paper: the driver sees what it would see of any other."""

from __future__ import annotations

import gc
from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_doubles import RecordingDriver, reads, updates

from tilewright import runtime as tw
from tilewright.backends.cuda.device import CudaBackend
from tilewright.backends.cuda.module import POINTER, CudaFunction
from tilewright.dtypes import f32
from tilewright.errors import BorrowError, DriverError
from tilewright.runtime.function import Filled
from tilewright.runtime.ready import ReadyOp
from tilewright.runtime.ready_work import NEVER, ReadyWork, RepeatedWork
from tilewright.runtime.tickets import Role
from tilewright.runtime.zipping import zip_operations


class Launch:
    """The same launch as a work that is looked at every time."""

    def __init__(self, function, tensors):
        self.function = function
        self.tensors = tensors

    def enqueue(self, stream):
        addresses = tuple(tensor.address for tensor in self.tensors)
        self.function.launch(stream, 1, addresses, tuple(t.storage for t in self.tensors))


class Ready(RepeatedWork):
    """A launch for two tensors, made over and over."""

    def __init__(self, device, function, tensors):
        self.device, self.label, self.program = device, "mix", Future()
        self.roles = (Role(tw.Mode.UPDATE, "z"), Role(tw.Mode.READ, "x"))
        self.stream, self.fences, self.shifts, self.epoch = None, (), (), NEVER
        self.check = None
        self._function = function
        self.launch = function.prepare(1, tuple(tensor.address for tensor in tensors))

    def work_on(self, tensors):
        return Launch(self._function, tensors)


class Planned(ReadyWork):
    """A launch for any two tensors: their addresses are filled in."""

    def __init__(self, device, function, _):
        self.device, self.label, self.program = device, "mix", Future()
        self.roles = (Role(tw.Mode.UPDATE, "z"), Role(tw.Mode.READ, "x"))
        self.stream, self.fences, self.shifts, self.epoch = None, (), (), NEVER
        self.check = None
        self._function = function
        self.launch = function.prepare_for(1, (0, 0), (Filled(0, 0), Filled(1, 1)))

    def work_on(self, tensors):
        return Launch(self._function, tensors)


def mix_kernel(driver, _blocks, z, x):
    def floats(parameter):
        return driver.at(int.from_bytes(parameter, "little"), 32).view(np.float32)

    floats(z)[:] = floats(z) * 3 + floats(x) + 1


class Dropped:
    """A note of a finaliser that asks for nothing."""

    def settle(self):
        pass


class Bench:
    """Four tensors and three streams, and launches on them, ready or not."""

    def __init__(self, seed, ready):
        self.driver = RecordingDriver(seed)
        self.driver.kernels["mix"] = ((8, 8), mix_kernel)
        self.device = object.__new__(tw.Device)
        self.device.attach("cuda", 0, CudaBackend(self.driver))
        self.function = CudaFunction(self.driver, b"", "mix", (POINTER, POINTER))
        self.streams = [self.device.stream, *(self.device.new_stream() for _ in range(2))]
        self.tensors = [tw.full(8, n, f32, device=self.device) for n in range(4)]
        for tensor in self.tensors:
            tensor.wait()
            with self.device.lock:
                tensor.storage.materialise(self.device.stream)
        self.ready = ready
        self.kept = []
        self._works = {}

    def build(self, z, x):
        tensors = (self.tensors[z], self.tensors[x])
        if self.ready is None:
            accesses = (updates(tensors[0]), reads(tensors[1]))
            work = Launch(self.function, tensors)
            return tw.WorkOp("mix", self.device, accesses, work, None)
        if (z, x) not in self._works:
            self._works[z, x] = self.ready(self.device, self.function, tensors)
        return ReadyOp().build(self._works[z, x], tensors, None, depth=1)

    def act(self, action):
        """One change; gives whether it was refused, because something built holds the tensors."""
        stream, z, x, how = action
        try:
            if z == x:
                self.tensors[z].numpy()
            else:
                getattr(self, how)(None if stream == 3 else self.streams[stream], z, x)
        except BorrowError:
            return True
        return False

    def submit(self, stream, z, x):
        self.build(z, x).submit(stream)

    def close(self, stream, z, x):
        self.build(z, x).close()

    def conflict(self, stream, z, x):
        operation = self.build(z, x)
        with pytest.raises(BorrowError):
            self.build(z, x)
        operation.submit(stream)

    def zip(self, stream, z, x):
        others = [n for n in range(4) if n not in (z, x)]
        first = self.build(z, x)
        try:
            both = zip_operations(first, self.build(others[0], x))
        except BorrowError:
            first.close()
            raise
        both.submit(stream)

    def then(self, stream, z, x):
        self.build(z, x).then(lambda _: self.build(x, z)).submit(stream)

    def build_and_keep(self, stream, z, x):
        self.kept.append((self.build(z, x), stream))

    def submit_all_kept(self, *_):
        for operation, stream in self.kept:
            if operation.state is tw.State.BUILT:
                operation.submit(stream)  # and stays where it is

    def submit_when_something_was_dropped(self, stream, z, x):
        """What a finaliser has left to be done is done by the submission."""
        operation = self.build(z, x)
        self.device.notes.put(Dropped())
        operation.submit(stream)
        self.kept.append((operation, stream))

    def run(self, plan):
        refused = []
        for action in plan:
            refused.append(self.act(action))
            assert all_at_home(self)
        for operation, _ in self.kept:
            operation.close()
        values = [tensor.numpy().tolist() for tensor in self.tensors]
        calls = self.driver.calls("launch", "wait", "record", "create_event", "synchronize")
        return values, refused, [(entry[0], *map(str, entry[1:])) for entry in calls]


def all_at_home(bench):
    """What a home promises is so."""
    for tensor in bench.tensors:
        storage = tensor.storage
        if storage.home is not None:
            uses = (*storage._writes, *storage._reads)
            assert all(u.fence.stream is storage.home and u.fence.outcome is None for u in uses)
            assert not storage.is_lazy
            assert not storage.shares
    return True


CHANGES = (
    "submit", "submit", "submit", "close", "conflict", "zip", "then", "build_and_keep",
    "submit_all_kept", "submit_when_something_was_dropped",
)  # fmt: skip
ACTIONS = st.tuples(
    st.sampled_from((0, 0, 1, 2, 3, 3)),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(CHANGES),
)


@pytest.mark.parametrize("ready", [Ready, Planned])
@settings(max_examples=80, deadline=None)
@given(plan=st.lists(ACTIONS, max_size=30), seed=st.integers(0, 2**16))
def test_the_driver_sees_the_same(ready, plan, seed):
    assert Bench(seed, ready).run(plan) == Bench(seed, None).run(plan)


@pytest.fixture
def bench():
    return Bench(0, Ready)


def test_a_thousand_launches_move_one_fence_on(bench):
    for _ in range(1000):
        bench.build(0, 1).submit()
        bench.build(2, 0).submit()
    storage = bench.tensors[0].storage
    assert len(storage._writes) + len(storage._reads) <= 4
    assert bench.driver.calls("create_event", "record", "wait", "query") == []
    assert max(use.fence.count for use in storage._reads) == bench.device.stream.issued


def test_a_launch_that_fails_is_known_to_all(bench, monkeypatch):
    for _ in range(3):
        bench.build(0, 1).submit()
    bench.tensors[0].numpy()

    def fail(*_):
        raise DriverError("no")

    ready = bench._works[0, 1]
    works = ready.launch
    ready.launch = fail
    operation = bench.build(0, 1)
    with pytest.raises(DriverError, match="no"):
        operation.submit()
    with pytest.raises(DriverError, match="no"):
        operation.sync()
    with pytest.raises(DriverError, match="no"):
        bench.tensors[0].numpy()
    with pytest.raises(DriverError, match="no"):
        bench.build(2, 0)
    ready.launch = works
    bench.build(3, 1).submit()
    assert bench.tensors[3].numpy()[0] == 3 * 3 + 1 + 1


def test_a_dropped_one_gives_its_borrows_back(bench):
    for _ in range(3):
        bench.build(0, 1).submit()
    operation = bench.build(0, 1)
    with pytest.warns(RuntimeWarning, match="was never run"):
        del operation
    gc.collect()
    bench.build(1, 0).submit()
    bench.build(0, 1).submit()


def test_a_forked_child_is_refused(bench):
    for _ in range(3):
        bench.build(0, 1).submit()
    bench.device.restart()
    with pytest.raises(DriverError, match="CUDA does not survive a fork"):
        bench.build(0, 1)


def test_a_view_with_a_fence_of_its_own(bench):
    z, x = bench.tensors[0], bench.tensors[1]
    for _ in range(3):
        bench.build(0, 1).submit()
    low = z[:4]
    work = Launch(bench.function, (low, x))
    tw.WorkOp("part", bench.device, (updates(low), reads(x)), work, None).submit(bench.streams[1])
    assert len(bench.driver.calls("wait")) == 1
    bench.build(0, 1).submit()
    assert len(bench.driver.calls("wait")) == 2

"""Launches on a GPU on paper, ready or looked at every time: the same bench for both."""

from __future__ import annotations

import gc
from concurrent.futures import Future

import numpy as np
import pytest
from runtime_doubles import RecordingDriver, reads, updates
from tilewright.runtime.ops.newcomers import NewcomerOp
from tilewright.runtime.ops.per_tensor import spell_out
from tilewright.runtime.ops.ready import ReadyOp
from tilewright.runtime.ops.ready_work import NEVER, ReadyWork, RepeatedWork
from tilewright.runtime.order.alone import alone
from tilewright.runtime.order.tickets import Role

from tilewright import runtime as tw
from tilewright.backends.cuda.device import CudaBackend
from tilewright.backends.cuda.module import POINTER, CudaFunction
from tilewright.dtypes import f32
from tilewright.errors import BorrowError, LaunchError
from tilewright.runtime.devices.function import Filled
from tilewright.runtime.ops.zip import zip_operations


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

    operation = ReadyOp

    def __init__(self, device, function, tensors):
        self.device, self.label, self.program = device, "mix", Future()
        self.roles = (Role(tw.Mode.UPDATE, "z"), Role(tw.Mode.READ, "x"))
        self.stream, self.fences, self.shifts, self.epoch = None, (), (), NEVER
        self.caller, self.check, self.guests = None, None, None
        self._function = function
        self.launch = function.prepare(1, tuple(tensor.address for tensor in tensors))

    def work_on(self, tensors):
        return Launch(self._function, tensors)


class Planned(ReadyWork):
    """A launch for any two tensors: their addresses are filled in."""

    operation = ReadyOp

    def __init__(self, device, function, _):
        self.device, self.label, self.program = device, "mix", Future()
        self.roles = (Role(tw.Mode.UPDATE, "z"), Role(tw.Mode.READ, "x"))
        self.each = spell_out((True, False))
        self.stream, self.fences, self.shifts, self.epoch = None, (), (), NEVER
        self.caller, self.check, self.guests = None, None, None
        self._function = function
        self.launch = function.prepare_for(1, (0, 0), (Filled(0, 0), Filled(1, 1)))

    def work_on(self, tensors):
        return Launch(self._function, tensors)


class Newcomers(Planned):
    """The same, for operations that take any tensor to be new."""

    operation = NewcomerOp


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
                alone(self.device, tensor.storage.materialise, self.device.stream)
        self.ready = ready
        self.kept = []
        self._works = {}

    def build(self, z, x):
        tensors = (self.tensors[z], self.tensors[x])
        if self.ready is None:
            accesses = (updates(tensors[0]), reads(tensors[1]))
            work = Launch(self.function, tensors)
            return tw.WorkOp("mix", self.device, accesses, work, None)
        if any(tensor.storage.is_lazy for tensor in tensors):  # there is no address to prepare for
            planned = Planned(self.device, self.function, tensors)
            return self.ready.operation().build(planned, tensors, None, depth=1)
        if (z, x) not in self._works:
            self._works[z, x] = self.ready(self.device, self.function, tensors)
        return self.ready.operation().build(self._works[z, x], tensors, None, depth=1)

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

    def sync(self, stream, z, x):
        operation = self.build(z, x)
        if stream is None:
            operation.sync()
        else:
            operation.sync_on(stream)
        with pytest.raises(LaunchError, match="handed its result over already"):
            operation.sync()

    def renew(self, stream, z, x):
        """Another tensor in the place of one, whose memory goes back when it was used last."""
        for work in [work for work in self._works if z in work]:
            del self._works[work]
        self.tensors[z] = tw.empty(8, f32, device=self.device)

    def submit_on_new(self, stream, z, x):
        self.renew(stream, z, x)
        self.build(z, x).submit(stream)

    def close_on_new(self, stream, z, x):
        self.renew(stream, z, x)
        self.build(z, x).close()

    def close(self, stream, z, x):
        self.build(z, x).close()

    def conflict(self, stream, z, x):
        operation = self.build(z, x)
        with pytest.raises(BorrowError):
            self.build(z, x)
        operation.submit(stream)

    def build_zip(self, z, x):
        others = [n for n in range(4) if n not in (z, x)]
        first = self.build(z, x)
        try:
            return zip_operations(first, self.build(others[0], x))
        except BorrowError:
            first.close()
            raise

    def zip(self, stream, z, x):
        self.build_zip(z, x).submit(stream)

    def zip_and_keep(self, stream, z, x):
        self.kept.append((self.build_zip(z, x), stream))

    def then(self, stream, z, x):
        self.build(z, x).then(lambda _: self.build(x, z)).submit(stream)

    def build_and_keep(self, stream, z, x):
        self.kept.append((self.build(z, x), stream))

    def submit_all_kept(self, *_):
        for operation, stream in self.kept:
            if operation.state is tw.State.BUILT:
                operation.submit(stream)  # and stays where it is

    def sync_all_kept(self, *_):
        for operation, _ in self.kept:
            if operation.state in (tw.State.BUILT, tw.State.SUBMITTED):
                operation.sync()

    def submit_when_something_was_dropped(self, stream, z, x):
        """What a finaliser has left to be done is done by the submission."""
        operation = self.build(z, x)
        self.device.deferred.append(Dropped())
        operation.submit(stream)
        self.kept.append((operation, stream))

    def run(self, plan):
        refused = []
        for action in plan:
            refused.append(self.act(action))
            assert all_at_home(self)
        while self.kept:
            self.kept.pop()[0].close()
        values = [tensor.numpy().tolist() for tensor in self.tensors]
        calls = self.driver.calls("launch", "wait", "record", "create_event", "synchronize")
        calls += self.driver.calls("allocate")
        return values, refused, [(entry[0], *map(str, entry[1:])) for entry in calls], self.freed()

    def freed(self):
        """The addresses of all that was replaced; on paper a use behind its end is an error."""
        live = sum(not tensor.storage.is_lazy for tensor in self.tensors)
        for collect in (lambda: None, gc.collect):  # an exception may have kept something
            collect()
            self.device.synchronize()
            found = sorted(address for _, _, address in self.driver.calls("free"))
            if len(self.driver.calls("allocate")) - len(found) == live:
                break
        return found


def all_at_home(bench):
    """What a home promises is so."""
    for tensor in bench.tensors:
        storage = tensor.storage
        if storage.home is not None:
            uses = (*storage._writes, *storage._reads)
            assert all(u.fence.stream is storage.home and u.fence.outcome is None for u in uses)
            assert not storage.is_lazy
            assert not storage.is_fresh
            assert not storage.shares
        else:
            assert not storage.written_at_home
            assert not storage.read_at_home
    return True

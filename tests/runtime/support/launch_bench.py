"""Launches on a GPU on paper: bound to tensors, for any tensors, or with work of their own."""

from __future__ import annotations

import runtime_names as tw
from paper_launches import FunctionWork, load, mix_kernel, paper_device
from runtime_doubles import RecordingDriver, reads, updates

from tilewright.dtypes import f32
from tilewright.runtime.devices.function import Filled
from tilewright.runtime.ops.launch import LaunchOp
from tilewright.runtime.ops.work import SharedWork
from tilewright.runtime.order.borrow import Role, uses_of


class Planned(SharedWork):
    """A launch for any two tensors: their addresses are filled in."""

    programs, parts = (), ()

    def __init__(self, device, function, tensors):
        self.label, self.device, self.foreign, self.written = "mix", device, (), ()
        self.caller = self.check = None
        self.roles = (Role(tw.Mode.UPDATE, "z"), Role(tw.Mode.READ, "x"))
        self._function = function
        self.launch = self._prepare(function, tensors)

    def _prepare(self, function, _):
        return function.prepare_for(1, (0, 0), (Filled(0, 0), Filled(1, 1)))

    def work_on(self, tensors):
        return FunctionWork(self._function, tensors)


class Bound(Planned):
    """A launch that is bound to the addresses of two tensors."""

    def _prepare(self, function, tensors):
        return function.prepare(1, tuple(tensor.address for tensor in tensors))


class Bench:
    """Four tensors and three streams, and launches on them; without a kind, of single works."""

    def __init__(self, seed, kind):
        self.driver = RecordingDriver(seed)
        self.device = paper_device(self.driver)
        self.function = load(self.driver, "mix", mix_kernel)
        self.streams = [self.device.stream, *(self.device.new_stream() for _ in range(2))]
        self.tensors = [tw.full(8, n, f32, device=self.device) for n in range(4)]
        for tensor in self.tensors:
            tensor.wait()
            with self.device.lock:
                tensor.storage.materialise(self.device.stream)
        self._kind = kind
        self._works = {}

    def build(self, z, x):
        tensors = (self.tensors[z], self.tensors[x])
        if self._kind is None:
            return self.build_once(*tensors)
        if (z, x) not in self._works:
            self._works[z, x] = self._kind(self.device, self.function, tensors)
        return build(self._works[z, x], tensors)

    def build_once(self, z, x, mode=updates):
        """An operation with work of its own, on any tensors."""
        work = FunctionWork(self.function, (z, x))
        return tw.make_operation("mix", self.device, (mode(z), reads(x)), work, None)


def build(work, tensors):
    """An operation for work that several share."""
    return LaunchOp().build(work, tensors, uses_of(tensors, work.roles), None, (), 1)

"""Random torch programs whose memory is given out again at once, against vector clocks.

torch's allocator is played by `torch_blocks`. Every tensor is filled by torch when it comes, so
memory that is given out too early is seen as well as two launches that are not in order. A
kernel touches the tensors that were passed, and the addresses that it gets are checked.
"""

from __future__ import annotations

import gc
import importlib
import os
import random

import pytest
from torch_blocks import UNITS, Blocks, TorchsDriver, Use, bytes_of

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N
from tilewright.runtime.interop import array as foreign_arrays
from tilewright.runtime.interop import foreign, passed

torch = pytest.importorskip("torch", reason="needs torch")
cuda_device = importlib.import_module("tilewright.backends.cuda.device")

PROGRAMS, CHANGES = 12, int(os.environ.get("MODEL_COUNT", "300"))
TILE = 8


def add_floats(z: Mut[f32, B], x: Ref[f32, N], y: Ref[f32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


def add_integers(z: Mut[i32, B], x: Ref[i32, N], y: Ref[i32, N]) -> None:
    z.store(x.load_like(z) + y.load_like(z))


class Program:
    """One program; a change is a method, drawn by weight."""

    WEIGHTS = {
        "make": 40, "drop": 30, "cut": 10, "launch": 60, "again": 30, "build": 5, "submit_built": 6,
        "close_built": 4, "keep": 6, "let_go": 4, "launch_kept": 8, "switch": 8, "step": 12,
        "synchronize": 1, "collect": 2, "swap": 2, "hide": 3, "end_ranges": 1,
    }  # fmt: skip

    def __init__(self, seed, lib, device, monkeypatch):
        self.draw = random.Random(seed)
        self.lib, self.driver, self.device = lib, lib.driver, device
        self.driver.patient = self.draw.random() < 0.5
        self.theirs = [lib.stream, self.driver.create_stream()]
        self.ours = [device.new_stream() for _ in range(2)]
        self.kernels = {torch.float32: tw.kernel(add_floats), torch.int32: tw.kernel(add_integers)}
        self.built = []
        self.aside = self.draw.choice((0.0, 0.05, 0.3))
        self.constants = {}
        self.tensors = []
        self.kept = []
        self.last = ()
        self.blocks = Blocks(monkeypatch, self)
        self.launches = self.refused = 0

    def run(self, changes):
        names, weights = zip(*self.WEIGHTS.items(), strict=True)
        for name in self.draw.choices(names, weights, k=changes):
            getattr(self, name)()
            assert not self.driver.problems, (name, self.driver.problems)
        self.finish()

    def finish(self):
        while self.built:
            self.built.pop()[0].close()
        self.tensors.clear()
        self.kept.clear()
        self.constants.clear()
        self.last = ()
        gc.collect()
        self.driver.patient = False
        for _ in range(3):
            self.device.synchronize()
        assert not self.driver.problems, self.driver.problems
        assert self.blocks.unused | set(self.blocks.free) == set(range(UNITS)), "memory is kept"
        for group in foreign.RANGES.groups:
            assert group.is_over, group
            assert not group.borrows()
            assert not group.count

    def held(self):
        """Uses that built operations and handles keep."""
        held = [use for _, uses in self.built for use in uses] + [use for _, use, _ in self.kept]
        return [use for use in held if not use.is_elsewhere()]

    # The changes.

    def make(self):
        if len(self.tensors) > 10:
            self.drop()
        dtype = self.draw.choice((torch.float32, torch.float32, torch.int32))
        whole = self.blocks.take(self.draw.choice((1, 1, 1, 2, 4)), self.lib.stream, dtype)
        if whole is None:
            return
        self.driver.fill_by_torch(self.lib.stream, whole)
        self.tensors.append(whole)

    def drop(self):
        if self.tensors:
            self.tensors.pop(self.draw.randrange(len(self.tensors)))

    def cut(self):
        """Another tensor on the memory of one."""
        if not self.tensors:
            return
        tensor = self.draw.choice(self.tensors)
        half = len(tensor) // 2
        if half >= TILE:
            parts = (tensor[:], tensor[:half], tensor[half:], tensor[::2], tensor[1::2],
                     tensor.view(torch.int32))  # fmt: skip
            self.tensors.append(self.draw.choice(parts))

    def hide(self):
        """Leave a tensor to the collector."""
        if self.tensors:
            cycle = [self.tensors.pop()]
            cycle.append(cycle)

    def swap(self):
        if len(self.tensors) > 1:
            one, other = self.draw.sample(self.tensors, 2)
            if one.dtype is other.dtype:
                one.data = other.data
                self.last = ()

    def keep(self):
        if self.tensors:
            tensor = self.draw.choice(self.tensors)
            handle = tw.partition(tensor, TILE).tensor
            use = Use.of(tensor, True)
            self.kept.append((handle, use, tensor.dtype))

    def launch_kept(self):
        """By a handle whose tensor may be gone."""
        if not self.kept or self.built:
            return
        handle, use, dtype = self.draw.choice(self.kept)
        usual = self.constant(dtype, len(use.touched) // 4)
        operation = self.kernels[dtype](handle.partition(TILE), usual, usual)
        uses = (use, *self.uses((usual, usual, usual))[1:])
        self.put_unless_moved(operation, uses)

    def let_go(self):
        if self.kept:
            self.kept.pop(self.draw.randrange(len(self.kept)))

    def choose(self):
        """An output and two inputs, with what is known of them; or nothing."""
        if not self.tensors:
            return ()
        z = self.draw.choice(self.tensors)
        alike = [one for one in self.tensors if one.dtype is z.dtype and len(one) == len(z)]
        if self.draw.random() < 0.9:
            alike = [one for one in alike if bytes_of(one).isdisjoint(bytes_of(z))]
        usual = self.constant(z.dtype, len(z))
        alike += [usual] * 4
        return z, self.draw.choice(alike), self.draw.choice(alike)

    def constant(self, dtype, length):
        found = self.constants.get((dtype, length))
        if found is None:
            found = self.constants[dtype, length] = torch.ones(length, dtype=dtype)
        return found

    def uses(self, tensors):
        return tuple(Use.of(one, number == 0) for number, one in enumerate(tensors))

    def begin(self, tensors):
        """Build the operation if it may be, and else see it refused."""
        uses = self.uses(tensors)
        z, x, y = tensors
        held = [use for _, others in self.built for use in others]
        meets = any(a.meets(b) for a in uses for b in held)
        meets = meets or any(uses[0].meets(one) for one in uses[1:])
        may_meet = any(a.may_meet(b) for a in uses for b in held)
        may_meet = may_meet or any(uses[0].may_meet(one) for one in uses[1:])
        try:
            operation = self.kernels[z.dtype](tw.partition(z, TILE), x, y)
        except tw.BorrowError:
            assert may_meet, "no operation holds that"
            self.refused += 1
            return None
        assert not meets, "two may not be built at once"
        return operation, uses

    def put(self, operation, uses, tensors=()):
        self.driver.uses = uses
        before = [one._version for one in tensors[:1]]
        count = len(self.driver.calls("launch"))
        operation.submit(self.draw.choice(self.ours) if self.draw.random() < self.aside else None)
        assert len(self.driver.calls("launch")) == count + 1
        self.launches += 1
        if tensors:
            assert tensors[0]._version == before[0] + 1

    def launch(self):
        tensors = self.choose()
        if not tensors:
            return
        self.last = tensors if self.draw.random() < 0.3 else ()
        made = self.begin(tensors)
        if made is not None:
            self.put(*made, tensors)

    def again(self):
        if self.last:
            made = self.begin(self.last)
            if made is not None:
                self.put(*made, self.last)

    def build(self):
        tensors = self.choose()
        if tensors:
            made = self.begin(tensors)
            if made is not None:
                self.built.append(made)

    def put_unless_moved(self, operation, uses):
        """As `put`; one may be refused because its array has other memory now."""
        try:
            self.put(operation, uses)
        except tw.BorrowError as error:
            if "has been moved" not in str(error):
                raise

    def submit_built(self):
        if self.built:
            operation, uses = self.built.pop(self.draw.randrange(len(self.built)))
            self.put_unless_moved(operation, uses)

    def close_built(self):
        if self.built:
            operation, _ = self.built.pop(self.draw.randrange(len(self.built)))
            operation.close()

    def switch(self):
        """torch goes on on another stream, which waits for nothing."""
        self.lib.stream = self.draw.choice(self.theirs)

    def step(self):
        for stream in self.draw.choices(self.driver.used_streams, k=6):
            self.driver.step(stream)

    def synchronize(self):
        self.device.synchronize()

    def collect(self):
        gc.collect()

    def end_ranges(self):
        with self.device.lock:
            for group in list(foreign.RANGES.groups):
                foreign.RANGES.end(group)


@pytest.fixture
def driver(driver, monkeypatch):
    del driver
    double = TorchsDriver()
    monkeypatch.setattr(cuda_device, "open_driver", lambda _: double)
    return double


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_every_conflict_is_ordered_and_memory_goes_back(lib, cuda, monkeypatch, number):
    monkeypatch.setattr(foreign, "MANY_LEFT", 4 if number % 2 else 64)
    monkeypatch.setattr(foreign_arrays, "_PLACES", 4 if number % 4 == 0 else 64)
    monkeypatch.setattr(passed, "_MANY", 3 if number % 5 == 0 else 64)
    program = Program(number, lib, cuda, monkeypatch)
    gc.disable()  # it runs when the program says so
    try:
        program.run(CHANGES)
    finally:
        gc.enable()
    assert program.launches > CHANGES // 10
    assert not program.aside or lib.driver.waits_put

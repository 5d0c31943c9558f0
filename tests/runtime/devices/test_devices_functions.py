"""Kernels as CPU functions: arguments of the executor, and the lifetime of its memory."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import runtime_names as tw
from runtime_doubles import reads, writes

from tilewright.backends.cpu.device import CpuFunction
from tilewright.errors import LaunchError, OutOfBoundsError


class AddOne:
    """Stands for a compiled kernel: z = x + 1, and block 3 reports a failure."""

    def __init__(self):
        self.calls = []

    def run(self, grid, arguments, memories, *, threads=None, stop=None):
        self.calls.append((grid, arguments, threads))
        z, x, *record = (memory.array for memory in memories)
        assert [memory.address for memory in memories] == [
            memory.array.ctypes.data for memory in memories
        ]
        np.add(x.view(np.float32), 1, out=z.view(np.float32))
        if record and grid[0] > 3:
            record[0].view(np.int32)[:4] = (1, 5, 3, 3)


class Launch:
    def __init__(self, function, blocks, z, x, record=None):
        self.function, self.blocks, self.z, self.x, self.record = function, blocks, z, x, record

    def enqueue(self, stream):
        memories = [self.z.storage, self.x.storage]
        arguments = [self.z.address, self.x.address]
        if self.record is not None:
            memories.append(self.record)
            arguments.append(self.record.address)
        self.function.launch(stream, self.blocks, tuple(arguments), tuple(memories))


def launch(function, blocks, z, x, *, checked=False):
    record = z.device.new_record() if checked else None

    def failure():
        words = record.read()
        return OutOfBoundsError(f"index {words[2]} of {words[3]}") if words[0] else None

    work = Launch(function, blocks, z, x, record)
    accesses = (writes(z), reads(x))
    check = failure if checked else None
    return tw.make_operation("add_one", z.device, accesses, work, z, failure=check)


def test_a_launch(cpu):
    kernel = AddOne()
    x, z = tw.full(8, 2), tw.zeros(8)
    launch(CpuFunction(kernel, threads=1), 4, z, x).sync()
    assert z.numpy().tolist() == [3.0] * 8
    assert kernel.calls == [((4, 1, 1), (z.address, x.address), 1)]


def test_no_blocks_are_no_launch(cpu):
    kernel = AddOne()
    launch(CpuFunction(kernel), 0, tw.zeros(0), tw.zeros(0)).sync()
    assert kernel.calls == []


def test_memory_lives_until_the_launch_has_run(cpu):
    z = tw.zeros(8)
    hold = cpu.stream.hold()
    launch(CpuFunction(AddOne()), 2, z, tw.full(8, 4)).submit()
    gc.collect()
    hold.release()
    assert z.numpy()[0] == 5


@pytest.mark.parametrize(("blocks", "fails"), [(3, False), (4, True)])
def test_the_record_decides(cpu, blocks, fails):
    x, z = tw.full(8, 1), tw.zeros(8)
    op = launch(CpuFunction(AddOne()), blocks, z, x, checked=True).submit()
    if fails:
        with pytest.raises(OutOfBoundsError, match="index 3 of 3"):
            op.sync()
    else:
        assert op.sync() is z


def test_a_kernel_that_raises_fails_its_operation(cpu):
    class Broken:
        def run(self, grid, arguments, memories, *, threads=None, stop=None):
            raise LaunchError("no such thing")

    x, z = tw.full(8, 1), tw.zeros(8)
    launch(CpuFunction(Broken()), 1, z, x).submit()
    with pytest.raises(LaunchError, match="no such thing"):
        z.numpy()

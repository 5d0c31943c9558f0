"""Calls of the driver that fail: the error belongs to the calling operation, and all goes on.

On a GPU on paper each call fails once, at every place where an operation may need it. Afterwards
nothing is held, no lock is taken, and the same operations do what they should.
"""

from __future__ import annotations

import asyncio
import gc

import numpy as np
import pytest
import runtime_names as tw
from paper_launches import FunctionWork, copy_kernel, load, mix_kernel
from runtime_doubles import reads, updates, writes

from tilewright.errors import DriverError, OutOfMemoryError


@pytest.fixture
def kernels(driver, cuda):
    def build(name, kernel, mode):
        function = load(driver, name, kernel)

        def made(z, x):
            work = FunctionWork(function, (z, x))
            return tw.make_operation(name, cuda, (mode(z), reads(x)), work, z)

        return made

    return build("copy", copy_kernel, writes), build("mix", mix_kernel, updates)


class Faults:
    """Makes one call of the driver fail, once or a number of times."""

    def __init__(self, driver):
        self.driver = driver

    def fail(self, name, error, times=1):
        working, left = getattr(self.driver, name), [times]

        def call(*args):
            if not left[0]:
                return working(*args)
            left[0] -= 1
            raise error()

        setattr(self.driver, name, call)


@pytest.fixture
def faults(driver):
    return Faults(driver)


def broken():
    return DriverError("the call failed with CUDA_ERROR_UNKNOWN (999)")


def no_room():
    return OutOfMemoryError("the GPU has no room")


def numbers():
    return tw.from_numpy(np.arange(8, dtype=np.float32))


@pytest.mark.parametrize(
    ("call", "error", "times"),
    [
        ("allocate", broken, 1),
        ("allocate", no_room, 2),  # dropped memory is freed, and it is tried once more
        ("fill", broken, 1),
        ("copy_in", broken, 1),
        ("launch", broken, 1),
    ],
)
def test_a_submission_that_fails_holds_nothing(kernels, faults, call, error, times):
    copy, _ = kernels
    x, z = numbers(), tw.zeros(8)
    faults.fail(call, error, times)
    op = copy(z, x)
    with pytest.raises(type(error())) as caught:
        op.submit()
    with pytest.raises(type(error())) as again:
        op.sync()
    assert again.value is caught.value
    copy(z, x).sync()  # whatever half was done
    assert z.numpy().tolist() == x.numpy().tolist() == list(range(8))


def test_room_is_made_before_a_refusal(driver, kernels, faults):
    copy, _ = kernels
    x, z = numbers(), tw.zeros(8)
    faults.fail("allocate", no_room)
    copy(z, x).sync()
    assert driver.calls("trim")
    assert z.numpy().tolist() == list(range(8))


@pytest.mark.parametrize("call", ["create_event", "record_event", "wait_event"])
def test_a_wait_that_cannot_be_inserted(cuda, kernels, faults, call):
    copy, _ = kernels
    first, second = cuda.new_stream(), cuda.new_stream()
    x, y, z = numbers(), tw.zeros(8), tw.zeros(8)
    copy(y, x).submit(first)
    faults.fail(call, broken)
    with pytest.raises(DriverError, match="999"):
        copy(z, y).submit(second)
    copy(z, y).submit(second)  # and this one waits
    assert z.numpy().tolist() == list(range(8))


@pytest.mark.parametrize("call", ["copy_out", "synchronize_stream"])
def test_a_read_that_fails_can_be_repeated(kernels, faults, call):
    copy, _ = kernels
    x, z = numbers(), tw.zeros(8)
    copy(z, x).submit()
    faults.fail(call, broken)
    with pytest.raises(DriverError, match="999"):
        z.numpy()
    assert z.numpy().tolist() == list(range(8))


def test_what_a_refused_launch_may_have_written_is_not_trusted(kernels, faults):
    copy, mix = kernels
    x, z = numbers(), tw.zeros(8)
    x.wait(), z.wait()
    faults.fail("launch", broken)
    with pytest.raises(DriverError):
        mix(z, x).submit()
    for use in (z.numpy, lambda: copy(x, z)):
        with pytest.raises(DriverError, match="999"):
            use()
    copy(z, x).submit()
    assert z.numpy().tolist() == list(range(8))


@pytest.mark.parametrize("run", [lambda op: op.sync(), lambda op: asyncio.run(_awaited(op))])
def test_a_launch_that_fails_inside_a_chain(kernels, faults, run):
    """Steps before it have run, steps behind it do not, and nothing is held."""
    copy, mix = kernels
    x, y, z = numbers(), tw.zeros(8), tw.zeros(8)
    reached = []

    def second(_):
        faults.fail("launch", broken)
        return copy(z, y)

    def third(_):
        reached.append(3)
        return mix(z, x)

    with pytest.raises(DriverError, match="999"):
        run(copy(y, x).then(second).then(third))
    assert not reached
    assert y.numpy().tolist() == list(range(8))
    copy(z, y).sync()
    assert z.numpy().tolist() == list(range(8))


async def _awaited(operation):
    await operation


def test_a_graph_that_cannot_be_built_or_launched(driver, kernels, faults):
    copy, mix = kernels
    x, z = numbers(), tw.zeros(8)
    for call in ("create_graph", "add_launch_node", "instantiate_graph"):
        faults.fail(call, broken)
        with pytest.raises(DriverError, match="999"):
            copy(z, x).graph()
    g = copy(z, x).graph()
    faults.fail("launch_graph", broken)
    with pytest.raises(DriverError, match="999"):
        g.launch().submit()
    g.launch().sync()
    mix(x, z).sync()
    assert z.numpy().tolist() == list(range(8))
    del g
    gc.collect()
    for _ in range(2):
        z.device.synchronize()
    assert driver.graphs == driver.executables == []


def _copy_and_read(copy, z, x):
    copy(z, x).submit()
    return z.numpy()


def test_every_byte_comes_back_after_faults(driver, cuda, kernels, faults):
    copy, _ = kernels
    for call in ("allocate", "fill", "launch", "copy_out"):
        x, z = tw.ones(8), tw.zeros(8)
        faults.fail(call, broken)
        with pytest.raises(DriverError):
            _copy_and_read(copy, z, x)
    del x, z
    gc.collect()
    cuda.synchronize()
    with cuda.lock:
        cuda.empty_free_lists()
    for stream in driver.streams:
        driver.synchronize_stream(stream)
    assert driver.memory == {}

"""Parameters lie in one place for all launches of a function, one behind the other."""

from __future__ import annotations

import pytest
from launch_bench import Bench, Bound, Planned, build

from tilewright.backends.cuda.external import CudaExternalFunction
from tilewright.backends.cuda.module import POINTER
from tilewright.errors import DriverError, LaunchError
from tilewright.runtime.devices.function import LaunchShape

PTX = b".version 7.8\n.target sm_80\n"


def by_plan(bench):
    work = Planned(bench.device, bench.function, None)
    return lambda z, x: build(work, (bench.tensors[z], bench.tensors[x])).submit()


def by_bound_launch(bench):
    def submit(z, x):
        tensors = (bench.tensors[z], bench.tensors[x])
        build(Bound(bench.device, bench.function, tensors), tensors).submit()

    return submit


def by_work(bench):
    return lambda z, x: bench.build(z, x).submit()


def by_external_kernel(bench):
    bench.driver.kernels["other"] = bench.driver.kernels["mix"]
    function = CudaExternalFunction(bench.device, PTX, "other", (POINTER, POINTER))

    def submit(z, x):
        addresses = (bench.tensors[z].address, bench.tensors[x].address)
        with bench.device.lock:
            function.launch(bench.device.stream, LaunchShape.of_blocks(1), addresses)
            bench.device.stream.advance()

    return submit


OPERATIONS = [by_plan, by_bound_launch, by_work]
WAYS = [*((way, "launch") for way in OPERATIONS), (by_external_kernel, "launch_shape")]


def mix(values, z, x):
    values[z] = values[z] * 3 + values[x] + 1


@pytest.mark.parametrize("way", OPERATIONS)
def test_a_launch_in_the_middle_of_another_leaves_its_parameters(way, monkeypatch):
    bench = Bench(0, None)
    submit, call, left = way(bench), bench.driver.launch, [(2, 3)]

    def collected(*args):
        if left:
            with pytest.raises(LaunchError, match="is in the middle of mix"):
                submit(*left.pop())
        call(*args)

    monkeypatch.setattr(bench.driver, "launch", collected)
    values = [0.0, 1.0, 2.0, 3.0]
    for z, x in ((0, 1), (1, 3)):
        submit(z, x)
        mix(values, z, x)
    assert not left
    assert [tensor.numpy()[0] for tensor in bench.tensors] == values


@pytest.mark.parametrize(("way", "name"), WAYS)
def test_a_launch_that_fails_leaves_the_next_one_parameters(way, name, monkeypatch):
    bench = Bench(0, None)
    submit = way(bench)

    def refuse(*_):
        raise DriverError("no")

    with monkeypatch.context() as patch:
        patch.setattr(bench.driver, name, refuse)
        with pytest.raises(DriverError):
            submit(0, 1)
    values = [0.0, 1.0, 2.0, 3.0]
    for _ in range(2):
        submit(2, 3)
        mix(values, 2, 3)
    assert bench.tensors[2].numpy()[0] == values[2]

"""Parameters of launches: their bytes, and the one place for all launches of a function."""

from __future__ import annotations

import struct

import pytest
from launch_bench import Bench, Bound, Planned, build
from paper_launches import copy_kernel

from tilewright.backends.cuda.external import CudaExternalFunction
from tilewright.backends.cuda.module import POINTER, CudaFunction, Packer
from tilewright.dtypes import Element
from tilewright.errors import DriverError, InternalError, LaunchError
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


class TestBytes:
    """Each value in the bytes of its kind."""

    def test_every_kind(self):
        kinds = (POINTER, Element.I32, Element.I64, Element.F32, Element.F16, Element.BF16)
        kinds += (Element.F64, Element.I1, Element.I8, Element.I16, Element.F8E4M3FN)
        packer = Packer(kinds)
        packer.pack((2**40, -5, -(2**40), 1.5, 0.5, 2.0, 0.1, True, -1, 300, 1.0))
        expected = [
            struct.pack("<Q", 2**40),
            struct.pack("<i", -5),
            struct.pack("<q", -(2**40)),
            struct.pack("<f", 1.5),
            struct.pack("<e", 0.5),
            b"\x00\x40",
            struct.pack("<d", 0.1),
            b"\x01",
            b"\xff",
            struct.pack("<h", 300),
            b"\x38",
        ]
        assert [packer.packed(position) for position in range(len(kinds))] == expected
        assert packer.sizes == (8, 4, 8, 4, 2, 2, 8, 1, 1, 2, 1)

    def test_unsigned_values_keep_their_bits(self):
        packer = Packer((Element.I32, Element.I64, Element.I8))
        packer.pack((2**32 - 1, 2**63, 200))
        assert packer.packed(0) == b"\xff" * 4
        assert packer.packed(1) == b"\0" * 7 + b"\x80"
        assert packer.packed(2) == b"\xc8"

    def test_wrong_number_of_arguments(self):
        with pytest.raises(InternalError, match="1 arguments for 2 parameters"):
            Packer((Element.I32, Element.I32)).pack((1,))

    def test_the_kernels_own_layout_is_checked(self, driver):
        driver.kernels["k"] = ((8, 4), copy_kernel)
        CudaFunction(driver, b"", "k", (POINTER, Element.I32))
        with pytest.raises(InternalError, match=r"parameters of \(8, 4\) bytes"):
            CudaFunction(driver, b"", "k", (POINTER, Element.I64))

"""Kernels that cuTile Python exports run on the CPU backend with the results that NumPy gives."""

from typing import Any

import numpy as np
import pytest
from cutile_kernels import PROGRAMS, VERSIONS, Program

from tilewright.backends.cpu.executor import CpuKernel, compile_module
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.bytecode import decode


def kernel_of(program: Program, version: tuple[int, int]) -> CpuKernel:
    kernels = compile_module(decode(program.export(version)).module)
    return kernels[program.name]


def flat(arguments: tuple[Any, ...]) -> tuple[list[Any], list[KernelMemory]]:
    """Arguments as cuTile Python passes them; Python ints are part of the kernel already."""
    numbers: list[Any] = []
    memories = []
    for item in arguments:
        if isinstance(item, np.ndarray):
            strides = [stride // item.itemsize for stride in item.strides]
            numbers += [item.ctypes.data, *item.shape, *strides]
            memories.append(KernelMemory.of(item))
        elif not isinstance(item, int):
            numbers.append(item.item())
    return numbers, memories


CASES = [
    pytest.param(program, version, id=f"{program.name}-{version[0]}.{version[1]}")
    for program in PROGRAMS.values()
    for version in VERSIONS
    if version >= program.since
]


@pytest.mark.parametrize(("program", "version"), CASES)
def test_the_result_is_numpys(program, version, capfd):
    kernel = kernel_of(program, version)
    arguments = program.arguments()
    expected = program.expect(*program.arguments())
    numbers, memories = flat(arguments)
    kernel.run(program.grid, numbers, memories)
    for place, wanted in expected.items():
        found = arguments[place].astype(np.float64)
        np.testing.assert_allclose(
            found, wanted.astype(np.float64), rtol=program.tolerance, atol=program.tolerance
        )
    assert program.prints in capfd.readouterr().out
    untouched = program.arguments()
    for place, item in enumerate(arguments):
        if isinstance(item, np.ndarray) and place not in expected:
            np.testing.assert_array_equal(item.view(np.uint8), untouched[place].view(np.uint8))


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_race_is_seen_in_them(name):
    program = PROGRAMS[name]
    numbers, memories = flat(program.arguments())
    kernel_of(program, (13, 4)).run(program.grid, numbers, memories, race_check=True)

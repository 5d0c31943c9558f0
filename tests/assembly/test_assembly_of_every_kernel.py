"""Every kernel that the tests and the tour compiled goes through NVIDIA's own tools.

`make test` runs this last, over what the run before it recorded. Optimisation is off: it changes
how fast the code is and how long this takes, not what the assembler accepts. Kernels that differ in
nothing but their names are assembled once, and many are entries of one module, so that a target
takes few runs.
"""

import dataclasses
import functools

import pytest
from recorded_kernels import recorded

from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode.encode import encode
from tilewright.errors import ToolchainError
from tilewright.ir.function import Module
from tilewright.ir.verify import violations
from tilewright.ir.versions import required_version

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
# Kernels of one run: to start tileiras costs little, and a large module more than its parts.
TOGETHER = 100


@pytest.fixture(scope="session")
def kernels(request):
    """Where each kernel stands, and its entries under names of their own."""
    return _kernels(request.config.getoption("--recorded-kernels"))


@functools.cache
def _kernels(folder):
    found, seen, number = {}, set(), 0
    for number, (place, module) in enumerate(recorded(folder), start=1):
        names = [function.name for function in module.functions]
        bare = _encoded(_renamed(module.functions, map(str, range(len(names)))), locations=False)
        if bare.data not in seen:
            seen.add(bare.data)
            found[place] = _renamed(module.functions, (f"{name}_{number}" for name in names))
    assert number > 1000
    return found


def _renamed(functions, names):
    pairs = zip(functions, names, strict=True)
    return tuple(dataclasses.replace(function, name=name) for function, name in pairs)


def _is_for(functions, target):
    """Whether a target has all that a kernel uses; narrow floats are missing on the older ones."""
    return not any(violations(Module(functions), target))


def _encoded(functions, *, locations=True):
    module = Module(tuple(functions))
    return encode(module, required_version(module), locations=locations)


def _refused_alone(chosen, target):
    """Which kernels the assembler does not take by themselves."""
    for place, functions in chosen.items():
        try:
            find_toolchain().assemble(_encoded(functions), target, opt_level=0)
        except ToolchainError as error:
            yield place, str(error)


@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel_assembles(kernels, target):
    chosen = [(place, found) for place, found in kernels.items() if _is_for(found, target)]
    for first in range(0, len(chosen), TOGETHER):
        _assemble(dict(chosen[first : first + TOGETHER]), target)


def _assemble(chosen, target):
    entries = [function for found in chosen.values() for function in found]
    try:
        cubin = find_toolchain().assemble(_encoded(entries), target, opt_level=0)
    except ToolchainError:
        assert dict(_refused_alone(chosen, target)) == {}
        raise
    assert cubin_resources(cubin).keys() == {function.name for function in entries}


def test_every_target_leaves_out_only_what_it_lacks(kernels):
    """The newest target takes all; what an older one lacks, our verifier says of that one alone."""
    assert all(_is_for(found, "sm_120") for found in kernels.values())


def test_nvidias_reader_accepts_every_kernel(kernels):
    entries = [function for found in kernels.values() for function in found]
    text = find_toolchain().disassemble(_encoded(entries))
    missing = [function.name for function in entries if f"entry @{function.name}(" not in text]
    assert missing == []

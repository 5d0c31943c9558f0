"""Every kernel that the tests define at module level goes through the real assembler.

A kernel that is there to be refused, or that cannot be specialised without arguments, is left out;
all others are entries of one module, so that a target takes one run.
"""

import dataclasses
import functools
import importlib.util
import sys
from pathlib import Path

import pytest

from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode.encode import encode
from tilewright.errors import CompileError, LaunchError
from tilewright.ir.function import Module
from tilewright.ir.versions import required_version
from tilewright.jit.defaults import sample_specialization
from tilewright.kernel import Kernel

TESTS = Path(__file__).parents[1]
FOLDERS = ("accept", "gpu", "holes", "jit", "language", "launch")


@functools.cache
def kernels():
    """The kernels of the test modules, each once."""
    found = {}
    before = list(sys.path), dict(sys.modules)
    try:
        for path in (file for folder in FOLDERS for file in sorted((TESTS / folder).glob("*.py"))):
            sys.path.insert(0, str(path.parent))  # for the helpers beside it
            spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            found.update((id(k), k) for k in vars(module).values() if isinstance(k, Kernel))
    finally:
        sys.path[:], added = before[0], sys.modules.keys() - before[1].keys()
        for name in added:
            if not name.startswith("tilewright"):
                del sys.modules[name]
    return tuple(found.values())


def _constants(kernel):
    return {constant.name for constant in kernel.signature.constants}


def entries(target):
    """Tile IR of every kernel that compiles as it is, under a name of its own."""
    made = []
    for kernel in kernels():
        try:
            small = dict.fromkeys(kernel.signature.static_dims - _constants(kernel), 32)
            chosen = sample_specialization(kernel.signature, target, small, kernel.hints)
            compiled = kernel.specialized(chosen)
        except (CompileError, LaunchError):
            continue
        for function in compiled.module.functions:
            name = f"{function.name}_{len(made)}"
            made.append(dataclasses.replace(function, name=name))
    return tuple(made)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_every_kernel_of_the_tests_assembles(target):
    module = Module(entries(target))
    assert len(module.functions) > 70
    cubin = find_toolchain().assemble(encode(module, required_version(module)), target)
    assert cubin_resources(cubin).keys() >= {function.name for function in module.functions}

"""Every kernel that the tests and the tour compiled goes through NVIDIA's own tools.

`make test` runs this last, over what the run before it recorded. Kernels that differ in nothing but
their names count as one.

- NVIDIA's reader and verifier take every kernel.
- Each target assembles kernels that have every *feature* that occurs and that it has: each op with
  its attributes, its element types and ranks (`assembly_plan`). An architecture lacks an op, a type
  or a form of them; whether it has them does not depend on what stands around them.
- One kernel in four, and with `make assembly ASSEMBLY_EVERY=1` each, is assembled for at least one
  target, which shows that its ops work together: how they do is decided by passes that all targets
  share.

Optimisation is off: it changes how fast the code is and how long this takes, not what the assembler
accepts. Many kernels are entries of one module, so that a target takes few runs.
"""

import dataclasses
import functools

import pytest
from assembly_plan import features, form_to_assemble, is_dealt_out, plan
from recorded_kernels import recorded

from tilewright.backends.cuda.cubin import cubin_resources
from tilewright.backends.cuda.toolchain import find_toolchain
from tilewright.bytecode.encode import encode
from tilewright.errors import ToolchainError
from tilewright.ir.function import Module
from tilewright.ir.verify.types import target_problems
from tilewright.ir.verify.verifier import violations
from tilewright.ir.verify.views import TARGET_RULES
from tilewright.ir.versions import required_version

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
# Kernels of one run: to start tileiras costs little, and a large module more than its parts.
TOGETHER = 50


@pytest.fixture(scope="session")
def kernels(request):
    """Where each kernel stands, and its entries under names of their own."""
    return _kernels(request.config.getoption("--recorded-kernels"))


@pytest.fixture(scope="session")
def planned(kernels):
    """The kernels to assemble for each target."""
    return plan(kernels, TARGETS, lambda place, target: _is_for(kernels[place], target))


@functools.cache
def _kernels(folder):
    found, seen, number = {}, set(), 0
    for number, (place, forms) in enumerate(recorded(folder), start=1):
        functions = form_to_assemble(form.functions for form in forms)
        names = [function.name for function in functions]
        bare = _encoded(_renamed(functions, map(str, range(len(names)))), locations=False)
        if bare.data not in seen:
            seen.add(bare.data)
            found[place] = _renamed(functions, (f"{name}_{number}" for name in names))
    assert number > 1000
    return found


def _renamed(functions, names):
    pairs = zip(functions, names, strict=True)
    return tuple(dataclasses.replace(function, name=name) for function, name in pairs)


def _is_for(functions, target):
    """Whether a target has all that a kernel uses; narrow floats are missing on the older ones."""
    number = int(target.removeprefix("sm_"))
    ops = [op for function in functions for op in function.walk()]
    types = {value.type for op in ops for value in (*op.operands, *op.results)}
    ruled = (TARGET_RULES[type(op)](op, number) for op in ops if type(op) in TARGET_RULES)
    return not any(_lacks(type_, number) for type_ in types) and not any(map(any, ruled))


@functools.cache
def _lacks(type_, number):
    return any(target_problems(type_, number))


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
def test_the_chosen_kernels_assemble(kernels, planned, target, record_property):
    chosen = planned[target]
    record_property(f"kernels assembled for {target}", f"{len(chosen)} of {len(kernels)}")
    for first in range(0, len(chosen), TOGETHER):
        _assemble({place: kernels[place] for place in chosen[first : first + TOGETHER]}, target)


def _assemble(chosen, target):
    entries = [function for found in chosen.values() for function in found]
    try:
        cubin = find_toolchain().assemble(_encoded(entries), target, opt_level=0)
    except ToolchainError:
        assert dict(_refused_alone(chosen, target)) == {}
        raise
    assert cubin_resources(cubin).keys() == {function.name for function in entries}


def test_every_feature_is_chosen_for_each_target_that_has_it(kernels, planned, record_property):
    assert set(filter(is_dealt_out, kernels)) <= set().union(*planned.values())
    seen = {place: features(functions) for place, functions in kernels.items()}
    for target, chosen in planned.items():
        able = [place for place, found in kernels.items() if _is_for(found, target)]
        has = set().union(*(seen[place] for place in able))
        assert set(chosen) <= set(able)
        assert has == set().union(*(seen[place] for place in chosen))
        record_property(f"features of {target}", len(has))


def test_every_target_leaves_out_only_what_it_lacks(kernels):
    """The newest target takes all; what the oldest lacks, our verifier says of that one alone."""
    for found in kernels.values():
        assert _is_for(found, TARGETS[-1])
        for target in (TARGETS[0], TARGETS[-1]):
            assert _is_for(found, target) != any(violations(Module(found), target))


def test_nvidias_reader_accepts_every_kernel(kernels):
    entries = [function for found in kernels.values() for function in found]
    text = find_toolchain().disassemble(_encoded(entries))
    missing = [function.name for function in entries if f"entry @{function.name}(" not in text]
    assert missing == []

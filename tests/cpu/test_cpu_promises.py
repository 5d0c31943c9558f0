"""Promises about groups of elements and about tensors, each kept and broken."""

from typing import Any

import numpy as np
import pytest
from cpu_programs import Program, apply, run, tensor_arguments

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import DivBy, Promise, SameElements
from tilewright.ir.ops.control import Assume
from tilewright.ir.ops.memory import LoadPtr, MakeTensorView, Offset, StorePtr
from tilewright.ir.types import PtrType, TensorViewType

I32, F32 = Element.I32, Element.F32


def promised(predicate: Promise, x: Any) -> None:
    """Run a kernel that promises something of a tile, and check that it gives it on."""

    def build(tile):
        return Assume(value=tile, predicate=predicate)

    out = np.zeros_like(x)
    run(apply(build, [I32], I32, x.shape), (1, 1, 1), x, out)
    assert out.tolist() == x.tolist()


COUNTING = [
    (DivBy(8, 4, 0), [8, 9, 10, 11, 0, 1, 2, 3], 2, 12),
    (DivBy(8, 4, 0), [8, 9, 10, 11, 0, 1, 2, 3], 4, 4),
    (DivBy(16, 2, 0), [16, 17, -32, -31, 0, 1, 48, 49], 0, 17),
    (DivBy(4, 8, 0), [4, 5, 6, 7, 8, 9, 10, 11], 7, 12),
]


@pytest.mark.parametrize(("promise", "numbers", "place", "wrong"), COUNTING)
def test_groups_count_on_from_a_multiple(promise, numbers, place, wrong):
    x = np.array(numbers, np.int32)
    promised(promise, x)
    x[place] = wrong
    said = rf"groups of {promise.every} along axis 0 that count on from a multiple of"
    with pytest.raises(UndefinedBehaviourError, match=said):
        promised(promise, x)


def test_groups_run_along_the_axis_that_is_named():
    rows = np.add.outer(np.array([0, 8, 16, 24]), np.arange(4)).astype(np.int32)
    promised(DivBy(8, 4, 1), rows)
    with pytest.raises(UndefinedBehaviourError, match="along axis 0"):
        promised(DivBy(8, 4, 0), rows)
    promised(DivBy(8, 4, 0), np.ascontiguousarray(rows.T))


def test_pointers_count_in_elements():
    def kernel(every: int) -> Any:
        program = Program("pointers")
        base, at = program.param(PtrType(F32)), program.tensor(I32, 1)
        offsets = program.load(program.partition(at, (4,)), program.b.index(0))
        places = program.add(Offset(ptr=program.spread(base, (4,), (1,)), offset=offsets))
        known = program.add(Assume(value=places, predicate=DivBy(16, every, 0)))
        program.b.add(StorePtr(destination=known, value=program.add(LoadPtr(source=known))))
        return program.finish()

    memory = KernelMemory.aligned(64, 16)
    at = np.array([4, 5, 6, 7], np.int32)
    memories = [memory, KernelMemory.of(at)]
    kernel(4).run((1, 1, 1), [memory.address, *tensor_arguments(at)], memories)
    at[:] = [4, 5, 7, 6]
    with pytest.raises(UndefinedBehaviourError, match="groups of 4"):
        kernel(4).run((1, 1, 1), [memory.address, *tensor_arguments(at)], memories)
    at[:] = [4, 5, 8, 9]
    kernel(2).run((1, 1, 1), [memory.address, *tensor_arguments(at)], memories)


ALIKE = [
    ((2, 1), [[1, 2], [1, 2], [3, 4], [3, 4]], (1, 0)),
    ((1, 2), [[1, 1], [2, 2], [3, 3], [4, 4]], (2, 1)),
    ((4, 2), [[7, 7], [7, 7], [7, 7], [7, 7]], (3, 1)),
]


@pytest.mark.parametrize(("groups", "numbers", "place"), ALIKE)
def test_groups_of_equal_elements(groups, numbers, place):
    x = np.array(numbers, np.int32)
    promised(SameElements(groups), x)
    promised(SameElements((1, 1)), np.arange(8, dtype=np.int32).reshape(4, 2))
    x[place] = 99
    with pytest.raises(UndefinedBehaviourError) as caught:
        promised(SameElements(groups), x)
    assert f"promises groups of {groups} equal elements, and has 99 beside" in str(caught.value)
    assert f"at element {place}" in str(caught.value)


def test_a_tensor_promises_where_it_starts():
    program = Program("tensor")
    base, extent = program.param(PtrType(F32)), program.param(I32)
    to = TensorViewType(F32, (None,), (1,))
    tensor = program.add(MakeTensorView(base=base, dynamic_shape=(extent,), to=to))
    known = program.add(Assume(value=tensor, predicate=DivBy(64)))
    view = program.partition(known, (4,))
    program.store(program.b.constant(1.0, F32, (4,)), view, program.b.index(0))
    kernel = program.finish()
    memory = KernelMemory.aligned(128, 64)
    kernel.run((1, 1, 1), [memory.address, 4], [memory])
    assert memory.array[:16].view(np.float32).tolist() == [1, 1, 1, 1]
    with pytest.raises(UndefinedBehaviourError, match="promises a tensor at a multiple of 64"):
        kernel.run((1, 1, 1), [memory.address + 16, 4], [memory])

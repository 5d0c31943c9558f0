"""Addresses as integers, globals of a module, memory of a block's own, and order between grids."""

import numpy as np
import pytest
from cpu_programs import Program, run

from tilewright.backends.cpu.executor import compile_module
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import MemoryOrder, MemoryScope
from tilewright.ir.function import Global, Module
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.addresses import Alloca, GetGlobal, IntToPtr, PtrToInt, PtrToPtr
from tilewright.ir.ops.control import Continue, For, Return
from tilewright.ir.ops.dependencies import GdcLaunchDependents, GdcWait, MemoryFenceAlias
from tilewright.ir.ops.elementwise import AddF, AddI, FToF, MulI
from tilewright.ir.ops.memory import AtomicCas, LoadPtr, MakeToken, Offset, StorePtr
from tilewright.ir.ops.shape import Iota
from tilewright.ir.types import PtrType, TileType, scalar
from tilewright.ir.verify.verifier import verify

F32, I32, I64 = Element.F32, Element.I32, Element.I64


def spread(program: Program, value: Value, size: int) -> Value:
    assert isinstance(value.type, TileType)
    return program.spread(value, (size,), (1,))


def count(program: Program, size: int, element: Element = I32) -> Value:
    return program.add(Iota(to=TileType(element, (size,))))


# --- conversions -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (4,)], ids=["scalar", "tile"])
def test_an_address_is_an_integer_and_back(shape):
    program = Program()
    base, out = program.param(PtrType(F32)), program.param(PtrType(I64))
    places = program.add(Offset(ptr=base, offset=program.b.index(1)))
    target = out
    if shape:
        places = program.add(Offset(ptr=spread(program, base, 4), offset=count(program, 4)))
        target = program.add(Offset(ptr=spread(program, out, 4), offset=count(program, 4)))
    number = program.add(PtrToInt(source=places, to=TileType(I64, shape)))
    four = program.b.constant(4, I64, shape)
    moved = program.add(AddI(lhs=number, rhs=four))
    again = program.add(IntToPtr(source=moved, to=TileType(PtrType(F32), shape)))
    loaded = program.add(LoadPtr(source=again))
    program.b.add(StorePtr(destination=again, value=program.add(AddF(lhs=loaded, rhs=loaded))))
    program.b.add(StorePtr(destination=target, value=moved))
    x, found = np.arange(8, dtype=np.float32), np.zeros(4, np.int64)
    addresses = [x.ctypes.data, found.ctypes.data]
    program.finish().run((1, 1, 1), addresses, [KernelMemory.of(x), KernelMemory.of(found)])
    if shape:
        assert x.tolist() == [0, 2, 4, 6, 8, 5, 6, 7]
        assert found.tolist() == [x.ctypes.data + 4 * i for i in range(1, 5)]
    else:
        assert x.tolist() == [0, 1, 4, 3, 4, 5, 6, 7]
        assert found[0] == x.ctypes.data + 8


def test_the_same_place_read_as_another_element():
    program = Program()
    base, out = program.param(PtrType(F32)), program.param(PtrType(I32))
    bits = program.add(PtrToPtr(source=base, to=scalar(PtrType(I32))))
    program.b.add(StorePtr(destination=out, value=program.add(LoadPtr(source=bits))))
    x, found = np.array([1.5], np.float32), np.zeros(1, np.int32)
    program.finish().run(
        (1, 1, 1), [x.ctypes.data, found.ctypes.data], [KernelMemory.of(x), KernelMemory.of(found)]
    )
    assert found.tolist() == x.view(np.int32).tolist()


def test_a_pointer_moved_too_far_is_reported():
    program = Program("far")
    base, by = program.param(PtrType(I64)), program.param(I64)
    places = spread(program, base, 2)
    steps = program.add(MulI(lhs=spread(program, by, 2), rhs=program.b.constant(1, I64, (2,))))
    program.b.add(LoadPtr(source=program.add(Offset(ptr=places, offset=steps))))
    kernel = program.finish()
    x = np.zeros(4, np.int64)
    kernel.run((1, 1, 1), [x.ctypes.data, 3], [KernelMemory.of(x)])
    with pytest.raises(UndefinedBehaviourError, match="which wraps"):
        kernel.run((1, 1, 1), [x.ctypes.data, 2**61], [KernelMemory.of(x)])
    with pytest.raises(UndefinedBehaviourError, match="outside the memories"):
        kernel.run((1, 1, 1), [x.ctypes.data, 4], [KernelMemory.of(x)])


def test_four_bit_floats_through_pointers():
    program = Program("narrow")
    f4 = Element.F4E2M1FN
    source, target = program.param(PtrType(f4)), program.param(PtrType(f4))
    out = program.param(PtrType(F32))
    at = count(program, 8)
    tile = program.add(
        LoadPtr(source=program.add(Offset(ptr=spread(program, source, 8), offset=at)))
    )
    places = program.add(Offset(ptr=spread(program, target, 8), offset=at))
    program.b.add(StorePtr(destination=places, value=tile))
    wide = program.add(FToF(source=tile, to=TileType(F32, (8,))))
    wide_places = program.add(Offset(ptr=spread(program, out, 8), offset=at))
    program.b.add(StorePtr(destination=wide_places, value=wide))
    packed = np.array([0x10, 0x32, 0x54, 0xF6], np.uint8)
    copy, numbers = np.zeros(4, np.uint8), np.zeros(8, np.float32)
    arrays = (packed, copy, numbers)
    program.finish().run(
        (1, 1, 1), [a.ctypes.data for a in arrays], [KernelMemory.of(a) for a in arrays]
    )
    assert numbers.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, -6]
    assert copy.tolist() == packed.tolist()


# --- globals ---------------------------------------------------------------------------------


def counter(*, constant: bool) -> tuple[dict, Global]:
    """Every block adds 1 to the first element of a global, and copies all to the output."""
    held = Global(
        "table", TileType(I32, (4,)), np.array([5, 6, 7, 8], np.int32), 64, constant=constant
    )
    program = Program("entry")
    out = program.param(PtrType(I32))
    base = program.add(GetGlobal(name="table", to=scalar(PtrType(I32))))
    token = program.add(MakeToken())
    if not constant:
        load = program.b.add(LoadPtr(source=base, token=token))
        more = program.add(AddI(lhs=load.result, rhs=program.b.constant(1, I32)))
        store = program.b.add(StorePtr(destination=base, value=more, token=load.result_token))
        token = store.result_token
    at = count(program, 4)
    table = program.b.add(
        LoadPtr(source=program.add(Offset(ptr=spread(program, base, 4), offset=at)), token=token)
    )
    places = program.add(Offset(ptr=spread(program, out, 4), offset=at))
    program.b.add(StorePtr(destination=places, value=table.result))
    program.b.add(Return())
    program.function.body.args = tuple(program.params)
    module = Module((program.function,), globals=(held,))
    verify(module, "sm_100")
    return compile_module(module), held


@pytest.mark.parametrize("constant", [True, False])
def test_a_global_lives_as_long_as_the_module(constant):
    kernels, held = counter(constant=constant)
    out = np.zeros(4, np.int32)
    for turn in (1, 2):
        kernels["entry"].run((3, 1, 1), [out.ctypes.data], [KernelMemory.of(out)], threads=1)
        assert out.tolist() == [5 if constant else 5 + 3 * turn, 6, 7, 8]
    assert held.value.tolist() == [5, 6, 7, 8], "the module's own numbers stay"
    fresh, _ = counter(constant=constant)
    fresh["entry"].run((1, 1, 1), [out.ctypes.data], [KernelMemory.of(out)])
    assert out[0] == (5 if constant else 6)


def test_a_constant_global_cannot_be_written():
    base = GetGlobal(name="one", to=scalar(PtrType(F32)))
    held = Global("one", TileType(F32, (2,)), 1.5, constant=True)
    program = Program("entry")
    place = program.add(base)
    program.b.add(StorePtr(destination=place, value=program.b.constant(0.0, F32)))
    program.b.add(Return())
    module = Module((program.function,), globals=(held,))
    verify(module, "sm_100")
    with pytest.raises(UndefinedBehaviourError, match="in memory that is read-only"):
        compile_module(module)["entry"].run((1, 1, 1), [], [])


def test_a_global_is_aligned_and_ends():
    kernels, _ = counter(constant=True)
    globals_ = kernels["entry"]._globals
    (address,) = globals_.addresses.values()
    assert address % 64 == 0
    program = Program("entry")
    base = program.add(GetGlobal(name="t", to=scalar(PtrType(Element.I1))))
    program.b.add(LoadPtr(source=program.add(Offset(ptr=base, offset=program.b.index(4)))))
    program.b.add(Return())
    held = Global("t", TileType(Element.I1, (4,)), np.array([1, 0, 1, 1], np.bool_))
    module = Module((program.function,), globals=(held,))
    verify(module, "sm_100")
    with pytest.raises(UndefinedBehaviourError, match="reads 1 bytes at"):
        compile_module(module)["entry"].run((1, 1, 1), [], [])


# --- memory of a block's own -------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_each_block_has_memory_of_its_own(shared, threads):
    program = Program("scratch")
    out = program.param(PtrType(I32))
    block, _, _ = program.block_id()
    to = scalar(PtrType(I32))
    base = program.add(Alloca(num_elem=4, alignment=32, global_memory=shared, to=to))
    at = count(program, 4)
    places = program.add(Offset(ptr=spread(program, base, 4), offset=at))
    store = program.b.add(
        StorePtr(destination=places, value=program.add(AddI(lhs=spread(program, block, 4), rhs=at)))
    )
    last = program.add(Offset(ptr=base, offset=program.b.index(3)))
    load = program.b.add(LoadPtr(source=last, token=store.result_token))
    program.b.add(
        StorePtr(destination=program.add(Offset(ptr=out, offset=block)), value=load.result)
    )
    found = np.zeros(20, np.int32)
    kernel = program.finish()
    for watched in (False, True):
        found[:] = 0
        kernel.run(
            (20, 1, 1),
            [found.ctypes.data],
            [KernelMemory.of(found)],
            threads=threads,
            race_check=watched,
        )
        assert found.tolist() == list(range(3, 23))


def test_memory_of_a_block_ends_where_it_says():
    program = Program("scratch")
    at = program.param(I32)
    base = program.add(Alloca(num_elem=4, alignment=16, to=scalar(PtrType(F32))))
    place = program.add(Offset(ptr=base, offset=at))
    program.b.add(StorePtr(destination=place, value=program.b.constant(1.0, F32)))
    kernel = program.finish()
    run(kernel, (2, 1, 1), 3)
    for outside in (4, -1):
        with pytest.raises(UndefinedBehaviourError, match="outside the memories of this launch"):
            run(kernel, (2, 1, 1), outside)


def test_memory_taken_in_a_loop_is_given_back():
    program = Program("loop")
    out = program.param(PtrType(I64))
    i = Value(scalar(I32))
    body = Block((i,))
    with program.b.inside(body):
        base = program.add(Alloca(num_elem=1 << 16, alignment=8, to=scalar(PtrType(I64))))
        number = program.add(PtrToInt(source=base, to=scalar(I64)))
        program.b.add(StorePtr(destination=base, value=number))
        program.b.add(StorePtr(destination=program.add(Offset(ptr=out, offset=i)), value=number))
        program.b.add(Continue())
    program.b.add(
        For(
            lower_bound=program.b.index(0),
            upper_bound=program.b.index(8),
            step=program.b.index(1),
            body=body,
        )
    )
    found = np.zeros(8, np.int64)
    program.finish().run((1, 1, 1), [found.ctypes.data], [KernelMemory.of(found)])
    assert (found % 8 == 0).all()
    assert found.all()


# --- order -----------------------------------------------------------------------------------


def test_waits_and_fences_do_nothing_in_order():
    program = Program("ordered")
    out = program.param(PtrType(I32))
    first = program.b.add(GdcWait())
    store = program.b.add(
        StorePtr(destination=out, value=program.b.constant(1, I32), token=first.result_token)
    )
    fence = program.b.add(MemoryFenceAlias(token=store.result_token))
    load = program.b.add(LoadPtr(source=out, token=fence.result_token))
    done = program.b.add(GdcLaunchDependents(token=load.result_token))
    more = program.add(AddI(lhs=load.result, rhs=load.result))
    program.b.add(StorePtr(destination=out, value=more, token=done.result_token))
    kernel = program.finish()
    found = np.zeros(1, np.int32)
    kernel.run((1, 1, 1), [found.ctypes.data], [KernelMemory.of(found)], race_check=True)
    assert found.tolist() == [2]


def test_a_masked_compare_and_swap_gives_what_it_compared_with():
    program = Program()
    base, out = program.param(PtrType(I32)), program.param(PtrType(I32))
    mask = program.tensor(Element.I1, 1)
    at = count(program, 4)
    chosen = program.load(program.partition(mask, (4,)), program.b.index(0))
    swapped = program.add(
        AtomicCas(
            pointers=program.add(Offset(ptr=spread(program, base, 4), offset=at)),
            cmp=program.add(AddI(lhs=at, rhs=program.b.constant(10, I32, (4,)))),
            val=program.b.constant(99, I32, (4,)),
            mask=chosen,
            memory_ordering=MemoryOrder.ACQ_REL,
            memory_scope=MemoryScope.SYS,
        )
    )
    places = program.add(Offset(ptr=spread(program, out, 4), offset=at))
    program.b.add(StorePtr(destination=places, value=swapped))
    x, found = np.array([10, 0, 12, 13], np.int32), np.zeros(4, np.int32)
    keep = np.array([1, 1, 0, 1], np.uint8)
    program.finish().run(
        (1, 1, 1),
        [x.ctypes.data, found.ctypes.data, keep.ctypes.data, 4, 1],
        [KernelMemory.of(a) for a in (x, found, keep)],
    )
    assert x.tolist() == [99, 0, 12, 99]
    assert found.tolist() == [10, 0, 12, 13]

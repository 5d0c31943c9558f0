"""Pointer tiles: gathers, scatters, masks, atomics, and addresses that are nobody's."""

from typing import Any

import numpy as np
import pytest
from cpu_programs import Program, tensor_arguments

from tilewright.backends.cpu import pointers
from tilewright.backends.cpu.memory import AddressSpace, KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import AtomicMode
from tilewright.ir.op import Value
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, LoadPtr, Offset, StorePtr
from tilewright.ir.ops.shape import Broadcast, Reshape
from tilewright.ir.types import PtrType, TileType

COUNT = 8


class PointerProgram(Program):
    """A program over one flat array that is reached through pointers."""

    def places(self, element: Element, index: Value) -> Value:
        """The addresses of `array[index]`, the array being the next parameter."""
        base = self.param(PtrType(element))
        assert isinstance(index.type, TileType)
        pointers = base
        if index.type.shape:
            tile = TileType(PtrType(element), index.type.shape)
            ones = tile.with_shape((1,) * tile.rank)
            thin = self.add(Reshape(source=base, to=ones))
            pointers = self.add(Broadcast(source=thin, to=tile))
        return self.add(Offset(ptr=pointers, offset=index))

    def read(self, element: Element, shape: tuple[int, ...] = (COUNT,)) -> Value:
        """The next parameter, a tensor, as one tile."""
        view = self.partition(self.tensor(element, len(shape)), shape)
        return self.load(view, *(self.b.index(0) for _ in shape))

    def write(self, tile: Value) -> None:
        """Store a tile into the next parameter."""
        assert isinstance(tile.type, TileType)
        assert isinstance(tile.type.element, Element)
        view = self.partition(self.tensor(tile.type.element, tile.type.rank), tile.type.shape)
        self.store(tile, view, *(self.b.index(0) for _ in tile.type.shape))


def launch(kernel: Any, pointed: Any, *tensors: Any) -> None:
    """Run with tensors, then the flat array as a bare pointer where None stands."""
    flat: list[int] = []
    memories = [KernelMemory.of(pointed)]
    for tensor in tensors:
        if tensor is None:
            flat.append(pointed.ctypes.data)
        else:
            flat += tensor_arguments(tensor)
            memories.append(KernelMemory.of(tensor))
    kernel.run((1, 1, 1), flat, memories)


@pytest.mark.parametrize(
    "element",
    [Element.I8, Element.I32, Element.I64, Element.F16, Element.BF16, Element.F64],
    ids=repr,
)
def test_gather_and_scatter(element):
    program = PointerProgram()
    index = program.read(Element.I32)
    found = program.add(LoadPtr(source=program.places(element, index)))
    program.write(found)
    x = np.arange(32).astype(element.numpy)
    where = np.array([3, 0, 31, 7, 7, 1, 2, 30], np.int32)
    out = np.zeros(COUNT, element.numpy)
    launch(program.finish(), x, where, None, out)
    np.testing.assert_array_equal(out, x[where])

    program = PointerProgram()
    index, tile = program.read(Element.I32), program.read(element)
    program.add(StorePtr(destination=program.places(element, index), value=tile))
    where = np.array([3, 0, 31, 7, 8, 1, 2, 30], np.int32)
    values = (np.arange(COUNT) + 50).astype(element.numpy)
    expected = x.copy()
    expected[where] = values
    launch(program.finish(), x, where, values, None)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("padded", [False, True])
def test_a_masked_load_gives_the_padding_and_never_looks(padded):
    program = PointerProgram()
    index, mask, padding = (program.read(e) for e in (Element.I32, Element.I1, Element.F32))
    source = program.places(Element.F32, index)
    given = padding if padded else None
    program.write(program.add(LoadPtr(source=source, mask=mask, padding_value=given)))
    kernel = program.finish()
    x = np.arange(10, dtype=np.float32) + 1
    where = np.array([0, 99, 9, -5, 3, 2**30, 1, 2], np.int32)
    keep = np.array([1, 0, 1, 0, 1, 0, 1, 1], np.uint8)
    fill = np.full(COUNT, -7, np.float32)
    out = np.zeros(COUNT, np.float32)
    launch(kernel, x, where, keep, fill, None, out)
    expected = np.where(keep, x[np.clip(where, 0, 9)], fill if padded else 0)
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(UndefinedBehaviourError, match=r"load_ptr_tko reads 4 bytes at 0x.* \(1,\)"):
        launch(kernel, x, where, np.ones_like(keep), fill, None, out)


def test_a_masked_store_writes_only_what_it_may():
    program = PointerProgram()
    index, mask, tile = (program.read(e) for e in (Element.I32, Element.I1, Element.F32))
    destination = program.places(Element.F32, index)
    program.add(StorePtr(destination=destination, value=tile, mask=mask))
    kernel = program.finish()
    x = np.zeros(10, np.float32)
    where = np.array([0, 99, 9, -5, 3, 2**30, 1, 2], np.int32)
    keep = np.array([1, 0, 1, 0, 1, 0, 1, 1], np.uint8)
    ones = np.ones(COUNT, np.float32)
    with pytest.raises(UndefinedBehaviourError, match="outside the memories of this launch"):
        launch(kernel, x, where, np.ones_like(keep), ones, None)
    assert not x.any(), "a store that is reported writes nothing"
    launch(kernel, x, where, keep, ones, None)
    assert np.flatnonzero(x).tolist() == [0, 1, 2, 3, 9]
    x.flags.writeable = False
    with pytest.raises(UndefinedBehaviourError, match="in memory that is read-only"):
        launch(kernel, x, where, keep, ones, None)


def test_a_misaligned_address_is_reported():
    program = PointerProgram()
    base = program.param(PtrType(Element.F32))
    tile = program.add(
        Reshape(source=program.add(LoadPtr(source=base)), to=TileType(Element.F32, (1,)))
    )
    program.write(tile)
    kernel = program.finish()
    x, out = np.array([5, 6], np.float32), np.zeros(1, np.float32)
    memories = [KernelMemory.of(x), KernelMemory.of(out)]
    kernel.run((1, 1, 1), [x.ctypes.data + 4, *tensor_arguments(out)], memories)
    assert out.tolist() == [6]
    with pytest.raises(UndefinedBehaviourError, match="not a multiple of 4 bytes"):
        kernel.run((1, 1, 1), [x.ctypes.data + 2, *tensor_arguments(out)], memories)
    with pytest.raises(UndefinedBehaviourError, match="outside the memories"):
        kernel.run((1, 1, 1), [x.ctypes.data + 8, *tensor_arguments(out)], memories)


def test_one_tile_may_point_into_several_memories():
    program = PointerProgram()
    first = program.places(Element.I32, program.read(Element.I32, (4,)))
    program.write(program.add(LoadPtr(source=first)))
    kernel = program.finish()
    near = np.arange(14, dtype=np.int32)  # two arrays of their own may lie anywhere
    x, y = near[:4], near[10:]
    distance = (y.ctypes.data - x.ctypes.data) // 4
    where = np.array([0, distance + 1, 3, distance + 3], np.int32)
    out = np.zeros(4, np.int32)
    arguments = [*tensor_arguments(where), x.ctypes.data, *tensor_arguments(out)]
    kernel.run((1, 1, 1), arguments, [KernelMemory.of(a) for a in (x, y, where, out)])
    assert out.tolist() == [0, 11, 3, 13]


# --- atomics -------------------------------------------------------------------------------


def rmw(mode, element, uses_result):
    program = PointerProgram()
    index, tile = program.read(Element.I32), program.read(element)
    places = program.places(element, index)
    before = program.add(AtomicRmw(pointers=places, arg=tile, mode=mode))
    if uses_result:
        program.write(before)
    return program.finish()


DEFINED = {
    AtomicMode.AND: lambda old, new: old & new,
    AtomicMode.OR: lambda old, new: old | new,
    AtomicMode.XOR: lambda old, new: old ^ new,
    AtomicMode.ADD: lambda old, new: old + new,
    AtomicMode.MAX: max,
    AtomicMode.MIN: min,
    AtomicMode.UMAX: lambda old, new: max(old, new, key=lambda n: int(n) % 2**64),
    AtomicMode.UMIN: lambda old, new: min(old, new, key=lambda n: int(n) % 2**64),
    AtomicMode.XCHG: lambda old, new: new,
}


@pytest.mark.parametrize(
    "where", [list(range(COUNT)), [0, 0, 1, 1, 1, 5, 5, 0]], ids=["once", "twice"]
)
@pytest.mark.parametrize("uses_result", [False, True])
@pytest.mark.parametrize("element", [Element.I32, Element.I64], ids=repr)
@pytest.mark.parametrize("mode", list(DEFINED))
def test_integer_atomics_act_one_after_the_other(mode, element, uses_result, where):
    rng = np.random.default_rng(3)
    x = rng.integers(-100, 100, COUNT).astype(element.numpy)
    new = rng.integers(-100, 100, COUNT).astype(element.numpy)
    expected, before = x.copy(), []
    for place, value in zip(where, new, strict=True):
        before.append(expected[place])
        expected[place] = DEFINED[mode](expected[place], value)
    out = np.zeros(COUNT, element.numpy)
    tensors = [np.array(where, np.int32), new, None, *([out] if uses_result else [])]
    launch(rmw(mode, element, uses_result), x, *tensors)
    np.testing.assert_array_equal(x, expected)
    if uses_result:
        np.testing.assert_array_equal(out, before)


@pytest.mark.parametrize("uses_result", [False, True])
@pytest.mark.parametrize("element", [Element.F16, Element.BF16, Element.F32, Element.F64], ids=repr)
def test_float_sums_take_every_element(element, uses_result):
    x = np.zeros(4, element.numpy)
    new = np.array([1, 2, 3, 4, 5, 6, 7, 8]).astype(element.numpy)
    where = np.array([0, 0, 1, 1, 1, 3, 3, 0], np.int32)
    out = np.zeros(COUNT, element.numpy)
    tensors = [where, new, None, *([out] if uses_result else [])]
    launch(rmw(AtomicMode.ADDF, element, uses_result), x, *tensors)
    assert x.astype(np.float64).tolist() == [11, 12, 0, 13]
    if uses_result:
        assert out.astype(np.float64).tolist() == [0, 1, 0, 3, 7, 0, 6, 3]


def test_compare_and_swap_and_its_mask():
    program = PointerProgram()
    index, expected, new, mask = (
        program.read(e) for e in (Element.I32, Element.I32, Element.I32, Element.I1)
    )
    places = program.places(Element.I32, index)
    before = program.add(AtomicCas(pointers=places, cmp=expected, val=new, mask=mask))
    program.write(before)
    x = np.array([0, 5, 0, 0, 0, 0, 0, 0], np.int32)
    where = np.array([0, 1, 2, 2, 4, 5, 99, 7], np.int32)
    guess = np.zeros(COUNT, np.int32)
    values = np.arange(10, 18, dtype=np.int32)
    keep = np.array([1, 1, 1, 1, 0, 1, 0, 1], np.uint8)
    out = np.full(COUNT, -1, np.int32)
    launch(program.finish(), x, where, guess, values, keep, None, out)
    assert x.tolist() == [10, 5, 12, 0, 0, 15, 0, 17]
    assert out.tolist() == [0, 5, 0, 12, 0, 0, 0, 0]


def test_compare_and_swap_of_floats_compares_bits():
    program = PointerProgram()
    index, expected, new = (program.read(e) for e in (Element.I32, Element.F32, Element.F32))
    program.add(AtomicCas(pointers=program.places(Element.F32, index), cmp=expected, val=new))
    x = np.array([0.0, -0.0, np.nan, 1], np.float32)
    x = np.concatenate((x, x))
    guess = np.zeros(COUNT, np.float32)
    guess[2] = x[2]
    launch(
        program.finish(),
        x,
        np.arange(COUNT, dtype=np.int32),
        guess,
        np.full(COUNT, 7, np.float32),
        None,
    )
    assert x[[0, 2, 4]].tolist() == [7, 7, 7]
    assert x[1] == 0
    assert np.isnan(x[6])


def test_atomics_of_many_blocks_on_many_threads_lose_nothing():
    program = PointerProgram()
    index = program.read(Element.I32)
    one = program.b.constant(1, Element.I32, (COUNT,))
    program.add(
        AtomicRmw(pointers=program.places(Element.I32, index), arg=one, mode=AtomicMode.ADD)
    )
    kernel = program.finish()
    x, where = np.zeros(COUNT, np.int32), np.arange(COUNT, dtype=np.int32)[::-1].copy()
    kernel.run(
        (200, 1, 1),
        [*tensor_arguments(where), x.ctypes.data],
        [KernelMemory.of(x), KernelMemory.of(where)],
        threads=4,
    )
    assert x.tolist() == [200] * COUNT


def test_scalars_are_loaded_and_stored_through_bare_pointers():
    program = PointerProgram()
    base = program.param(PtrType(Element.I16))
    value = program.add(LoadPtr(source=base))
    next_place = program.add(Offset(ptr=base, offset=program.b.index(1)))
    program.add(StorePtr(destination=next_place, value=value))
    x = np.array([-7, 0], np.int16)
    program.finish().run((1, 1, 1), [x.ctypes.data], [KernelMemory.of(x)])
    assert x.tolist() == [-7, -7]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_of_equal_addresses_in_a_tile_of_two_axes_the_last_stays(order, masked):
    """Whatever the layout of the addresses, elements are taken row by row."""
    rng = np.random.default_rng(5)
    data = np.zeros(8, np.int32)
    index = np.array(rng.integers(0, 8, (16, 16)), order=order)
    places = data.ctypes.data + index * 4
    tile = np.arange(256, dtype=np.int32).reshape(16, 16)
    mask = rng.random((16, 16)) < 0.7 if masked else None
    space = AddressSpace([KernelMemory.of(data)])
    pointers.store(space, 0, Element.I32, places, tile, mask)
    want, total = np.zeros(8, np.int32), np.zeros(8, np.int64)
    for at in np.ndindex(16, 16):
        if mask is None or mask[at]:
            want[index[at]] = tile[at]
            total[index[at]] += tile[at]
    assert data.tolist() == want.tolist()
    got = pointers.load(space, 0, Element.I32, places, mask, None)
    chosen = np.ones((16, 16), bool) if mask is None else mask
    np.testing.assert_array_equal(got, np.where(chosen, want[index], 0))
    data[:] = 0
    before = pointers.combine(space, 0, Element.I32, places, mask, np.add, tile)
    assert data.tolist() == total.tolist()
    assert before.shape == (16, 16)

"""The watch: races between blocks are found with both blocks and places, and nothing else is."""

from typing import Any

import numpy as np
import pytest
from cpu_programs import Program, gemm, run, softmax, tensor_arguments, vector_add

from tilewright.backends.cpu.executor import CpuKernel
from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import AtomicMode, MemoryOrder, MemoryScope
from tilewright.ir.ops.elementwise import AddF, AddI, DivI
from tilewright.ir.ops.memory import AtomicRmw, LoadPtr, MakeToken, Offset, StorePtr
from tilewright.ir.types import PtrType
from tilewright.source import Location, SourceFile, Span

I32, F32 = Element.I32, Element.F32
FILE = SourceFile("racy.py", ("z.store(x.load())",) * 40)


def at(line: int) -> Location:
    return Location(Span(FILE, line, 0, line, 5))


def watch(kernel: CpuKernel, grid: tuple[int, int, int], *arrays: Any, threads: int = 1) -> None:
    flat = [number for array in arrays for number in tensor_arguments(array)]
    memories = [KernelMemory.of(array) for array in arrays]
    kernel.run(grid, flat, memories, threads=threads, race_check=True)


@pytest.mark.parametrize("threads", [1, 3])
def test_kernels_whose_blocks_are_apart_are_quiet(threads):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(100).astype(np.float32) for _ in range(2))
    z = np.zeros_like(x)
    watch(vector_add(16), (7, 1, 1), z, x, y, threads=threads)
    np.testing.assert_array_equal(z, x + y)

    rows = rng.standard_normal((9, 30)).astype(np.float32)
    out = np.zeros_like(rows)
    watch(softmax(32), (9, 1, 1), out, rows, threads=threads)
    assert out.sum() == pytest.approx(9)

    a, b = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    c = np.zeros_like(a)
    flat = [n for array in (c, a, b) for n in tensor_arguments(array)]
    gemm(tile=(32, 32, 32)).run(
        (4, 1, 1), [*flat, 2, 2], [KernelMemory.of(n) for n in (a, b, c)], race_check=True
    )
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)


def halves(tile_index_of: Any) -> CpuKernel:
    """Every block reads a tile of x and writes the tile that `tile_index_of` chooses."""
    program = Program("halves")
    z, x = program.tensor(F32, 1), program.tensor(F32, 1)
    i, _, _ = program.block_id()
    program.b.loc = at(11)
    tile = program.load(program.partition(x, (4,)), i)
    program.b.loc = at(12)
    program.store(tile, program.partition(z, (4,)), tile_index_of(program, i))
    program.b.loc = None
    return program.finish()


def test_two_blocks_that_write_one_tile_race():
    kernel = halves(lambda p, i: p.add(DivI(lhs=i, rhs=p.b.index(2))))
    z, x = np.zeros(16, np.float32), np.arange(16, dtype=np.float32)
    run(kernel, (4, 1, 1), z, x)  # unwatched it runs
    with pytest.raises(UndefinedBehaviourError) as caught:
        watch(kernel, (4, 1, 1), z, x)
    assert str(caught.value) == (
        "race in kernel `halves`: block (0, 0, 0) writes element (0,) of a tensor "
        "(store_view_tko at racy.py:12:1), and block (1, 0, 0) writes it too "
        "(store_view_tko at racy.py:12:1)"
    )
    watch(halves(lambda p, i: i), (4, 1, 1), z, x)


def test_a_block_that_reads_what_another_writes_races():
    kernel = halves(lambda p, i: p.add(AddI(lhs=i, rhs=p.b.index(1))))
    data = np.zeros(20, np.float32)
    with pytest.raises(UndefinedBehaviourError) as caught:
        watch(kernel, (4, 1, 1), data, data)
    text = str(caught.value)
    assert (
        "block (0, 0, 0) writes element (4,) of a tensor (store_view_tko at racy.py:12:1)" in text
    )
    assert "block (1, 0, 0) reads it (load_view_tko at racy.py:11:1)" in text
    other = np.zeros(20, np.float32)
    watch(kernel, (4, 1, 1), data, other)


def sizes(read: int, write: int) -> CpuKernel:
    """Blocks read tiles of one size and write tiles of another, of the same memory."""
    program = Program("sizes")
    z, x = program.tensor(F32, 1), program.tensor(F32, 1)
    i, _, _ = program.block_id()
    one = program.b.constant(1.0, F32, (write,))
    program.load(program.partition(x, (read,)), i)
    program.store(one, program.partition(z, (write,)), i)
    return program.finish()


def test_tiles_of_different_sizes_are_compared_element_by_element():
    data = np.zeros(32, np.float32)
    with pytest.raises(UndefinedBehaviourError, match="race in kernel `sizes`"):
        watch(sizes(4, 8), (4, 1, 1), data, data)
    # The same partitions over two halves of one memory never meet.
    left, right = data[:16], data[16:]
    flat = [*tensor_arguments(left), *tensor_arguments(right)]
    sizes(2, 4).run((4, 1, 1), flat, [KernelMemory.of(data)], race_check=True)
    with pytest.raises(UndefinedBehaviourError, match="race in kernel `sizes`"):
        sizes(8, 4).run(
            (2, 1, 1),
            [*tensor_arguments(left), *tensor_arguments(data[4:20])],
            [KernelMemory.of(data)],
            race_check=True,
        )


def test_a_tensor_that_overlaps_itself_races_with_itself():
    data = np.zeros(32, np.float32)
    kernel = halves(lambda p, i: i)
    x = np.zeros(16, np.float32)
    flat = [data.ctypes.data, 16, 1, *tensor_arguments(x)]
    memories = [KernelMemory.of(data), KernelMemory.of(x)]
    kernel.run((4, 1, 1), flat, memories, race_check=True)
    overlapping = [data.ctypes.data, 16, 0, *tensor_arguments(x)]
    with pytest.raises(UndefinedBehaviourError, match="race"):
        kernel.run((4, 1, 1), overlapping, memories, race_check=True)


def through_pointers(store: bool, atomic: bool, read: bool) -> CpuKernel:
    """Every block touches the first element of one array, in the order of its tokens."""
    program = Program("pointers")
    base = program.param(PtrType(F32))
    place = program.add(Offset(ptr=base, offset=program.b.index(0)))
    one = program.b.constant(1.0, F32)
    token = program.add(MakeToken())
    if read:
        token = program.b.add(LoadPtr(source=place, token=token)).result_token
    if store:
        token = program.b.add(StorePtr(destination=place, value=one, token=token)).result_token
    if atomic:
        program.b.add(AtomicRmw(pointers=place, arg=one, mode=AtomicMode.ADDF, token=token))
    return program.finish()


@pytest.mark.parametrize(
    ("store", "atomic", "read", "races"),
    [
        (True, False, False, "writes the element at"),
        (True, False, True, "writes the element at"),
        (True, True, False, "writes the element at"),
        (False, True, False, None),
        (False, True, True, "updates atomically the element at"),
        (False, False, True, None),
    ],
)
def test_atomics_do_not_race_with_each_other(store, atomic, read, races):
    kernel = through_pointers(store, atomic, read)
    x = np.zeros(4, np.float32)
    kernel.run((1, 1, 1), [x.ctypes.data], [KernelMemory.of(x)], race_check=True)
    if races:
        with pytest.raises(UndefinedBehaviourError, match=races):
            kernel.run((3, 1, 1), [x.ctypes.data], [KernelMemory.of(x)], race_check=True)
    else:
        kernel.run((3, 1, 1), [x.ctypes.data], [KernelMemory.of(x)], race_check=True)


def test_a_relaxed_store_is_ordered_by_itself():
    program = Program()
    base = program.param(PtrType(I32))
    program.b.add(
        StorePtr(
            destination=base,
            value=program.b.constant(1, I32),
            memory_ordering=MemoryOrder.RELAXED,
            memory_scope=MemoryScope.DEVICE,
        )
    )
    x = np.zeros(4, np.int32)
    program.finish().run((3, 1, 1), [x.ctypes.data], [KernelMemory.of(x)], race_check=True)


def test_permuted_axes_are_named_as_the_tensor_has_them():
    program = Program("turned")
    z = program.tensor(F32, 2)
    i, _, _ = program.block_id()
    view = program.partition(z, (2, 4), dim_map=(1, 0))
    zero, one = program.b.index(0), program.b.constant(1.0, F32, (2, 4))
    program.store(program.add(AddF(lhs=one, rhs=one)), view, program.b.index(1), zero)
    kernel = program.finish()
    assert i is not None
    with pytest.raises(UndefinedBehaviourError, match=r"writes element \(0, 2\) of a tensor"):
        watch(kernel, (2, 1, 1), np.zeros((4, 4), np.float32))

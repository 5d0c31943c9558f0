"""Two blocks and one element: both blocks, the element and both lines are told, or nothing is."""

import numpy as np
import pytest
from race_programs import Racy, permute_heads, watch

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import AtomicMode, MemoryOrder, MemoryScope, Predicate
from tilewright.ir.op import Block
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.ops.elementwise import AddI, CmpI, MulI
from tilewright.ir.ops.memory import AtomicRmw, LoadPtr, Offset, StorePtr
from tilewright.ir.ops.shape import Broadcast, Iota, Reshape
from tilewright.ir.ops.views import AtomicRedView, MakeGatherScatterView, MakeStridedView
from tilewright.ir.types import GatherScatterViewType, StridedViewType, TileType

F32, I32 = Element.F32, Element.I32


def test_the_swapped_store_of_permuted_heads():
    x = np.random.default_rng(0).standard_normal((2, 4, 16, 8)).astype(np.float32)
    z = np.zeros_like(x)
    watch(permute_heads(lambda b, h, m: (b, h, m)), (2, 4, 4), z, x)
    np.testing.assert_array_equal(z, x)
    # With the head and the tile swapped it is still a permutation while both have four.
    watch(permute_heads(lambda b, h, m: (b, m, h)), (2, 4, 4), z, x)
    # Every head writes where the first one does.
    racing = permute_heads(lambda b, h, m: (b, b, m))
    with pytest.raises(UndefinedBehaviourError) as caught:
        watch(racing, (2, 4, 4), z, x)
    assert str(caught.value) == (
        "race in kernel `permute_heads`: block (0, 0, 0) writes element (0, 0, 0, 0) of `z` "
        "(store_view_tko at racy.py:42:1), and block (0, 1, 0) writes it too "
        "(store_view_tko at racy.py:42:1)"
    )


@pytest.mark.parametrize("threads", [1, 4])
def test_a_tile_read_by_one_block_and_written_by_another(threads):
    k = Racy("neighbours")
    z = k.tensor("z", 1)
    i, _, _ = k.block()
    view = k.cut(z, 4)
    k.line(7)
    tile = k.load(view, k.add(AddI(lhs=i, rhs=k.index(1))))
    k.line(8)
    k.store(tile.tile, view, i, token=tile.result_token)
    kernel = k.finish()
    watch(kernel, (1, 1, 1), np.zeros(8, np.float32))
    with pytest.raises(UndefinedBehaviourError) as caught:
        watch(kernel, (6, 1, 1), np.zeros(40, np.float32), threads=threads)
    assert str(caught.value) == (
        "race in kernel `neighbours`: block (1, 0, 0) writes element (4,) of `z` "
        "(store_view_tko at racy.py:8:1), and block (0, 0, 0) reads it "
        "(load_view_tko at racy.py:7:1)"
    )


def test_tiles_of_different_cuts_of_one_tensor():
    k = Racy("cuts")
    z = k.tensor("z", 2)
    i, _, _ = k.block()
    k.line(1)
    k.store(k.ones(1, 8), k.cut(z, 1, 8), i, k.index(0))
    k.line(2)
    k.store(k.ones(4, 2), k.cut(z, 4, 2), k.index(1), i)
    kernel = k.finish()
    watch(kernel, (4, 1, 1), np.zeros((8, 8), np.float32))
    with pytest.raises(UndefinedBehaviourError) as caught:
        watch(kernel, (5, 1, 1), np.zeros((8, 16), np.float32))
    text = str(caught.value)
    assert "block (0, 0, 0) writes element (4, 0) of `z` (store_view_tko at racy.py:2:1)" in text
    assert "block (4, 0, 0) writes it too (store_view_tko at racy.py:1:1)" in text


def strided_copy(step: int):
    k = Racy("windows")
    z = k.tensor("z", 1)
    i, _, _ = k.block()
    to = StridedViewType((4,), (step,), z.type, (0,))
    view = k.add(MakeStridedView(tensor_view=z, to=to))
    k.line(3)
    k.store(k.ones(4), view, i)
    return k.finish()


@pytest.mark.parametrize(("step", "races"), [(3, True), (4, False), (5, False)])
def test_windows_that_overlap_race(step, races):
    z = np.zeros(20, np.float32)
    kernel = strided_copy(step)
    if not races:
        watch(kernel, (4, 1, 1), z)
        return
    with pytest.raises(UndefinedBehaviourError, match=r"element \(3,\) of `z`"):
        watch(kernel, (4, 1, 1), z)


def test_rows_that_are_picked_race_where_they_meet():
    k = Racy("rows")
    z, rows = k.tensor("z", 2), k.tensor("rows", 1, I32)
    i, _, _ = k.block()
    at = k.load(k.cut(rows, 4), i).tile
    to = GatherScatterViewType((4, 2), z.type, 0)
    view = k.add(MakeGatherScatterView(tensor_view=z, to=to))
    k.line(5)
    k.store(k.ones(4, 2), view, at, k.index(1))
    kernel = k.finish()
    z = np.zeros((8, 4), np.float32)
    watch(kernel, (2, 1, 1), z, np.array([0, 7, 3, 99, 1, 2, 4, 99], np.int32))
    assert z.sum() == 12
    with pytest.raises(UndefinedBehaviourError) as caught:
        watch(kernel, (2, 1, 1), z, np.array([0, 7, 3, 99, 1, 2, 3, 99], np.int32))
    assert "block (0, 0, 0) writes element (3, 1) of `z`" in str(caught.value)


def scattered(step: int):
    """Each block writes four places, `step` apart, through pointers."""
    k = Racy("scattered")
    base = k.pointer()
    i, _, _ = k.block()
    tile = TileType(I32, (4,))
    steps = k.add(MulI(lhs=k.add(Iota(to=tile)), rhs=k.b.constant(step, I32, (4,))))
    start = k.add(Broadcast(source=k.add(Reshape(source=i, to=TileType(I32, (1,)))), to=tile))
    offset = k.add(AddI(lhs=steps, rhs=start))
    one = k.add(Reshape(source=base, to=base.type.with_shape((1,))))
    places = k.add(
        Offset(ptr=k.add(Broadcast(source=one, to=base.type.with_shape((4,)))), offset=offset)
    )
    k.line(9)
    k.b.add(StorePtr(destination=places, value=k.ones(4)))
    return k.finish()


def test_pointers_are_compared_place_by_place():
    memory = KernelMemory.of(np.zeros(64, np.float32))
    watch(scattered(4), (4, 1, 1), memory)
    watch(scattered(1), (1, 1, 1), memory)
    with pytest.raises(UndefinedBehaviourError, match=r"the element at 0x[0-9a-f]+ \(store_ptr"):
        watch(scattered(2), (4, 1, 1), memory)


def test_an_element_reached_by_pointer_is_named_if_a_view_knows_it():
    k = Racy("both")
    z = k.tensor("z", 1)
    i, _, _ = k.block()
    k.line(1)
    k.store(k.ones(4), k.cut(z, 4), i)
    place = k.add(Offset(ptr=k.params[0], offset=k.index(6)))
    k.line(2)
    k.b.add(LoadPtr(source=place))
    with pytest.raises(UndefinedBehaviourError, match=r"writes element \(6,\) of `z`"):
        watch(k.finish(), (2, 1, 1), np.zeros(8, np.float32))


ATOMICS = [
    # what one block does, what another does, whether that is a race
    ("add", "add", False),
    ("add", "relaxed load", False),
    ("add", "relaxed store", False),
    ("relaxed load", "relaxed load", False),
    ("relaxed store", "relaxed store", False),
    ("add", "load", True),
    ("add", "store", True),
    ("relaxed load", "load", False),
    ("relaxed load", "store", True),
    ("relaxed store", "load", True),
    ("add", "add in the block", True),
]


def touch(k: Racy, place, what: str) -> None:
    one = k.b.constant(1.0, F32)
    relaxed = {
        "memory_ordering": MemoryOrder.RELAXED,
        "memory_scope": MemoryScope.DEVICE,
    }
    narrow = {"memory_scope": MemoryScope.TL_BLK}
    k.b.add(
        {
            "load": lambda: LoadPtr(source=place),
            "store": lambda: StorePtr(destination=place, value=one),
            "relaxed load": lambda: LoadPtr(source=place, **relaxed),
            "relaxed store": lambda: StorePtr(destination=place, value=one, **relaxed),
            "add": lambda: AtomicRmw(pointers=place, arg=one, mode=AtomicMode.ADDF),
            "add in the block": lambda: AtomicRmw(
                pointers=place, arg=one, mode=AtomicMode.ADDF, **narrow
            ),
        }[what]()
    )


@pytest.mark.parametrize(("one", "other", "races"), ATOMICS)
def test_atomics_race_with_plain_accesses_only(one, other, races):
    """Block 0 does one thing to the first element, block 1 the other; each does both elsewhere."""
    k = Racy("atomics")
    base = k.pointer()
    i, _, _ = k.block()
    first = k.add(CmpI(lhs=i, rhs=k.index(0), comparison_predicate=Predicate.EQUAL))
    sides = Block(), Block()
    for side, what in zip(sides, (one, other), strict=True):
        with k.b.inside(side):
            touch(k, base, what)
            k.b.add(Yield())
    k.b.add(If(condition=first, then_body=sides[0], else_body=sides[1]))
    kernel = k.finish()
    memory = KernelMemory.of(np.zeros(4, np.float32))
    watch(kernel, (1, 1, 1), memory)
    if races:
        with pytest.raises(UndefinedBehaviourError, match="race in kernel `atomics`: block"):
            watch(kernel, (2, 1, 1), memory)
    else:
        watch(kernel, (2, 1, 1), memory)


def test_sums_into_a_view_are_atomic():
    k = Racy("sums")
    z = k.tensor("z", 1)
    k.block()
    view = k.cut(z, 4)
    k.b.add(AtomicRedView(view=view, index=(k.index(0),), value=k.ones(4), mode=AtomicMode.ADDF))
    z = np.zeros(4, np.float32)
    watch(k.finish(), (5, 1, 1), z)
    assert z.tolist() == [5, 5, 5, 5]


def test_many_blocks_on_threads_are_looked_at_in_order():
    kernel = strided_copy(3)
    z = np.zeros(400, np.float32)
    for threads in (1, 3, 8):
        with pytest.raises(UndefinedBehaviourError) as caught:
            watch(kernel, (100, 1, 1), z, threads=threads)
        assert "block (0, 0, 0) writes element (3,) of `z`" in str(caught.value)
        assert "block (1, 0, 0) writes it too" in str(caught.value)

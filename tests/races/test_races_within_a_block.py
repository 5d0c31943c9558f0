"""One block: only tokens order what it does, whatever the text says."""

import numpy as np
import pytest
from race_programs import Racy, watch

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import AtomicMode, Predicate
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.addresses import Alloca
from tilewright.ir.ops.control import Continue, For, If, Yield
from tilewright.ir.ops.dependencies import MemoryFenceAlias
from tilewright.ir.ops.elementwise import AddF, CmpI
from tilewright.ir.ops.memory import AtomicRmw, JoinTokens, LoadPtr, MakeToken, StorePtr
from tilewright.ir.types import TOKEN, PtrType, scalar

F32, I32 = Element.F32, Element.I32
ONE = (1, 1, 1)


def in_place(*, ordered: bool):
    """z = z + z, tile by tile: a load, and a store of what depends on it."""
    k = Racy("in_place")
    z = k.tensor("z", 1)
    i, _, _ = k.block()
    view = k.cut(z, 4)
    k.line(20)
    load = k.load(view, i)
    total = k.add(AddF(lhs=load.tile, rhs=load.tile))
    k.line(21)
    k.store(total, view, i, token=load.result_token if ordered else None)
    return k.finish()


def test_data_do_not_order_a_store_behind_a_load():
    z = np.ones(8, np.float32)
    watch(in_place(ordered=True), (2, 1, 1), z)
    assert z.tolist() == [2] * 8
    with pytest.raises(UndefinedBehaviourError) as caught:
        watch(in_place(ordered=False), (2, 1, 1), z)
    assert str(caught.value) == (
        "race in kernel `in_place`, inside block (0, 0, 0): store_view_tko at racy.py:21:1 writes "
        "element (0,) of `z`, and load_view_tko at racy.py:20:1 reads it, and no token orders the "
        "two"
    )


def through(*ways: str):
    """A store and a load of one tile, with tokens passed on in the given ways."""
    k = Racy("through")
    z = k.tensor("z", 1)
    view, zero = k.cut(z, 4), k.index(0)
    token = k.store(k.ones(4), view, zero).result_token
    for way in ways:
        if way == "join":
            token = k.add(JoinTokens(tokens=(k.add(MakeToken()), token)))
        elif way == "fence":
            token = k.add(MemoryFenceAlias(token=token))
        elif way == "elsewhere":
            token = k.load(view, k.index(1), token=token).result_token
        elif way == "forgotten":
            token = k.add(MakeToken())
    k.load(view, zero, token=token)
    return k.finish()


@pytest.mark.parametrize(
    "ways", [(), ("join",), ("fence",), ("elsewhere",), ("join", "elsewhere", "fence", "join")]
)
def test_order_goes_through_everything_that_takes_a_token(ways):
    watch(through(*ways), ONE, np.zeros(8, np.float32))
    with pytest.raises(UndefinedBehaviourError, match="no token orders the two"):
        watch(through(*ways, "forgotten"), ONE, np.zeros(8, np.float32))


def test_two_loads_need_no_order_and_two_stores_do():
    k = Racy("loads")
    z = k.tensor("z", 1)
    view, zero = k.cut(z, 4), k.index(0)
    k.load(view, zero)
    k.load(view, zero)
    watch(k.finish(), ONE, np.zeros(4, np.float32))

    k = Racy("stores")
    z = k.tensor("z", 1)
    view, zero = k.cut(z, 4), k.index(0)
    k.store(k.ones(4), view, zero)
    k.store(k.ones(4), view, zero)
    with pytest.raises(UndefinedBehaviourError, match="writes element \\(0,\\) of `z`, and"):
        watch(k.finish(), ONE, np.zeros(4, np.float32))


def test_both_loads_must_be_waited_for():
    def kernel(*, joined: bool):
        k = Racy("two_loads")
        z = k.tensor("z", 1)
        view, zero = k.cut(z, 4), k.index(0)
        one, other = k.load(view, zero), k.load(view, zero)
        token = one.result_token
        if joined:
            token = k.add(JoinTokens(tokens=(one.result_token, other.result_token)))
        k.store(k.ones(4), view, zero, token=token)
        return k.finish()

    watch(kernel(joined=True), ONE, np.zeros(4, np.float32))
    with pytest.raises(UndefinedBehaviourError, match="no token orders"):
        watch(kernel(joined=False), ONE, np.zeros(4, np.float32))


def loop_of_stores(*, carried: bool, same_place: bool):
    """Stores in a counted loop, each waiting for the last one or not."""
    k = Racy("loop")
    z = k.tensor("z", 1)
    view = k.cut(z, 4)
    counter, token = Value(scalar(I32)), Value(TOKEN)
    body = Block((counter, token))
    with k.b.inside(body):
        place = k.index(0) if same_place else counter
        k.line(30)
        stored = k.store(k.ones(4), view, place, token=token)
        k.b.add(Continue(values=(stored.result_token if carried else token,)))
    start = k.add(MakeToken())
    loop = For(
        lower_bound=k.index(0),
        upper_bound=k.index(5),
        step=k.index(1),
        init_values=(start,),
        body=body,
    )
    after = k.add(loop)
    k.line(31)
    k.load(view, k.index(0), token=after)
    return k.finish()


@pytest.mark.parametrize(
    ("carried", "same_place", "said"),
    [
        (True, True, None),
        (True, False, None),
        (False, False, "racy.py:31:1 reads it"),
        (False, True, "and store_view_tko at racy.py:30:1 writes it"),
    ],
)
def test_tokens_are_carried_through_loops(carried, same_place, said):
    kernel = loop_of_stores(carried=carried, same_place=same_place)
    z = np.zeros(20, np.float32)
    if said is None:
        watch(kernel, ONE, z)
        return
    with pytest.raises(UndefinedBehaviourError) as caught:
        watch(kernel, ONE, z)
    assert said in str(caught.value)


@pytest.mark.parametrize("flag", [0, 1])
def test_tokens_come_out_of_the_branch_that_is_taken(flag):
    def kernel(*, from_branch: bool):
        k = Racy("branch")
        z, taken = k.tensor("z", 1), k.number()
        view, zero = k.cut(z, 4), k.index(0)
        before = k.add(MakeToken())
        yes = k.add(CmpI(lhs=taken, rhs=zero, comparison_predicate=Predicate.NOT_EQUAL))
        sides = Block(), Block()
        with k.b.inside(sides[0]):
            stored = k.store(k.ones(4), view, zero, token=before)
            k.b.add(Yield(values=(stored.result_token,)))
        with k.b.inside(sides[1]):
            k.b.add(Yield(values=(before,)))
        chosen = If(condition=yes, then_body=sides[0], else_body=sides[1], types=(TOKEN,))
        after = k.add(chosen)
        k.load(view, zero, token=after if from_branch else before)
        return k.finish()

    z = np.zeros(4, np.float32)
    watch(kernel(from_branch=True), ONE, z, flag)
    if flag:
        with pytest.raises(UndefinedBehaviourError, match="no token orders"):
            watch(kernel(from_branch=False), ONE, z, flag)
    else:
        watch(kernel(from_branch=False), ONE, z, flag)


def test_different_cuts_are_compared_as_boxes():
    def kernel(column: int):
        k = Racy("cuts")
        z = k.tensor("z", 2)
        k.store(k.ones(2, 4), k.cut(z, 2, 4), k.index(0), k.index(0))
        k.line(12)
        k.load(k.cut(z, 4, 2), k.index(0), k.index(column))
        return k.finish()

    z = np.zeros((4, 8), np.float32)
    watch(kernel(2), ONE, z)
    with pytest.raises(UndefinedBehaviourError, match=r"element \(0, 2\) of `z`"):
        watch(kernel(1), ONE, z)


def test_two_tensors_over_one_memory_are_compared_by_address():
    k = Racy("aliases")
    x, y = k.tensor("x", 1), k.tensor("y", 1)
    k.store(k.ones(4), k.cut(x, 4), k.index(0))
    k.load(k.cut(y, 2), k.index(0))
    kernel = k.finish()
    data = np.zeros(16, np.float32)
    memories = [KernelMemory.of(data)]
    kernel.run(
        ONE, [data.ctypes.data, 4, 1, data.ctypes.data + 16, 4, 1], memories, race_check=True
    )
    with pytest.raises(UndefinedBehaviourError, match=r"element \(2,\) of `x`"):
        kernel.run(
            ONE, [data.ctypes.data, 4, 1, data.ctypes.data + 8, 4, 1], memories, race_check=True
        )


def test_atomics_of_one_block_are_ordered_with_each_other_only():
    def kernel(*, read: bool):
        k = Racy("atomics")
        place, one = k.pointer(), k.b.constant(1.0, F32)
        for _ in range(2):
            k.b.add(AtomicRmw(pointers=place, arg=one, mode=AtomicMode.ADDF))
        if read:
            k.b.add(LoadPtr(source=place))
        return k.finish()

    memory = KernelMemory.of(np.zeros(1, np.float32))
    watch(kernel(read=False), ONE, memory)
    with pytest.raises(UndefinedBehaviourError, match="updates atomically the element at"):
        watch(kernel(read=True), ONE, memory)


def test_memory_of_a_block_is_watched_too():
    def kernel(*, ordered: bool):
        k = Racy("scratch")
        base = k.add(Alloca(num_elem=4, alignment=16, to=scalar(PtrType(F32))))
        stored = k.b.add(StorePtr(destination=base, value=k.b.constant(1.0, F32)))
        k.b.add(LoadPtr(source=base, token=stored.result_token if ordered else None))
        return k.finish()

    watch(kernel(ordered=True), (50, 1, 1))  # each has its own, whatever the allocator gives
    with pytest.raises(UndefinedBehaviourError, match="no token orders"):
        watch(kernel(ordered=False), (50, 1, 1))

"""Blocks that hand work on by releasing and acquiring: ordered if both sides do, and only then."""

import numpy as np
import pytest
from race_programs import Racy, watch

from tilewright.backends.cpu.memory import KernelMemory
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import AtomicMode, MemoryOrder, MemoryScope, Predicate
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import If, Yield
from tilewright.ir.ops.elementwise import AddF, AddI, CmpI
from tilewright.ir.ops.memory import AtomicRmw, LoadPtr, Offset, StorePtr

I32, F32 = Element.I32, Element.F32
RELAXED, ACQUIRE, RELEASE, BOTH = (
    MemoryOrder.RELAXED,
    MemoryOrder.ACQUIRE,
    MemoryOrder.RELEASE,
    MemoryOrder.ACQ_REL,
)


def turn(k: Racy, flag: Value, order: MemoryOrder, token: Value | None, **more: object) -> Value:
    """Adds 1 to a counter in memory."""
    return k.b.add(
        AtomicRmw(
            pointers=flag,
            arg=k.b.constant(1, I32),
            mode=AtomicMode.ADD,
            memory_ordering=order,
            token=token,
            **more,
        )
    ).result_token


def guarded(
    acquire: MemoryOrder,
    release: MemoryOrder,
    *,
    ordered: bool = True,
    tiles: bool = True,
    scope: MemoryScope = MemoryScope.DEVICE,
):
    """Every block adds to the same sums, between two turns of a counter."""
    k = Racy("guarded")
    z, flag = k.tensor("z", 1), k.pointer(I32)
    k.block()
    view, zero = k.cut(z, 4), k.index(0)
    k.line(50)
    entered = turn(k, flag, acquire, None, memory_scope=scope)
    k.line(51)
    if tiles:
        load = k.load(view, zero, token=entered)
        total = k.add(AddF(lhs=load.tile, rhs=k.ones(4)))
        k.line(52)
        stored = k.store(total, view, zero, token=load.result_token).result_token
    else:
        place = k.add(Offset(ptr=k.params[0], offset=k.index(2)))
        one = k.b.add(LoadPtr(source=place, token=entered))
        total = k.add(AddF(lhs=one.result, rhs=k.b.constant(1.0, F32)))
        k.line(52)
        stored = k.b.add(
            StorePtr(destination=place, value=total, token=one.result_token)
        ).result_token
    k.line(53)
    turn(k, flag, release, stored if ordered else entered, memory_scope=scope)
    return k.finish()


def check(kernel, races: bool) -> None:
    z, flag = np.zeros(4, np.float32), KernelMemory.of(np.zeros(1, np.int32))
    if races:
        with pytest.raises(UndefinedBehaviourError, match="race in kernel `guarded`: block"):
            watch(kernel, (6, 1, 1), z, flag)
    else:
        watch(kernel, (6, 1, 1), z, flag)
        assert z.max() == 6


@pytest.mark.parametrize("tiles", [True, False], ids=["tiles", "pointers"])
@pytest.mark.parametrize(
    ("acquire", "release", "races"),
    [
        (BOTH, BOTH, False),
        (ACQUIRE, RELEASE, False),
        (ACQUIRE, BOTH, False),
        (RELAXED, RELEASE, True),
        (ACQUIRE, RELAXED, True),
        (RELAXED, RELAXED, True),
    ],
)
def test_both_sides_are_needed(acquire, release, races, tiles):
    check(guarded(acquire, release, tiles=tiles), races)


def test_what_no_token_puts_before_the_release_is_not_released():
    check(guarded(BOTH, RELEASE, ordered=True), races=False)
    check(guarded(ACQUIRE, RELEASE, ordered=False), races=True)


def test_a_scope_of_the_block_hands_nothing_on():
    check(guarded(BOTH, BOTH, scope=MemoryScope.SYS), races=False)
    check(guarded(BOTH, BOTH, scope=MemoryScope.TL_BLK), races=True)


def test_another_counter_hands_nothing_on():
    k = Racy("guarded")
    z, flags = k.tensor("z", 1), k.pointer(I32)
    block, _, _ = k.block()
    own = k.add(Offset(ptr=flags, offset=block))
    view, zero = k.cut(z, 4), k.index(0)
    entered = turn(k, own, BOTH, None)
    stored = k.store(k.ones(4), view, zero, token=entered)
    turn(k, own, BOTH, stored.result_token)
    kernel = k.finish()
    with pytest.raises(UndefinedBehaviourError, match="writes it too"):
        watch(kernel, (3, 1, 1), np.zeros(4, np.float32), KernelMemory.of(np.zeros(3, np.int32)))


def test_order_is_handed_on_from_block_to_block():
    """Block n waits for the counter before its own and raises its own: a chain."""

    def kernel(*, linked: bool):
        k = Racy("chain")
        z, flags = k.tensor("z", 1), k.pointer(I32)
        block, _, _ = k.block()
        before = k.add(Offset(ptr=flags, offset=block if linked else k.index(9)))
        after = k.add(Offset(ptr=flags, offset=k.add(AddI(lhs=block, rhs=k.index(1)))))
        view, zero = k.cut(z, 4), k.index(0)
        entered = turn(k, before, ACQUIRE, None)
        stored = k.store(k.ones(4), view, zero, token=entered)
        turn(k, after, RELEASE, stored.result_token)
        return k.finish()

    flags = KernelMemory.of(np.zeros(10, np.int32))
    watch(kernel(linked=True), (8, 1, 1), np.zeros(4, np.float32), flags)
    with pytest.raises(UndefinedBehaviourError, match="race in kernel `chain`"):
        watch(kernel(linked=False), (8, 1, 1), np.zeros(4, np.float32), flags)


def test_loads_and_stores_can_release_and_acquire():
    def kernel(release: MemoryOrder, acquire: MemoryOrder):
        """Block 0 writes and raises a flag; block 1 looks at the flag and reads."""
        k = Racy("flag")
        z, flag = k.tensor("z", 1), k.pointer(I32)
        block, _, _ = k.block()
        view, zero = k.cut(z, 4), k.index(0)
        scope = MemoryScope.DEVICE
        first = k.add(CmpI(lhs=block, rhs=zero, comparison_predicate=Predicate.EQUAL))
        sides = Block(), Block()
        with k.b.inside(sides[0]):
            stored = k.store(k.ones(4), view, zero)
            k.b.add(
                StorePtr(
                    destination=flag,
                    value=k.b.constant(1, I32),
                    memory_ordering=release,
                    memory_scope=scope,
                    token=stored.result_token,
                )
            )
            k.b.add(Yield())
        with k.b.inside(sides[1]):
            seen = k.b.add(LoadPtr(source=flag, memory_ordering=acquire, memory_scope=scope))
            k.load(view, zero, token=seen.result_token)
            k.b.add(Yield())
        k.b.add(If(condition=first, then_body=sides[0], else_body=sides[1]))
        return k.finish()

    z, flag = np.zeros(4, np.float32), KernelMemory.of(np.zeros(1, np.int32))
    watch(kernel(RELEASE, ACQUIRE), (2, 1, 1), z, flag)
    for orders in ((RELAXED, ACQUIRE), (RELEASE, RELAXED)):
        with pytest.raises(UndefinedBehaviourError, match="reads it"):
            watch(kernel(*orders), (2, 1, 1), z, flag)


def test_a_lock_that_many_blocks_take():
    kernel = guarded(BOTH, BOTH)
    z, flag = np.zeros(4, np.float32), KernelMemory.of(np.zeros(1, np.int32))
    watch(kernel, (150, 1, 1), z, flag, threads=1)
    assert z.tolist() == [150] * 4

"""A report is claimed by one block and written by the winner alone."""

from block_interpreter import World, run
from ir_samples import Sample, mnemonics, only

from tilewright.dtypes import Element
from tilewright.ir.attributes import MemoryOrder, MemoryScope
from tilewright.ir.launch_terms import ScalarArgument
from tilewright.ir.ops.internal import RecordFailure
from tilewright.ir.ops.memory import AtomicCas, StorePtr
from tilewright.passes.lower_records import lower_records


def reporting():
    s = Sample()
    for name in "ab":
        failed = s.scalar(f"{name}_failed")
        s.add(
            RecordFailure(
                failed=failed,
                index=s.scalar(name),
                count=s.index(10),
                site_number=s.index(ord(name)),
            )
        )
    return lower_records(s.done())


def world(a_failed, b_failed):
    values = {"a": -3, "b": 44, "a_failed": a_failed, "b_failed": b_failed}
    return World({ScalarArgument(name): value for name, value in values.items()}, blocks=4)


def test_no_failure_writes_nothing():
    assert run(reporting(), world(0, 0)).record == [0] * 16


def test_words_are_claim_site_index_count_and_block():
    record = run(reporting(), world(0, 1), block=2).record
    assert record == [1, ord("b") + 1, 44, 10, 2, 0, 0] + [0] * 9


def test_the_first_report_wins_within_a_block_and_between_blocks():
    shared = world(1, 1)
    for block in (3, 1):
        run(reporting(), shared, block)
    assert shared.record[:5] == [1, ord("a") + 1, -3, 10, 3]


def test_the_claim_is_relaxed_and_orders_nothing():
    function = reporting()
    for claim in only(function, AtomicCas):
        assert claim.memory_ordering is MemoryOrder.RELAXED
        assert claim.memory_scope is MemoryScope.SYS
        assert claim.token is None
    stores = only(function, StorePtr)
    assert len(stores) == 12
    assert all(store.token is None for store in stores)
    assert all(store.value.type.element is Element.I32 for store in stores)
    assert not {"make_token", "join_tokens", "record"} & set(mnemonics(function))

"""Lowers the report of a failed check to a write that one block claims.

    before                                  after
    record %failed, %i, %n, %site           if %failed {
                                              %old = atomic_cas relaxed sys %record, 0, 1
                                              %free = cmpi equal %old, 0
                                              if %free { store site + 1, index, count, block id }
                                            }

The record is 16 words of 32 bits in memory that the host can read: word 0 is the claim, then site
number plus one, index, count, and the block's physical id along x, y and z. Only the block that
wins the claim writes the other words, so the writes need no tokens: runs after `order_tokens`.
"""

from __future__ import annotations

from tilewright.dtypes import Element
from tilewright.ir.attributes import MemoryOrder, MemoryScope, Predicate
from tilewright.ir.builder import Builder
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import RecordAddress
from tilewright.ir.op import Op, Value
from tilewright.ir.ops.control import GetTileBlockId
from tilewright.ir.ops.internal import LaunchValue, RecordFailure
from tilewright.ir.ops.memory import AtomicCas, Offset, StorePtr
from tilewright.ir.rewrite import Rewriter, Rule, has_any, when
from tilewright.ir.types import PtrType, scalar
from tilewright.passes.integer_ops import Integers

__all__ = ["lower_records"]

_RECORD = scalar(PtrType(Element.I32))


def lower_records(function: Function) -> Function:
    """Replace every `record`."""
    return Rewriter(_RULES).function(function) if has_any(function, _RULES) else function


def _record(rewriter: Rewriter, op: RecordFailure) -> None:
    builder = rewriter.builder
    failed, index, count, site = (rewriter.new(value) for value in op.operands)
    with when(builder, failed):
        record = builder.add(LaunchValue(term=RecordAddress(), to=_RECORD)).result
        unclaimed, claimed = builder.index(0), builder.index(1)
        claim = AtomicCas(
            pointers=record,
            cmp=unclaimed,
            val=claimed,
            memory_ordering=MemoryOrder.RELAXED,
            memory_scope=MemoryScope.SYS,
        )
        old = builder.add(claim).result
        emit = Integers(builder)
        with when(builder, emit.compare(old, Predicate.EQUAL, unclaimed)):
            block = builder.add(GetTileBlockId())
            words = (emit.add(site, claimed), index, count, *block.results)
            _store_words(builder, record, words)


def _store_words(builder: Builder, record: Value, words: tuple[Value, ...]) -> None:
    """Write the words after the claim."""
    for number, word in enumerate(words, start=1):
        place = builder.add(Offset(ptr=record, offset=builder.index(number))).result
        builder.add(StorePtr(destination=place, value=word))


_RULES: dict[type[Op], Rule] = {RecordFailure: _record}

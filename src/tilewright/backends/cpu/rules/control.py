"""How branches, terminators, promises and questions about the grid are written."""

from __future__ import annotations

from typing import Any

from tilewright.backends.cpu import promises
from tilewright.backends.cpu.emitter import BLOCK, GRID, Emitter, Rules
from tilewright.backends.cpu.rules.carried import assign, bind_carried, unpack
from tilewright.ir.attributes import Bounded
from tilewright.ir.ops.control import (
    Assert,
    Assume,
    Break,
    Continue,
    GetNumTileBlocks,
    GetTileBlockId,
    If,
    Return,
    Yield,
)

__all__ = ["RULES"]


def _if(em: Emitter, op: If) -> None:
    bind_carried(em, op.result_values)
    em.emit(f"if {em.plain(op.condition)}:")
    with em.indented(), em.target(Yield, op.result_values):
        em.write(op.then_body)
    em.emit("else:")
    with em.indented(), em.target(Yield, op.result_values):
        em.write(op.else_body)
    unpack(em, op.result_values)


def _hand_on(keyword: str) -> Any:
    def rule(em: Emitter, op: Any) -> None:
        assign(em, em.targets[type(op)], op.values)
        if keyword:
            em.emit(keyword)

    return rule


def _return(em: Emitter, op: Return) -> None:
    em.emit("return")


def _block_id(em: Emitter, op: GetTileBlockId) -> None:
    for value, name in zip(op.results, BLOCK, strict=True):
        em.bind(value, name)


def _grid(em: Emitter, op: GetNumTileBlocks) -> None:
    for value, name in zip(op.results, GRID, strict=True):
        em.bind(value, name)


def _assume(em: Emitter, op: Assume) -> None:
    held, predicate = em.held[op.value], op.predicate
    if isinstance(predicate, Bounded):
        low, high = predicate.lower, predicate.upper
        right = " <= ".join(str(end) for end in (low, held.text, high) if end is not None)
        check = em.call(promises.require_bounded, em.site(op), held.text, repr(low), repr(high))
    else:
        right = f"{held.text} % {predicate.divisor} == 0"
        check = em.call(promises.require_multiple, em.site(op), held.text, predicate.divisor)
    em.emit(f"if not ({right}): {check}" if held.plain else check)
    em.alias(op.result, op.value)


def _assert(em: Emitter, op: Assert) -> None:
    held = em.held[op.condition]
    message = em.constant(op.message)
    em.emit(f"if not {held.text}:" if held.plain else f"if not {em.array(op.condition)}.all():")
    with em.indented():
        em.emit(em.call(promises.fail_assertion, em.site(op), message))


# The ops of this page.
RULES: Rules = {
    If: _if,
    Break: _hand_on("break"),
    Continue: _hand_on("continue"),
    Yield: _hand_on(""),
    Return: _return,
    GetTileBlockId: _block_id,
    GetNumTileBlocks: _grid,
    Assume: _assume,
    Assert: _assert,
}

"""How control flow is written: Tile IR's is structured, so it is Python's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.backends.cpu import promises
from tilewright.backends.cpu.emitter import Emitter, Rules, is_held, tile_shape
from tilewright.backends.cpu.rules.memory import unpack_view
from tilewright.ir.attributes import Bounded
from tilewright.ir.op import Value
from tilewright.ir.ops.control import (
    Assert,
    Assume,
    Break,
    Continue,
    For,
    GetNumTileBlocks,
    GetTileBlockId,
    If,
    Loop,
    Return,
    Yield,
)  # fmt: skip
from tilewright.ir.types import PartitionViewType, TileType

__all__ = ["BLOCK", "GRID", "RULES"]

BLOCK = ("block_x", "block_y", "block_z")  # parameters of the generated function
GRID = ("grid_x", "grid_y", "grid_z")


def _loop(em: Emitter, op: Loop) -> None:
    _bind_carried(em, op.body.args)
    _assign(em, op.body.args, op.init_values)
    _bind_carried(em, op.result_values)
    em.emit("while True:")
    with em.indented(), em.target(Break, op.result_values), em.target(Continue, op.body.args):
        _unpack(em, op.body.args)
        em.write(op.body)
    _unpack(em, op.result_values)


def _for(em: Emitter, op: For) -> None:
    counter, *carried = op.body.args
    _bind_carried(em, carried)
    _assign(em, carried, op.init_values)
    bounds = [em.plain(value) for value in (op.lower_bound, op.upper_bound, op.step)]
    step = em.held[op.step].constant
    if step is None or step <= 0:
        em.emit(em.call(promises.require_step, em.site(op), bounds[2], op.unsigned_cmp))
    name = em.fresh()
    if op.unsigned_cmp:
        text = em.call(promises.unsigned_range, _bits(counter), *bounds)
    else:
        text = f"range({', '.join(bounds)})"
    em.emit(f"for {name} in {text}:")
    em.bind(counter, name)
    with em.indented(), em.target(Continue, carried):
        _unpack(em, carried)
        em.write(op.body)
    for value, result in zip(carried, op.result_values, strict=True):
        if is_held(value):
            # The loop's own name goes on to change when an outer loop runs it again.
            em.define(result, em.held[value].text, em.held[value].shape)
    _unpack(em, op.result_values)


def _bits(value: Value) -> int:
    assert isinstance(value.type, TileType)
    return int(getattr(value.type.element, "bits", 64))


def _if(em: Emitter, op: If) -> None:
    _bind_carried(em, op.result_values)
    em.emit(f"if {em.plain(op.condition)}:")
    with em.indented(), em.target(Yield, op.result_values):
        em.write(op.then_body)
    em.emit("else:")
    with em.indented(), em.target(Yield, op.result_values):
        em.write(op.else_body)
    _unpack(em, op.result_values)


def _bind_carried(em: Emitter, values: Sequence[Value]) -> None:
    """Names for values that several places assign; tiles have their whole shape then."""
    for value in values:
        if is_held(value):
            shape = value.type.shape if isinstance(value.type, TileType) else None
            em.bind(value, em.fresh(), shape)


def _assign(em: Emitter, targets: Sequence[Value], values: Sequence[Value]) -> None:
    pairs = [(to, value) for to, value in zip(targets, values, strict=True) if is_held(to)]
    if pairs:
        names = "".join(f"{em.held[to].text}, " for to, _ in pairs)
        texts = "".join(f"{_whole(em, value)}, " for _, value in pairs)
        em.emit(f"{names}= {texts}")


def _whole(em: Emitter, value: Value) -> str:
    held = em.held[value]
    if held.plain or not isinstance(value.type, TileType) or not tile_shape(value):
        return held.text
    return em.full(value)


def _unpack(em: Emitter, values: Sequence[Value]) -> None:
    for value in values:
        if isinstance(value.type, PartitionViewType):
            unpack_view(em, value)


def _hand_on(keyword: str) -> Any:
    def rule(em: Emitter, op: Any) -> None:
        _assign(em, em.targets[type(op)], op.values)
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


RULES: Rules = {
    For: _for,
    Loop: _loop,
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

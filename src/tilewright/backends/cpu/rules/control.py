"""Emission of branches, terminators and grid coordinates."""

from __future__ import annotations

from typing import Any

from tilewright.backends.cpu.emitter import BLOCK, GRID, Emitter, Rules
from tilewright.backends.cpu.rules.carried import assign, bind_carried, unpack
from tilewright.ir.ops.control import (
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


# Rules of this module.
RULES: Rules = {
    If: _if,
    Break: _hand_on("break"),
    Continue: _hand_on("continue"),
    Yield: _hand_on(""),
    Return: _return,
    GetTileBlockId: _block_id,
    GetNumTileBlocks: _grid,
}

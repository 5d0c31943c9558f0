"""Emission of tokens, fences and waits between grids.

A block runs in program order, and a launch starts after all earlier ones, so these ops emit no
code; in a watched program a token is the set of events that precede it.
"""

from __future__ import annotations

from typing import Any

from tilewright.backends.cpu.emitter import Emitter, Rules
from tilewright.ir.ops.dependencies import GdcLaunchDependents, GdcWait, MemoryFenceAlias
from tilewright.ir.ops.memory import JoinTokens, MakeToken

__all__ = ["RULES"]


def _make(em: Emitter, op: MakeToken) -> None:
    if em.plan.watched:
        em.bind(op.result, "0", None)


def _join(em: Emitter, op: JoinTokens) -> None:
    if em.plan.watched:
        em.define(op.result, " | ".join(em.held[token].text for token in op.tokens), None)


def _pass(em: Emitter, op: Any) -> None:
    em.pass_token(op)


# Rules of this module.
RULES: Rules = {
    MakeToken: _make,
    JoinTokens: _join,
    GdcLaunchDependents: _pass,
    GdcWait: _pass,
    MemoryFenceAlias: _pass,
}

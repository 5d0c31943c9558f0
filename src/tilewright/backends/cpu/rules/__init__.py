"""Emission rules: one for each op of Tile IR."""

from __future__ import annotations

from tilewright.backends.cpu.emitter import Rules
from tilewright.backends.cpu.rules import (
    control,
    floating,
    inspecting,
    integer,
    loops,
    pointers,
    printing,
    promises,
    reduction,
    shape,
    tokens,
    views,
)

__all__ = ["RULES"]

# One rule for every op of Tile IR, and for inspections.
RULES: Rules = {
    **integer.RULES,
    **floating.RULES,
    **shape.RULES,
    **tokens.RULES,
    **views.RULES,
    **pointers.RULES,
    **reduction.RULES,
    **control.RULES,
    **promises.RULES,
    **printing.RULES,
    **inspecting.RULES,
    **loops.RULES,
}

"""One rule for each op of Tile IR: how it is written as Python."""

from __future__ import annotations

from tilewright.backends.cpu.emitter import Rules
from tilewright.backends.cpu.rules import (
    control,
    floating,
    integer,
    loops,
    memory,
    reduction,
    shape,
)

__all__ = ["RULES"]

# Every op of Tile IR.
RULES: Rules = {
    **integer.RULES,
    **floating.RULES,
    **shape.RULES,
    **memory.RULES,
    **reduction.RULES,
    **control.RULES,
    **loops.RULES,
}

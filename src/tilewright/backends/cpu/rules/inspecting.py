"""Emission of inspections."""

from __future__ import annotations

from math import prod

from tilewright.backends.cpu import inspecting
from tilewright.backends.cpu.emitter import Emitter, Rules, tile_dtype, tile_shape
from tilewright.backends.cpu.rules.printing import shown
from tilewright.ir.ops.internal import BlockInspection

__all__ = ["RULES"]


def _inspect(em: Emitter, op: BlockInspection) -> None:
    em.need(sum(prod(tile_shape(one)) * tile_dtype(one).itemsize for one in op.args))
    values = [shown(em, value) for value in op.args]
    em.emit(em.call(inspecting.observe, em.constant(op.shown), *values))


# Rules of this module.
RULES: Rules = {BlockInspection: _inspect}

"""Emission of inspections."""

from __future__ import annotations

from math import prod

from tilewright.backends.cpu import formats, inspecting
from tilewright.backends.cpu.emitter import Emitter, Rules, tile_dtype, tile_element, tile_shape
from tilewright.dtypes import Element
from tilewright.ir.op import Value
from tilewright.ir.ops.internal import BlockInspection

__all__ = ["RULES"]


def _inspect(em: Emitter, op: BlockInspection) -> None:
    em.need(sum(prod(tile_shape(one)) * tile_dtype(one).itemsize for one in op.args))
    values = [_shown(em, value) for value in op.args]
    em.emit(em.call(inspecting.observe, em.constant(op.shown), *values))


def _shown(em: Emitter, value: Value) -> str:
    element = tile_element(value)
    if isinstance(element, Element) and element.is_held_as_bits:
        return em.call(formats.decoded, em.full(value))
    return em.plain(value) if em.held[value].plain else em.full(value)


# Rules of this module.
RULES: Rules = {BlockInspection: _inspect}

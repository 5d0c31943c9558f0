"""How output for people is written."""

from __future__ import annotations

from tilewright.backends.cpu import formats, printing
from tilewright.backends.cpu.emitter import Emitter, Rules, tile_element
from tilewright.dtypes import Element
from tilewright.ir.op import Value
from tilewright.ir.ops.control import Print

__all__ = ["RULES"]

_POINTER_BITS = 64


def _print(em: Emitter, op: Print) -> None:
    parts = printing.fields(op.str)
    widths = tuple(_bits(value) for value in op.args)
    values = [_shown(em, value) for value in op.args]
    em.emit(em.call(printing.show, em.constant(parts), repr(widths), *values))
    em.pass_token(op)


def _bits(value: Value) -> int:
    element = tile_element(value)
    return element.bits if isinstance(element, Element) else _POINTER_BITS


def _shown(em: Emitter, value: Value) -> str:
    element = tile_element(value)
    if isinstance(element, Element) and element.is_held_as_bits:
        return em.call(formats.decoded, em.full(value))
    return em.plain(value) if em.held[value].plain else em.full(value)


# The ops of this page.
RULES: Rules = {Print: _print}

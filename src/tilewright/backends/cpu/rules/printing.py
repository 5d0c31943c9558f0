"""Emission of printed output."""

from __future__ import annotations

from math import prod

from tilewright.backends.cpu import formats, printing
from tilewright.backends.cpu.emitter import Emitter, Rules, tile_element, tile_shape
from tilewright.backends.cpu.faults import report
from tilewright.dtypes import Element
from tilewright.ir.op import Value
from tilewright.ir.ops.control import Print
from tilewright.ir.print_formats import split_format

__all__ = ["RULES", "shown"]

_POINTER_BITS = 64


def _print(em: Emitter, op: Print) -> None:
    places, end = split_format(op.str)
    try:
        parts = printing.fields(places)
    except printing.UnprintableError as error:
        em.emit(em.call(report, em.site(op), repr(f"cannot print: {error}")))
    else:
        em.need(sum(part.length * _size(value) for part, value in zip(parts, op.args, strict=True)))
        widths = tuple(_bits(value) for value in op.args)
        values = [shown(em, value) for value in op.args]
        arguments = em.constant(parts), em.constant(end), repr(widths)
        em.emit(em.call(printing.show, *arguments, *values))
    em.pass_token(op)


def _size(value: Value) -> int:
    return prod(tile_shape(value))


def _bits(value: Value) -> int:
    element = tile_element(value)
    return element.bits if isinstance(element, Element) else _POINTER_BITS


def shown(em: Emitter, value: Value) -> str:
    """Return the text of a tile whose elements are the numbers that a user sees."""
    element = tile_element(value)
    if isinstance(element, Element) and element.is_held_as_bits:
        return em.call(formats.decoded, em.full(value))
    return em.plain(value) if em.held[value].plain else em.full(value)


# Rules of this module.
RULES: Rules = {Print: _print}

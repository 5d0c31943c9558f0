"""Emission of values that regions pass on: carried by loops, yielded by branches."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.emitter import Emitter, tile_shape
from tilewright.backends.cpu.rules.views import unpack_view
from tilewright.ir.op import Value
from tilewright.ir.types import TileType, ViewType

__all__ = ["assign", "bind_carried", "unpack"]


def bind_carried(em: Emitter, values: Sequence[Value]) -> None:
    """Name values that have several assignments; their tiles have the full shape."""
    for value in values:
        if em.is_held(value):
            shape = value.type.shape if isinstance(value.type, TileType) else None
            em.bind(value, em.fresh(), shape)


def assign(em: Emitter, targets: Sequence[Value], values: Sequence[Value]) -> None:
    """Assign values to targets, simultaneously."""
    pairs = [(to, value) for to, value in zip(targets, values, strict=True) if em.is_held(to)]
    if pairs:
        names = "".join(f"{em.held[to].text}, " for to, _ in pairs)
        texts = "".join(f"{_whole(em, value)}, " for _, value in pairs)
        em.emit(f"{names}= {texts}")


def _whole(em: Emitter, value: Value) -> str:
    held = em.held[value]
    if held.plain or not isinstance(value.type, TileType) or not tile_shape(value):
        return held.text
    return em.full(value)


def unpack(em: Emitter, values: Sequence[Value]) -> None:
    """Bind local names for the parts of views among the values that accesses need."""
    for value in values:
        if isinstance(value.type, ViewType):
            unpack_view(em, value)

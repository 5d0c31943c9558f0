"""Emission of promises and assertions: both are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.backends.cpu import promises
from tilewright.backends.cpu.emitter import Emitter, Rules, tile_element
from tilewright.backends.cpu.memory import storage_dtype
from tilewright.ir.attributes import Bounded, DivBy, SameElements
from tilewright.ir.ops.control import Assert, Assume
from tilewright.ir.types import PtrType, TensorViewType

__all__ = ["RULES"]


def _assume(em: Emitter, op: Assume) -> None:
    _PROMISES[type(op.predicate)](em, op, op.predicate)
    em.alias(op.result, op.value)


def _bounded(em: Emitter, op: Assume, promise: Bounded) -> None:
    held, low, high = em.held[op.value], promise.lower, promise.upper
    right = " <= ".join(str(end) for end in (low, held.text, high) if end is not None)
    check = em.call(promises.require_bounded, em.site(op), held.text, repr(low), repr(high))
    em.emit(f"if not ({right}): {check}" if held.plain else check)


def _divisible(em: Emitter, op: Assume, promise: DivBy) -> None:
    held, divisor = em.held[op.value], promise.divisor
    if isinstance(op.value.type, TensorViewType):
        em.emit(em.call(promises.require_tensor_base, em.site(op), held.text, divisor))
    elif promise.every is not None and promise.along is not None:
        groups = (em.full(op.value), divisor, promise.every, promise.along, _step(op))
        em.emit(em.call(promises.require_counting, em.site(op), *groups))
    else:
        check = em.call(promises.require_multiple, em.site(op), held.text, divisor)
        em.emit(f"if {held.text} % {divisor}: {check}" if held.plain else check)


def _step(op: Assume) -> int:
    """Return the distance of consecutive elements: one, or the element's size for pointers."""
    element = tile_element(op.value)
    return int(storage_dtype(element.pointee).itemsize) if isinstance(element, PtrType) else 1


def _alike(em: Emitter, op: Assume, promise: SameElements) -> None:
    if any(group > 1 for group in promise.groups):
        tile = em.full(op.value)
        em.emit(em.call(promises.require_alike, em.site(op), tile, repr(promise.groups)))


_PROMISES: dict[type, Callable[[Emitter, Assume, Any], None]] = {
    Bounded: _bounded,
    DivBy: _divisible,
    SameElements: _alike,
}


def _assert(em: Emitter, op: Assert) -> None:
    held = em.held[op.condition]
    message = em.constant(op.message)
    em.emit(f"if not {held.text}:" if held.plain else f"if not {em.array(op.condition)}.all():")
    with em.indented():
        em.emit(em.call(promises.fail_assertion, em.site(op), message))


# Rules of this module.
RULES: Rules = {Assume: _assume, Assert: _assert}

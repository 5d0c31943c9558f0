"""Rules of promises (`assume`): the legal values of each, one row for each kind of promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.attributes import Bounded, DivBy, SameElements
from tilewright.ir.ops.control import Assume
from tilewright.ir.types import TensorViewType, TileType
from tilewright.ir.verify.rules import INTEGERS, TileClass

__all__ = ["promise_problems"]

_COUNTABLE = TileClass(INTEGERS | {Element.I4}, pointers=True)


def promise_problems(op: Assume) -> Iterator[str]:
    """Problems of a promise, or of its combination with this value."""
    check = _PROMISES.get(type(op.predicate))
    if check is None:
        yield f"{op.predicate!r} is no promise"
    else:
        yield from check(op, op.predicate)


def _divisible(op: Assume, promise: DivBy) -> Iterator[str]:
    divisor = promise.divisor
    if divisor <= 0 or divisor & (divisor - 1) or divisor > 1 << 62:
        yield f"the divisor must be a power of two up to 2^62, but is {divisor}"
    kind = op.value.type
    if not isinstance(kind, TensorViewType) and not _COUNTABLE.holds(kind):
        yield f"divisibility is promised for integers, pointers and tensors, not for {kind}"
    elif (promise.every is None) != (promise.along is None):
        yield "`every` and `along` come together"
    elif promise.every is not None and promise.along is not None:
        yield from _group(kind, promise.every, promise.along)


def _group(kind: object, every: int, along: int) -> Iterator[str]:
    """Groups of `every` elements divide an axis of the tile."""
    if not isinstance(kind, TileType) or not 0 <= along < kind.rank:
        yield f"{kind} has no axis {along} to promise groups along"
    elif not 0 <= every <= kind.shape[along]:
        yield f"{kind} has no groups of {every} elements along axis {along}"


def _same(op: Assume, promise: SameElements) -> Iterator[str]:
    kind = op.value.type
    if not isinstance(kind, TileType) or not _COUNTABLE.holds(kind):
        yield f"equal elements are promised for integers and pointers, not for {kind}"
    elif len(promise.groups) != kind.rank:
        yield f"{kind.rank} sizes of groups are needed, but there are {len(promise.groups)}"
    elif any(not 0 <= g <= extent for g, extent in zip(promise.groups, kind.shape, strict=True)):
        yield f"{kind} has no groups of {promise.groups} elements"


def _bounded(op: Assume, promise: Bounded) -> Iterator[str]:
    kind = op.value.type
    if not isinstance(kind, TileType) or kind.element not in INTEGERS | {Element.I4}:
        yield f"bounds are promised for integers, not for {kind}"
        return
    assert isinstance(kind.element, Element)
    half = 1 << (kind.element.bits - 1)
    bounds = [bound for bound in (promise.lower, promise.upper) if bound is not None]
    if any(not -half <= bound < half for bound in bounds):
        yield f"the bounds {promise.lower} and {promise.upper} do not fit {kind.element}"
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        yield f"no number lies between {bounds[0]} and {bounds[1]}"


_PROMISES: dict[type, Callable[[Assume, Any], Iterator[str]]] = {
    DivBy: _divisible,
    SameElements: _same,
    Bounded: _bounded,
}

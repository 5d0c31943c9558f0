"""Rules that every access to memory shares: tokens, orders and scopes, hints, atomic elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilewright.dtypes import Element
from tilewright.ir.attributes import AtomicMode, MemoryOrder
from tilewright.ir.op import Op
from tilewright.ir.types import TOKEN, TileType
from tilewright.ir.verify.rules import Rule, allowed, bit_width, values_of, when

__all__ = [
    "ATOMIC", "LOAD", "STORE", "atomic_element", "atomic_target", "hints", "is_atomic",
    "is_swappable", "tokens",
]  # fmt: skip

_M = MemoryOrder
_WIDE = (32, 64)
_BF16_SUMS = 89  # the first target with atomic sums of bf16
_SUMMABLE = (Element.F16, Element.BF16, Element.F32, Element.F64)


def tokens(*names: str) -> Rule:
    """Every value of the named fields is a token."""

    def check(op: Op) -> Iterator[str]:
        for name in names:
            for value in values_of(op, name):
                if value.type != TOKEN:
                    yield f"`{name}` must be a token, but is {value.type}"

    return check


def _scoped(*orders: MemoryOrder) -> tuple[Rule, ...]:
    """Rules of loads and stores: legal memory orders; only weak ones have no scope."""
    return (
        allowed("memory_ordering", *orders),
        when(
            lambda op: (op.memory_ordering is _M.WEAK) != (op.memory_scope is None),
            "a weak access has no `memory_scope`, every other one needs it",
        ),
    )


LOAD = _scoped(_M.WEAK, _M.RELAXED, _M.ACQUIRE)  # legal memory orders of a load
STORE = _scoped(_M.WEAK, _M.RELAXED, _M.RELEASE)  # legal memory orders of a store

# Legal memory orders of a read-modify-write.
ATOMIC = allowed("memory_ordering", _M.RELAXED, _M.ACQUIRE, _M.RELEASE, _M.ACQ_REL)


def hints(op: Any) -> Iterator[str]:
    """Latency hints are in range; tileiras would silently drop others."""
    for latency in op.hints.named("latency") if op.hints is not None else ():
        if latency not in range(1, 11):
            yield f"a latency hint is 1 to 10, but this is {latency}"


def is_swappable(element: object) -> bool:
    """Whether an element supports atomic exchange."""
    return isinstance(element, Element) and bit_width(element) in _WIDE


def _is_counted(element: object) -> bool:
    return element in (Element.I32, Element.I64)


_ATOMIC_ELEMENTS: dict[AtomicMode, Callable[[object], bool]] = {
    **dict.fromkeys(AtomicMode, _is_counted),
    AtomicMode.ADDF: _SUMMABLE.__contains__,
    AtomicMode.XCHG: is_swappable,
}


def is_atomic(mode: AtomicMode, element: object) -> bool:
    """Whether an element supports an atomic mode."""
    return _ATOMIC_ELEMENTS[mode](element)


def atomic_element(operand: str) -> Rule:
    """The element of an operand supports the op's atomic mode."""

    def check(op: Any) -> Iterator[str]:
        kind = getattr(op, operand).type
        element = kind.element if isinstance(kind, TileType) else None
        if not is_atomic(op.mode, element):
            yield f"`{op.mode.name.lower()}` cannot be done atomically on {element}"

    return check


def atomic_target(operand: str) -> Callable[[Any, int], Iterator[str]]:
    """Return a rule that refuses atomic modes a target lacks."""

    def check(op: Any, target: int) -> Iterator[str]:
        kind = getattr(op, operand).type
        element = kind.element if isinstance(kind, TileType) else None
        if op.mode is AtomicMode.ADDF and element is Element.BF16 and target < _BF16_SUMS:
            yield f"sm_{target} has no atomic sum of bf16; the first that has it is sm_{_BF16_SUMS}"

    return check

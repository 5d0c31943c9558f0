"""Hints on one load, `latency=` and `allow_tma=`, and on all loads and stores of a kernel.

Tile IR silently drops an unknown hint, so every value is checked here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.check.errors.types import WrongOperand
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Static
from tilewright.ir.attributes import EVERY_TARGET, Dictionary, TargetHints

__all__ = ["load_hints", "view_hints"]

_LATENCIES = range(1, 11)


@dataclass(frozen=True)
class _Advice:
    """The allowed values of a hint, as text and as a test."""

    wanted: str
    is_right: Callable[[Any], bool]


def _is_latency(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _LATENCIES


_ADVICE = {
    "latency": _Advice(f"a number from {_LATENCIES[0]} to {_LATENCIES[-1]}", _is_latency),
    "allow_tma": _Advice("True or False", lambda value: isinstance(value, bool)),
}


def load_hints(lo: Lowering, call: Arguments) -> TargetHints | None:
    """The hints of a call, of those that it can take."""
    given: dict[str, bool | int] = {}
    for name, advice in _ADVICE.items():
        if not call.given(name):
            continue
        operand = call.operand(name)
        if operand == Static(None):
            continue
        if not isinstance(operand, Static) or not advice.is_right(operand.value):
            reason = f"it is {advice.wanted}, known when the kernel is compiled; this is {operand}"
            lo.reject(WrongOperand, call.where(name), f"`{name}`", reason)
        given[name] = operand.value
    return TargetHints.of(**given) if given else None


def view_hints(lo: Lowering, given: TargetHints | None = None) -> TargetHints | None:
    """The hints of an access to a view: its own, over those of the whole kernel."""
    allowed = lo.specialization.hints.allow_tma
    if allowed is None:
        return given
    own = Dictionary() if given is None else dict(given.targets)[EVERY_TARGET]
    together = {"allow_tma": allowed} | dict(own.items)
    return TargetHints(((EVERY_TARGET, Dictionary(tuple(sorted(together.items())))),))

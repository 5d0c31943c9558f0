"""Atomic modes by dtype and target, for accumulators and for pointers.

The IR has the rule for element types; signedness and targets are decided here.
"""

from __future__ import annotations

from tilewright.dtypes import DType, bf16
from tilewright.frontend.lowering import Lowering
from tilewright.ir.attributes import AtomicMode
from tilewright.ir.verify.access import is_atomic

__all__ = ["FIRST_TARGETS", "atomic_mode", "first_target_needed"]

_UNSIGNED = {AtomicMode.MAX: AtomicMode.UMAX, AtomicMode.MIN: AtomicMode.UMIN}
_FLOATING = {AtomicMode.ADD: AtomicMode.ADDF, AtomicMode.XCHG: AtomicMode.XCHG}

# The first target with a mode; modes that are not listed exist on all of them.
FIRST_TARGETS: dict[tuple[AtomicMode, type[DType]], int] = {(AtomicMode.ADDF, bf16): 90}


def atomic_mode(mode: AtomicMode, dtype: type[DType]) -> AtomicMode | None:
    """The mode of the op for this dtype, or None if it is not atomic."""
    exact: AtomicMode | None = mode
    if dtype.element.is_float:
        exact = _FLOATING.get(mode)
    elif not dtype.signed:
        exact = _UNSIGNED.get(mode, mode)
    return exact if exact is not None and is_atomic(exact, dtype.element) else None


def first_target_needed(lo: Lowering, mode: AtomicMode, dtype: type[DType]) -> str | None:
    """The first target with this mode, if the current one lacks it."""
    first, target = FIRST_TARGETS.get((mode, dtype), 0), lo.specialization.target
    is_older = target.startswith("sm_") and int(target.removeprefix("sm_")) < first
    return f"sm_{first}" if is_older else None

"""What can be done to an element at once, by dtype and target: for accumulators and for pointers.

Which elements there are is the IR's rule; signedness, and what a target lacks, is decided here.
"""

from __future__ import annotations

from tilewright.dtypes import DType, bf16
from tilewright.frontend.lowering import Lowering
from tilewright.ir.attributes import AtomicMode
from tilewright.ir.verify.access import is_atomic

__all__ = ["FIRST_TARGETS", "atomic_mode", "first_target_needed"]

_UNSIGNED = {AtomicMode.MAX: AtomicMode.UMAX, AtomicMode.MIN: AtomicMode.UMIN}
_FLOATING = {AtomicMode.ADD: AtomicMode.ADDF, AtomicMode.XCHG: AtomicMode.XCHG}

# The first target that can do something at all; what is not here, all of them can.
FIRST_TARGETS: dict[tuple[AtomicMode, type[DType]], int] = {(AtomicMode.ADDF, bf16): 90}


def atomic_mode(mode: AtomicMode, dtype: type[DType]) -> AtomicMode | None:
    """The op's own word for what is done to this dtype, or None if it cannot be done at once."""
    exact: AtomicMode | None = mode
    if dtype.element.is_float:
        exact = _FLOATING.get(mode)
    elif not dtype.signed:
        exact = _UNSIGNED.get(mode, mode)
    return exact if exact is not None and is_atomic(exact, dtype.element) else None


def first_target_needed(lo: Lowering, mode: AtomicMode, dtype: type[DType]) -> str | None:
    """The first target that can do this, if the one that is compiled for cannot."""
    first, target = FIRST_TARGETS.get((mode, dtype), 0), lo.specialization.target
    is_older = target.startswith("sm_") and int(target.removeprefix("sm_")) < first
    return f"sm_{first}" if is_older else None

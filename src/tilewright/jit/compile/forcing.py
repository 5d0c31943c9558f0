"""Forces every check into the kernel, to hold what the proofs do against a run without them.

Not for users: it makes kernels slower and never safer. The choice is the context's, so that tests
on threads of their own do not disturb each other.
"""

from __future__ import annotations

from tilewright.check.placement import Placement
from tilewright.runtime.devices.context import INTERCEPTED, ContextFlag, Setting

__all__ = ["force_checks", "wanted_placement"]

_WANTED: ContextFlag[Placement] = ContextFlag("tilewright_placement")


def force_checks() -> Setting[None]:
    """Kernels called inside settle no check before they run."""
    return Setting(None, (_WANTED, Placement.ALL_IN_KERNEL), (INTERCEPTED, True))


def wanted_placement() -> Placement:
    """Where a kernel called now is to settle its checks."""
    return _WANTED.get() or Placement.EARLIEST

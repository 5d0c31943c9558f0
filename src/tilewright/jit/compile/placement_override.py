"""An override of check placement: all checks stay in the kernel, so that tests compare both.

A kernel with all checks is slower and no safer than one whose checks were proved, so users have no
use for it. The override belongs to the context, so tests on several threads are independent.
"""

from __future__ import annotations

from tilewright.check.placement import Placement
from tilewright.runtime.devices.context import INTERCEPTED, ContextFlag, Setting

__all__ = ["chosen_placement", "force_checks"]

_OVERRIDE: ContextFlag[Placement] = ContextFlag("tilewright_placement")


def force_checks() -> Setting[None]:
    """Keep every check in the kernels that are called inside the context."""
    return Setting(None, (_OVERRIDE, Placement.ALL_IN_KERNEL), (INTERCEPTED, True))


def chosen_placement() -> Placement:
    """The placement of checks for a call in this context."""
    return _OVERRIDE.get() or Placement.EARLIEST

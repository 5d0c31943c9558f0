"""How many cores this process may use: fewer than there are, where somebody has set it apart."""

from __future__ import annotations

import os

__all__ = ["usable_cores"]


def usable_cores() -> int:
    """Cores that the system lets this process run on, as far as it can say; at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))

"""Where the checks of a kernel may be settled: which variant of it is compiled."""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["Placement"]


class Placement(Enum):
    """How early checks are settled."""

    EARLIEST = auto()  # each as early as it can be
    GUARDED_IN_KERNEL = auto()  # for a launch that fails a check of guarded code: those stay
    ALL_IN_KERNEL = auto()  # no proof is used: what the others are held against

    @property
    def may_deny(self) -> bool:
        """Whether a check that stays is the kernel's doing, so that it may be an error."""
        return self is not Placement.ALL_IN_KERNEL

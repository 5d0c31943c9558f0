"""Placement of checks: which variant of a kernel is compiled."""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["Placement"]


class Placement(Enum):
    """How early checks are settled."""

    EARLIEST = auto()  # each as early as possible
    GUARDED_IN_KERNEL = auto()  # for a launch that fails a check of guarded code: those stay
    ALL_IN_KERNEL = auto()  # no proof is used: the reference for the others

    @property
    def may_deny(self) -> bool:
        """Whether a remaining check is caused by the kernel, so that it may be an error."""
        return self is not Placement.ALL_IN_KERNEL

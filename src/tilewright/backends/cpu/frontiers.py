"""Frontiers: the latest accesses of one element, in an order consistent with happens-before.

A `Frontier` keeps the accesses that a later one must be compared with. A plain write that races
with none of them is ordered after all, and replaces them: an access under a lock is compared with
the previous one, not with all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.backends.cpu.faults import AccessMode, FaultSite
from tilewright.backends.cpu.synchronisation import Synchronisation

__all__ = ["CONFLICTS", "Frontier"]

_KINDS = (AccessMode.READ, AccessMode.WRITE, AccessMode.ATOMIC_READ, AccessMode.ATOMIC_WRITE)

# Conflicting kinds of access, by kind.
CONFLICTS: dict[AccessMode, tuple[AccessMode, ...]] = {
    one: tuple(
        other
        for other in _KINDS
        if (one.writes or other.writes) and (one.plain is one or other.plain is other)
    )
    for one in _KINDS
}


class Frontier:
    """The accesses of one element that no later access replaces."""

    __slots__ = ("_held", "_order", "_sites")

    def __init__(self, sites: Sequence[FaultSite], order: Synchronisation) -> None:
        self._sites = sites
        self._order = order
        self._held: dict[AccessMode, list[Any]] = {}

    def add(self, noted: Any) -> Any:
        """Compare an access with those of other blocks; return one that it races with, or None."""
        kind = self._sites[noted[2][0]].outward
        for wanted in CONFLICTS[kind]:
            for other in self._held.get(wanted, ()):
                if other[0] != noted[0] and not self._order.leads(other, noted):
                    return other
        if kind is AccessMode.WRITE:
            self._held = {
                wanted: left
                for wanted, others in self._held.items()
                if (left := [other for other in others if _is_beside(other, noted)])
            }
        self._held.setdefault(kind, []).append(noted)
        return None


def _is_beside(other: Any, noted: Any) -> bool:
    """Whether no token orders an access of the same block."""
    return bool(other[0] == noted[0] and not noted[2][3] >> other[1] & 1)

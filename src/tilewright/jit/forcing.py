"""Forces every check into the kernel, to hold what the proofs do against a run without them.

Not for users: it makes kernels slower and never safer. The choice is the context's, so that tests
on threads of their own do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.check.placement import Placement
from tilewright.runtime.surroundings import unusual

__all__ = ["force_checks", "wanted_placement"]

_WANTED: ContextVar[Placement] = ContextVar("tilewright_placement", default=Placement.EARLIEST)


@contextmanager
def force_checks() -> Iterator[None]:
    """Kernels called inside settle no check before they run."""
    before = _WANTED.set(Placement.ALL_IN_KERNEL)
    try:
        with unusual():
            yield
    finally:
        _WANTED.reset(before)


def wanted_placement() -> Placement:
    """Where a kernel called now is to settle its checks."""
    return _WANTED.get()

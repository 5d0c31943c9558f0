"""Forces every check into the kernel, to hold what the proofs do against a run without them.

Not for users: it makes kernels slower and never safer. The choice is the context's, so that tests
on threads of their own do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.check.placement import Placement

__all__ = ["WANTED", "force_checks", "wanted_placement"]

# Where a kernel called here is to settle its checks.
WANTED: ContextVar[Placement] = ContextVar("tilewright_placement", default=Placement.EARLIEST)


@contextmanager
def force_checks() -> Iterator[None]:
    """Kernels called inside settle no check before they run."""
    before = WANTED.set(Placement.ALL_IN_KERNEL)
    try:
        yield
    finally:
        WANTED.reset(before)


def wanted_placement() -> Placement:
    """Where a kernel called now is to settle its checks."""
    return WANTED.get()

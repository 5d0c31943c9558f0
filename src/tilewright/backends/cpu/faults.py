"""Faults: reports of a block that stops, for undefined behaviour or a false assertion.

Generated code and the functions it calls raise a `Fault` with the number of the op's *site*; the
executor, which knows the block and the kernel, turns it into the exception that users see. Bugs of
tilewright's own are assertions and `InternalError`s instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NoReturn

import numpy as np

from tilewright.errors import KernelAssertionError, KernelFailure, UndefinedBehaviourError
from tilewright.ir.attributes import MemoryOrder, MemoryScope
from tilewright.ir.op import Effect, Op
from tilewright.source import Location

__all__ = [
    "AccessMode",
    "AssertionFault",
    "Fault",
    "FaultSite",
    "first_true",
    "report",
    "report_element",
]


class AccessMode(Enum):
    """Kind of memory access of an op; atomics are ordered among themselves."""

    NONE = auto()
    READ = auto()
    WRITE = auto()
    ATOMIC_READ = auto()
    ATOMIC_WRITE = auto()

    @property
    def writes(self) -> bool:
        """Whether the access modifies memory."""
        return self in (AccessMode.WRITE, AccessMode.ATOMIC_WRITE)

    @property
    def plain(self) -> AccessMode:
        """The same access without the order of an atomic."""
        return _PLAIN.get(self, self)


_PLAIN = {AccessMode.ATOMIC_READ: AccessMode.READ, AccessMode.ATOMIC_WRITE: AccessMode.WRITE}


@dataclass(frozen=True)
class FaultSite:
    """One op that may report a fault, as a reader of the kernel knows it."""

    mnemonic: str
    loc: Location | None
    access: AccessMode = AccessMode.NONE  # relative to accesses of the same block
    outward: AccessMode = AccessMode.NONE  # relative to accesses of other blocks
    acquires: bool = False  # whether it acquires releases of other blocks
    releases: bool = False  # whether it releases this block's accesses to other blocks

    @staticmethod
    def of(op: Op) -> FaultSite:
        """Return the site of an op.

        An atomic whose scope is the block counts as a plain access relative to other blocks.
        """
        if op.effect not in (Effect.READ, Effect.WRITE):
            return FaultSite(op.mnemonic, op.loc)
        reads = op.effect is Effect.READ
        order = getattr(op, "memory_ordering", MemoryOrder.WEAK)
        if order is MemoryOrder.WEAK:
            plain = AccessMode.READ if reads else AccessMode.WRITE
            return FaultSite(op.mnemonic, op.loc, plain, plain)
        atomic = AccessMode.ATOMIC_READ if reads else AccessMode.ATOMIC_WRITE
        if getattr(op, "memory_scope", None) is MemoryScope.TL_BLK:
            return FaultSite(op.mnemonic, op.loc, atomic, atomic.plain)
        acquires = order in (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL)
        releases = order in (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)
        return FaultSite(op.mnemonic, op.loc, atomic, atomic, acquires, releases)

    def __str__(self) -> str:
        return self.mnemonic if self.loc is None else f"{self.mnemonic} at {self.loc}"


class Fault(Exception):
    """A block reached undefined behaviour, and stopped before executing it."""

    def __init__(self, site: int, what: str) -> None:
        super().__init__(what)
        self.site = site
        self.what = what

    def failure(self, kernel: str, site: FaultSite, block: tuple[int, int, int]) -> KernelFailure:
        """Return the exception for users."""
        return UndefinedBehaviourError(
            f"undefined behaviour in kernel `{kernel}`, block {block}: "
            f"{site.mnemonic} {self.what}{_place(site.loc)}"
        )


class AssertionFault(Fault):
    """An assertion was false."""

    def failure(self, kernel: str, site: FaultSite, block: tuple[int, int, int]) -> KernelFailure:
        """Return the exception for users."""
        return KernelAssertionError(
            f"{self.what}\n  assertion failed in kernel `{kernel}`, block {block}{_place(site.loc)}"
        )


def report(site: int, what: str) -> NoReturn:
    """Stop this block."""
    raise Fault(site, what)


def report_element(site: int, wrong: Any, what: str, *operands: Any) -> NoReturn:
    """Stop this block at the first wrong element; `what` has a `{}` for each operand."""
    at = first_true(wrong)
    shape = np.shape(wrong)
    numbers = (np.broadcast_to(operand, shape)[at] for operand in operands)
    where = f" at element {at}" if at else ""
    raise Fault(site, what.format(*numbers) + where)


def first_true(mask: Any) -> tuple[int, ...]:
    """Return the indices of the first true element."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), np.shape(mask)))


def _place(loc: Location | None) -> str:
    if loc is None:
        return ""
    calls = "".join(f"\n  called at {span}" for span in loc.calls)
    return f"\n  at {loc}{calls}"

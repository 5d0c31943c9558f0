"""Outcomes: how a submitted operation ended, and whether its failure has been raised.

An `Outcome` exists for an operation that can fail while it runs, or that depends on one; other
operations have none. It is *settled* once its fence has passed. An operation that read from a
failed one fails with the same exception; the *root* is the operation whose own work failed.
Outcomes change under the device's lock.

The stored exception is never raised itself: a caught exception refers to the frames it went through
and to all their locals, and the memory of a failed operation would keep these alive. A copy is
raised, and every caller gets the same copy as long as one of them holds it.

A failure record has sixteen words that a kernel can write and the host can read at any time. A slot
is reused only when the last reference to its record is gone; the outcome of an operation holds the
record until the operation has completed. Dropping a record takes no lock, so a finaliser may do it.
"""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol
from weakref import ref

import numpy as np
import numpy.typing as npt

from tilewright.errors import LaunchError, StoppedError, TilewrightError

if TYPE_CHECKING:
    from tilewright.runtime.devices.stream import Stream

__all__ = [
    "RECORD_WORDS",
    "Allocation",
    "Check",
    "FailureRecord",
    "Fence",
    "Outcome",
    "RecordPool",
    "Slot",
    "report_unseen",
]


# Gives the failure of an operation once its fence has passed; None if it succeeded.
Check = Callable[[], BaseException | None]


class Outcome:
    """The end of one operation; unknown until settled."""

    __slots__ = ("_check", "_root", "_told", "causes", "count", "error", "settled", "stream")

    def __init__(
        self, stream: Stream, count: int, check: Check | None, causes: Iterable[Outcome]
    ) -> None:
        self.stream = stream
        self.count = count
        self.error: BaseException | None = None
        self._root: Outcome | None = None
        self._told: ref[BaseException] | None = None  # the exception raised to callers, at the root
        self.settled = False
        self._check = check
        self.causes = tuple(causes)

    @classmethod
    def refused(cls, stream: Stream, count: int, error: BaseException) -> Outcome:
        """The outcome of an operation whose submission raised, which its caller has seen."""
        outcome = cls(stream, count, None, ())
        outcome.settled = True
        if not isinstance(error, Exception):
            outcome.error = LaunchError("the launch was interrupted")
        elif isinstance(error, TilewrightError):
            outcome.error, outcome._told = _without_frames(copy(error)), ref(error)
        else:
            outcome.error = error
        return outcome

    @property
    def root(self) -> Outcome:
        """The operation whose own work failed: this one, or one of its causes."""
        return self._root or self  # a reference to itself would be a cycle for the collector

    def settle(self) -> None:
        """Look up how it ended. Its fence has passed, and with it the fences of its causes."""
        # A chain of dependent operations is as long as the user's loop: no recursion.
        stack: list[Outcome] = [self]
        while stack:
            top = stack[-1]
            waiting = [cause for cause in top.causes if not cause.settled]
            stack.extend(waiting)
            if not waiting:
                stack.pop().conclude()

    def conclude(self) -> None:
        """Look up how it ended. All causes are settled."""
        if self.settled:
            return
        self.settled = True
        own = self.stream.queue.take_error(self.count)
        if self._check is not None:
            own = own or self._check()
        failed = next((cause for cause in self.causes if cause.error is not None), None)
        self.causes, self._check = (), None
        if failed is not None:
            self.error, self._root = failed.error, failed.root
        elif own is not None:
            self.error = _without_frames(own)
            if not isinstance(own, StoppedError):  # which an interrupt has raised already
                self.stream.device.unseen.add(self)
        if self.error is not None:
            self.stream.failed.append(self)

    def surface(self) -> NoReturn:
        """Raise the failure to a caller."""
        assert self.error is not None, "only a failed outcome can surface"
        self.root.stream.device.unseen.discard(self.root)
        raise self.root.exception(self.error).with_traceback(None)

    def exception(self, error: BaseException) -> BaseException:
        """The exception to raise for this root: the same one as long as a caller holds it."""
        if not isinstance(error, TilewrightError):
            return error  # an internal error, whose frames show the cause
        told = None if self._told is None else self._told()
        if told is None:
            told = copy(error)
            self._told = ref(told)
        return told


class Fence:
    """The point of a stream at which a submitted operation has completed."""

    __slots__ = ("count", "outcome", "stream")

    def __init__(self, stream: Stream, count: int, outcome: Outcome | None) -> None:
        self.stream = stream
        self.count = count
        self.outcome = outcome

    @property
    def has_passed(self) -> bool:
        """Whether the operation has completed; never blocks."""
        return self.stream.has_passed(self.count)

    @property
    def is_known_to_be_over(self) -> bool:
        """Whether it cannot fail and is known to have passed; does not query the driver."""
        return self.outcome is None and self.count <= self.stream.queue.known

    @property
    def matters(self) -> bool:
        """Whether later work may still have to wait for it or to receive its failure."""
        outcome = self.outcome
        if outcome is not None and (not outcome.settled or outcome.error is not None):
            return True
        return not self.has_passed


def _without_frames(error: BaseException) -> BaseException:
    # A kernel's failure names its own line; an internal error is traced by its frames.
    return error.with_traceback(None) if isinstance(error, TilewrightError) else error


class _Unseen:
    """Hands an exception to `sys.unraisablehook` portably: by raising it in a finaliser."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error

    def __repr__(self) -> str:
        return "<an operation whose failure was not observed>"


def report_unseen(outcomes: Iterable[Outcome]) -> None:
    """Give failures that no call has raised to `sys.unraisablehook`."""
    for outcome in outcomes:
        if outcome.error is not None:
            _Unseen(outcome.error)


# --- failure records ------------------------------------------------------------------------------


RECORD_WORDS = 16  # i32; zero in the first word means "no failure"


class Allocation(Protocol):
    """Memory of a device."""

    @property
    def address(self) -> int:
        """Its start in the device's address space."""


class Slot(NamedTuple):
    """One record: the words as the host sees them, and the memory as a kernel does."""

    words: npt.NDArray[np.int32]
    allocation: Allocation


class FailureRecord:
    """The record of one operation."""

    __slots__ = ("_free", "_slot")

    def __init__(self, slot: Slot, free: queue.SimpleQueue[Slot]) -> None:
        self._slot = slot
        self._free = free

    @property
    def allocation(self) -> Allocation:
        """The memory of its slot."""
        return self._slot.allocation

    @property
    def address(self) -> int:
        """Its address in a kernel."""
        return self._slot.allocation.address

    def read(self) -> tuple[int, ...]:
        """The current words."""
        return tuple(int(word) for word in self._slot.words)

    def reset(self) -> None:
        """Set the record to "no failure"."""
        self._slot.words[:] = 0

    def __del__(self) -> None:
        self._free.put(self._slot)


class RecordPool(ABC):
    """Records of one device; a backend allocates the slots."""

    def __init__(self) -> None:
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()

    @abstractmethod
    def make_slots(self) -> Iterable[Slot]:
        """New slots, all zero."""

    def take(self) -> FailureRecord:
        """A record set to "no failure". The device's lock is held."""
        if self._free.empty():
            for slot in self.make_slots():
                self._free.put(slot)
        record = FailureRecord(self._free.get_nowait(), self._free)
        if record.read()[0]:  # written by failures only
            record.reset()
        return record

"""Outcomes: how a submitted operation ended, and whether its failure has been raised.

An `Outcome` exists for an operation that can fail while it runs, or that depends on one; other
operations have none. It is *settled* once its fence has passed. An operation that read from a
failed one fails with the same exception; the *root* is the operation whose own work failed.
Outcomes change under the device's lock.

The stored exception is never raised itself: a caught exception refers to the frames it went through
and to all their locals, and the memory of a failed operation would keep these alive. A copy is
raised, and every caller gets the same copy as long as one of them holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import TYPE_CHECKING, NoReturn
from weakref import ref

from tilewright.errors import LaunchError, StoppedError, TilewrightError

if TYPE_CHECKING:
    from tilewright.runtime.devices.stream import Stream

__all__ = ["Check", "Fence", "Outcome", "report_unseen"]

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

    def is_before(self, other: Fence) -> bool:
        """Whether another fence is later on the same stream."""
        return self.stream is other.stream and self.count < other.count

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

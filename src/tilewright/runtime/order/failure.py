"""How a submitted operation ended, and who has been told.

An `Outcome` exists for an operation that can fail while it runs, or that read what such an
operation wrote; all others leave no trace. It is *settled* once its fence has passed. An operation
that read from a failed one counts as failed by the same exception; the *root* is the operation
whose own work failed. All of this happens under the device's lock.

What is kept of a failure is never raised itself: an exception that was caught refers to the frames
it went through and to all that they have, and memory that failed would keep that for as long as it
is known. Whoever asks gets the same exception as the others, as long as one of them has it.
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

# Says how an operation failed, once its fence has passed; None if it did not.
Check = Callable[[], BaseException | None]


class Outcome:
    """The end of one operation, known or not yet."""

    __slots__ = ("_check", "_root", "_told", "causes", "count", "error", "settled", "stream")

    def __init__(
        self, stream: Stream, count: int, check: Check | None, causes: Iterable[Outcome]
    ) -> None:
        self.stream = stream
        self.count = count
        self.error: BaseException | None = None
        self._root: Outcome | None = None
        self._told: ref[BaseException] | None = None  # what somebody was told with, at the root
        self.settled = False
        self._check = check
        self.causes = tuple(causes)

    @classmethod
    def refused(cls, stream: Stream, count: int, error: BaseException) -> Outcome:
        """The end of an operation whose submission itself raised, which its caller has seen."""
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
        """Where its failure began: here, or in one that it needed."""
        return self._root or self  # not to have itself, which only the collector could end

    def settle(self) -> None:
        """Look how it ended. Its fence has passed, so those of its causes have too."""
        # A chain of dependent operations is as long as the user's loop: no recursion.
        stack: list[Outcome] = [self]
        while stack:
            top = stack[-1]
            waiting = [cause for cause in top.causes if not cause.settled]
            stack.extend(waiting)
            if not waiting:
                stack.pop().conclude()

    def conclude(self) -> None:
        """Look how it ended, when all causes are settled."""
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
            if not isinstance(own, StoppedError):  # of which an interrupt has told
                self.stream.device.unseen.add(self)
        if self.error is not None:
            self.stream.failed.append(self)

    def surface(self) -> NoReturn:
        """Raise the failure to somebody who asked."""
        assert self.error is not None, "only a failed outcome can surface"
        self.root.stream.device.unseen.discard(self.root)
        raise self.root.exception(self.error).with_traceback(None)

    def exception(self, error: BaseException) -> BaseException:
        """What is raised of this root's failure: the same, as long as anybody has it."""
        if not isinstance(error, TilewrightError):
            return error  # a bug, whose frames are the clue
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
        """Whether another one is further down the same stream."""
        return self.stream is other.stream and self.count < other.count

    @property
    def is_known_to_be_over(self) -> bool:
        """Whether it could not fail and has passed, without asking the driver."""
        return self.outcome is None and self.count <= self.stream.queue.known

    @property
    def matters(self) -> bool:
        """Whether somebody may still have to wait for it or to hear of a failure."""
        outcome = self.outcome
        if outcome is not None and (not outcome.settled or outcome.error is not None):
            return True
        return not self.has_passed


def _without_frames(error: BaseException) -> BaseException:
    # A kernel's failure says itself where it happened; for a bug of ours the traceback is the clue.
    return error.with_traceback(None) if isinstance(error, TilewrightError) else error


class _Unseen:
    """Hands an exception to `sys.unraisablehook` the only portable way: by failing a finaliser."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error

    def __repr__(self) -> str:
        return "<an operation whose failure nobody saw>"


def report_unseen(outcomes: Iterable[Outcome]) -> None:
    """Give failures that nobody observed to `sys.unraisablehook`."""
    for outcome in outcomes:
        if outcome.error is not None:
            _Unseen(outcome.error)

"""The states of an operation, the end of its work, and the loop that runs its parts.

An operation may run others (`steps`): that is a loop over generators, never a recursion, so a chain
may be as long as memory allows.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast

from tilewright.runtime.devices.stream import Stream
from tilewright.runtime.order.failure import Fence, Outcome

if TYPE_CHECKING:
    from tilewright.runtime.ops.operation import DeviceOp

__all__ = ["GONE", "Ends", "Gone", "State", "Steps", "run_steps"]

T = TypeVar("T")
# Parts of an operation, each with the ends that collect its fences; their results are sent back.
Steps: TypeAlias = "Generator[tuple[DeviceOp[Any], Ends], Any, T]"


class State(Enum):
    """The state of an operation."""

    BUILT = "built"
    TAKEN = "part of another operation"
    RECORDED = "recorded in a graph"
    SUBMITTED = "submitted"
    COMPLETED = "completed"
    CLOSED = "closed"
    FAILED = "failed"


class Gone(Enum):
    """Marker in place of a result that does not exist yet, or has been handed over."""

    GONE = "gone"


# The only member.
GONE: Final = Gone.GONE


class Ends:
    """The end of an operation's work: a fence for each stream, and the outcomes."""

    __slots__ = ("_own", "fences", "outcomes")

    def __init__(self) -> None:
        self.fences: dict[Stream, Fence] = {}
        self._own: Fence | None = None  # a fence of this object alone, whose count may advance
        self.outcomes: list[Outcome] = []

    def add(self, fence: Fence) -> None:
        """Include one more piece of work; a later fence on a stream covers an earlier one."""
        last = self.fences.get(fence.stream)
        if last is None or last.count < fence.count:
            self.fences[fence.stream] = fence
        if fence.outcome is not None:
            self.outcomes.append(fence.outcome)

    def reach(self, stream: Stream, count: int) -> None:
        """Include a piece of work that cannot fail, and is the last on its stream so far."""
        own = self._own
        if own is None or self.fences.get(stream) is not own:
            self._own = self.fences[stream] = Fence(stream, count, None)
        else:
            own.count = count

    def include(self, others: Ends) -> None:
        """Include the ends of another operation."""
        for fence in others.fences.values():
            self.add(fence)
        self.outcomes += [one for one in others.outcomes if one not in self.outcomes]

    @property
    def have_passed(self) -> bool:
        """Whether all work has completed; never blocks."""
        return all(fence.has_passed for fence in self.fences.values())

    def failure(self) -> Outcome | None:
        """The first failure, once all work has completed. The device's lock is held."""
        for fence in self.fences.values():
            fence.stream.settle()
        return next((one for one in self.outcomes if one.error is not None), None)


class _Single(Protocol):
    """An operation without parts."""

    def put_part(self, stream: Stream, ends: Ends) -> Any:
        """Put it on a stream, as part of an operation that ends with `ends`; gives its result."""


def run_steps(operation: DeviceOp[T], stream: Stream, ends: Ends) -> T:
    """Put an operation and all its parts on a stream, and give its result."""
    open_: list[Steps[Any]] = [operation.steps(stream, ends)]
    value: Any = None
    error: BaseException | None = None
    while open_:
        innermost = open_[-1]
        try:
            part, its_ends = innermost.send(value) if error is None else innermost.throw(error)
        except StopIteration as end:
            open_.pop()
            value, error = end.value, None
        except BaseException as raised:  # noqa: BLE001 (raised in its operation)
            open_.pop()
            value, error = None, raised
        else:
            value, error = None, None
            if not part.is_single:
                open_.append(part.steps(stream, its_ends))
                continue
            try:
                value = cast("_Single", part).put_part(stream, its_ends)
            except BaseException as raised:  # noqa: BLE001 (raised in its operation)
                error = raised
    if error is not None:
        raise error
    result: T = value
    return result

"""Borrows: the uses that a built operation holds against other operations.

A borrow never refers to its operation, which may be dropped. A region has any number of readers, or
one writer: a conflicting operation cannot be built before the first one is submitted or closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from tilewright.errors import BorrowError
from tilewright.native import slots_in_c
from tilewright.runtime.memory.regions import Region
from tilewright.runtime.ops.call_site import CallSite
from tilewright.runtime.order.access import Handle, Mode
from tilewright.runtime.order.critical import insist
from tilewright.runtime.order.failure import Outcome
from tilewright.runtime.order.timeline import Conflict, Timeline, Use

if TYPE_CHECKING:
    from tilewright.runtime.devices.device import Device
    from tilewright.runtime.devices.stream import Stream

__all__ = ["Borrow", "BorrowedWork", "Borrowing", "Holder", "Role", "refusal", "uses_of"]


class Holder(Protocol):
    """A built operation, a replay or an export, as messages of other operations name it."""

    @property
    def label(self) -> str:
        """The name of its work."""

    @property
    def site(self) -> CallSite:
        """The line that built it."""

    @property
    def state(self) -> str:
        """The reason why it still holds its tensors, and the way out."""


class Role(NamedTuple):
    """The mode and the name of one tensor of an operation."""

    mode: Mode
    name: str


class Borrowing(Protocol):
    """The part of an operation's work that messages about its borrow name."""

    @property
    def label(self) -> str:
        """The name of the work."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """The role of each tensor."""


class BorrowedWork(NamedTuple):
    """The label and the roles of a borrow without one work of its own."""

    label: str
    roles: tuple[Role, ...]


@slots_in_c
class Borrow:
    """The tensors of a built operation, each with its use. The device's lock is held.

    The last tensors of a sequence have no use before it is submitted.
    """

    __slots__ = ("code", "instruction", "tensors", "uses", "work")

    state = "has not been run: submit, sync or await it, or close it"

    # No constructor: operations set all of these attributes, which saves a Python call.
    work: Borrowing
    tensors: tuple[Handle, ...]
    uses: tuple[Use, ...]
    code: CodeType  # with the instruction, the site of the user's call
    instruction: int

    @classmethod
    def of(
        cls, work: Borrowing, tensors: tuple[Handle, ...], uses: tuple[Use, ...], site: CallSite
    ) -> Self:
        """The borrow of some work, built at a site."""
        made = cls()
        made.work, made.tensors, made.uses = work, tensors, uses
        made.code, made.instruction = site.code, site.instruction
        return made

    @property
    def label(self) -> str:
        """The name of the work."""
        return self.work.label

    @property
    def site(self) -> CallSite:
        """The line that built the operation."""
        return CallSite(self.code, self.instruction)

    def hold(self, device: Device) -> None:
        """Hold all uses, or none. `LaunchOp.build` has these lines too, which saves a call."""
        for use in self.uses:
            timeline = use.timeline
            if timeline.held is None and timeline.stream is not None:
                timeline.held = self
            elif timeline.held is not self:
                self.acquire(device)
                return

    def acquire(self, device: Device) -> None:
        """Hold all uses, or none; raises if another borrow conflicts or an input has failed."""
        found = self._find_conflict()
        if found is not None:
            self.release()
            if device.collect_dropped():
                found = self._find_conflict()
        if found is not None:
            raise BorrowError(self._refusal(*found))
        for use in self.uses:
            timeline = use.timeline
            timeline.hold(self)
            if timeline.stream is None:
                timeline.dirty()

    def _find_conflict(self) -> tuple[Conflict, int] | None:
        for tensor, use in zip(self.tensors, self.uses, strict=False):
            use.timeline = tensor.storage.find_timeline()
        self.upstream()
        for number, use in enumerate(self.uses):
            timeline = use.timeline
            if timeline.held is not None or timeline.graphs:
                held = timeline.conflict(use.region, writes=use.writes, by=self)
                if held is not None:
                    return held, number
        return None

    def _refusal(self, held: Conflict, number: int) -> str:
        storage = self.tensors[number].storage
        wanted = self.work.roles[number].name or f"{storage.label} made at {storage.site}"
        return refusal(held, held.name or wanted, self, writes=self.uses[number].writes)

    def release(self) -> None:
        """Release all uses."""
        try:
            self._release()
        except BaseException:
            insist(self._release)
            raise

    def _release(self) -> None:
        for use in self.uses:
            timeline = use.timeline
            if timeline.held is self:
                timeline.held = None
            else:
                timeline.last().release(self)

    def forget(self) -> None:
        """Drop the references to tensors."""
        self.tensors, self.uses = (), ()

    def held_against(self, timeline: Timeline, region: Region, *, writes: bool) -> Conflict | None:
        """The first use of a timeline that conflicts with a new one."""
        for number, use in enumerate(self.uses):
            is_there = use.timeline is timeline or use.timeline.last() is timeline
            if is_there and (writes or use.writes) and use.region.overlaps(region):
                return Conflict(self, self.work.roles[number].name, use.writes)
        return None

    def writes_to(self, timeline: Timeline) -> bool:
        """Whether one of its uses of a timeline writes."""
        return any(use.writes and use.timeline.last() is timeline for use in self.uses)

    def holds(self, region: Region) -> bool:
        """Whether a use has this region; an empty region counts."""
        return any(use.region is region for use in self.uses)

    def upstream(self) -> list[Outcome]:
        """Unsettled outcomes that the inputs depend on; raises a failure that is known."""
        found: list[Outcome] = []
        for use, (mode, _) in zip(self.uses, self.work.roles, strict=False):
            timeline = use.timeline
            if mode.reads and timeline.stream is None:
                found += timeline.last().upstream(use.region)
        return found

    def order(self, stream: Stream) -> None:
        """Make a stream wait for all uses that these are ordered behind."""
        for use in self.uses:
            if use.timeline.stream is not stream:
                use.timeline = timeline = use.timeline.last()
                timeline.order(stream, use.region, writes=use.writes)

    def record(self, stream: Stream, count: int, outcome: Outcome | None) -> None:
        """Move all uses to a submission."""
        for use in self.uses:
            timeline = use.timeline
            if outcome is None and timeline.stream is stream and use.stream is stream:
                use.count = count
            else:
                timeline.last().record(use, stream, count, outcome)

    def record_refused(self, stream: Stream, error: BaseException) -> Outcome:
        """Move all uses to a submission that failed, perhaps after the driver's call."""
        count = stream.advance()
        outcome = Outcome.refused(stream, count, error)
        self.record(stream, count, outcome)
        return outcome


def uses_of(tensors: Iterable[Handle], roles: Iterable[Role]) -> tuple[Use, ...]:
    """The use of each tensor by an operation."""
    pairs = zip(tensors, roles, strict=True)
    return tuple([tensor.use(writes=role.mode.writes) for tensor, role in pairs])


def refusal(held: Conflict, name: str, by: Holder, *, writes: bool) -> str:
    """The message of a conflict between a built operation and a new one, `by`."""
    purpose = "writing" if held.writes else "reading"
    wish = "write" if writes else "read"
    first = held.holder
    return (
        f"{first.label}, built at {first.site}, holds {name} for {purpose} and {first.state}"
        f" ({by.label} at {by.site} would {wish} the same memory, and their order"
        " is not stated)"
    )

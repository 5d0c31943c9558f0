"""Problems of walks: ranges that blocks could disagree on, and outputs that cannot share a walk."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.check.errors.ownership import OwnershipProblem
from tilewright.diagnostics import Label
from tilewright.source import Span

__all__ = [
    "BadRange",
    "NotWalkedAlike",
    "RangeDiffersBetweenBlocks",
    "RangeDiffersBetweenVisits",
    "TwoRanges",
    "UnequalPartners",
]

_ONE_WALK = (
    "an output has one walk: its tiles are dealt out by their number in the range, so with another "
    "range a tile would get another number, and two blocks could write it: a race"
)


def _marked(span: Span | None, text: str) -> tuple[Label, ...]:
    return () if span is None else (Label(span, text),)


@dataclass(frozen=True)
class RangeDiffersBetweenBlocks(OwnershipProblem):
    """A range that differs between blocks."""

    output: str
    axis: int
    source: str  # the cause
    place: Span | None  # of the cause

    @property
    def title(self) -> str:
        return (
            f"the range of `{self.output}` along axis {self.axis} differs from block to block: it "
            f"depends on {self.source}"
        )

    @property
    def others(self) -> tuple[Label, ...]:
        return _marked(self.place, "here")

    @property
    def notes(self) -> tuple[str, ...]:
        return (_ONE_WALK,)

    @property
    def helps(self) -> tuple[str, ...]:
        return (
            "build it from constants, dims, scalars and loads from a Ref at such places; to leave "
            "tiles out, use `if` inside the loop",
        )


@dataclass(frozen=True)
class RangeDiffersBetweenVisits(OwnershipProblem):
    """A range that changes from one visit of the walk to the next."""

    output: str
    axis: int
    loop: Span | None

    @property
    def title(self) -> str:
        return (
            f"the range of `{self.output}` along axis {self.axis} may be another one at every turn "
            f"of the loop around the walk"
        )

    @property
    def others(self) -> tuple[Label, ...]:
        return _marked(self.loop, "in this loop")

    @property
    def notes(self) -> tuple[str, ...]:
        return (_ONE_WALK,)

    @property
    def helps(self) -> tuple[str, ...]:
        return (
            "compute the range before the loop; to leave tiles out at some turns, use `if` inside "
            "the walk",
        )


@dataclass(frozen=True)
class TwoRanges(OwnershipProblem):
    """Two walks of one output over different ranges."""

    output: str
    first: Span | None

    @property
    def title(self) -> str:
        return f"`{self.output}` is walked over two different ranges"

    @property
    def others(self) -> tuple[Label, ...]:
        return _marked(self.first, "and here over another")

    @property
    def notes(self) -> tuple[str, ...]:
        return (_ONE_WALK,)

    @property
    def helps(self) -> tuple[str, ...]:
        return (
            "walk the same range twice and use `if` inside the loops, or make two outputs of the "
            "tensor by slicing it before the launch",
        )


@dataclass(frozen=True)
class NotWalkedAlike(OwnershipProblem):
    """A walk that some blocks reach and others do not."""

    output: str
    parting: Span | None

    @property
    def title(self) -> str:
        return f"some blocks may come to this walk of `{self.output}` and others not"

    @property
    def others(self) -> tuple[Label, ...]:
        return _marked(self.parting, "blocks may part here")

    @property
    def notes(self) -> tuple[str, ...]:
        return ("every block has its own share of the tiles, which no other block does for it",)

    @property
    def helps(self) -> tuple[str, ...]:
        return (f"walk first: put the condition inside `for at in {self.output}.indices():`",)


@dataclass(frozen=True)
class UnequalPartners(OwnershipProblem):
    """Outputs of one walk that are cut or ordered in different ways."""

    output: str
    partner: str
    reason: str
    way_out: str

    @property
    def title(self) -> str:
        return f"`{self.output}` and `{self.partner}` cannot share a walk: {self.reason}"

    @property
    def notes(self) -> tuple[str, ...]:
        return ("an index that is good for both must name the same tile of the same grid",)

    @property
    def helps(self) -> tuple[str, ...]:
        return (self.way_out,)


@dataclass(frozen=True)
class BadRange(OwnershipProblem):
    """A range that is no pair of integers."""

    output: str
    reason: str

    @property
    def title(self) -> str:
        return f"a range of `{self.output}` is None or a pair (start, stop): {self.reason}"

    @property
    def helps(self) -> tuple[str, ...]:
        return (
            f"for example `{self.output}.indices_within((start, stop), None)`: from tile `start` "
            f"up to but not including tile `stop` along the first axis, all of the second",
        )

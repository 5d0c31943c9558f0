"""Problems of ownership: stores and walks of memory that the block does not own."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import Label, Problem
from tilewright.source import Span

__all__ = [
    "ForeignIndex",
    "IndexArithmetic",
    "IndexedPieceStore",
    "NoWalk",
    "NotAMintedIndex",
    "OwnershipProblem",
    "StoreToShared",
]


@dataclass(frozen=True)
class OwnershipProblem(Problem):
    """Base of the family."""

    code = "ownership"


def _unpacked(index: str, rank: int) -> str:
    """The expression that unpacks the coordinates of an index."""
    if rank == 1:
        return f"i = {index}[0]"
    return f"{', '.join('ijklmn'[:rank])} = {index}"


@dataclass(frozen=True)
class StoreToShared(OwnershipProblem):
    """A store to a tensor that all blocks read."""

    name: str

    @property
    def title(self) -> str:
        return f"`{self.name}` is shared read-only (Ref); only a Mut or a Mapped can be stored to"

    @property
    def helps(self) -> tuple[str, ...]:
        return (f"to write it, declare `{self.name}: Mut[…]` and launch with a partition of it",)


@dataclass(frozen=True)
class IndexedPieceStore(OwnershipProblem):
    """A store to a `Mut` with an index: two blocks could name the same place."""

    name: str
    rank: int

    @property
    def title(self) -> str:
        return f"a store to `{self.name}` takes no index: this block owns one piece of it"

    @property
    def label(self) -> str:
        return "which piece is decided by the launch"

    @property
    def notes(self) -> tuple[str, ...]:
        return (
            "with a place chosen in the kernel two blocks could write the same elements: a race",
        )

    @property
    def helps(self) -> tuple[str, ...]:
        which = _unpacked(f"{self.name}.index", self.rank)
        return (
            f"turn it round: `{which}` says which piece this is; load the input at the place that "
            f"belongs there, then `{self.name}.store(tile)`",
        )


@dataclass(frozen=True)
class ForeignIndex(OwnershipProblem):
    """An index minted by the walk of one output, used with another."""

    index_of: str
    stored_to: str
    minted: Span

    @property
    def title(self) -> str:
        return (
            f"this index was minted by the walk of `{self.index_of}` and cannot place a tile in "
            f"`{self.stored_to}`"
        )

    @property
    def label(self) -> str:
        return "used here"

    @property
    def others(self) -> tuple[Label, ...]:
        return (Label(self.minted, "minted here"),)

    @property
    def helps(self) -> tuple[str, ...]:
        return (f"walk the output you store to: `for at in {self.stored_to}.indices():`",)


@dataclass(frozen=True)
class IndexArithmetic(OwnershipProblem):
    """Arithmetic on a minted index."""

    output: str
    rank: int

    @property
    def title(self) -> str:
        return f"an index of `{self.output}` cannot be computed with: it is a place, not a number"

    @property
    def helps(self) -> tuple[str, ...]:
        return (f"its coordinates are numbers, for loads: `{_unpacked('at', self.rank)}`",)


@dataclass(frozen=True)
class NotAMintedIndex(OwnershipProblem):
    """A mapped store at an index that no walk minted."""

    name: str
    got: str

    @property
    def title(self) -> str:
        return f"a tile of `{self.name}` is placed by an index of its own walk; this is {self.got}"

    @property
    def notes(self) -> tuple[str, ...]:
        return ("indices cannot be made or computed with: two blocks could then name one tile",)

    @property
    def helps(self) -> tuple[str, ...]:
        return (f"`for at in {self.name}.indices():` … `{self.name}.store(tile, at)`",)


@dataclass(frozen=True)
class NoWalk(OwnershipProblem):
    """A walk over an output that has one piece for each block."""

    name: str

    @property
    def title(self) -> str:
        return f"`{self.name}` is a Mut: each block owns one piece of it, and there is no walk"

    @property
    def helps(self) -> tuple[str, ...]:
        return (
            f"`{self.name}.store(tile)` writes the piece; for a walk, declare it as "
            f"`{self.name}: Mapped[…]` and launch with `.persistent()`",
        )

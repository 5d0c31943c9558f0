"""Sites of checks: their subjects, as messages name them, apart from the ops that check."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.source import Location

__all__ = ["AssertSite", "CheckSite", "DivisorSite", "Site"]


@dataclass(frozen=True)
class CheckSite:
    """Subject of a check, in the author's words."""

    subject: str  # the parameter or value that is indexed: `x`
    axis: int
    tile: int
    is_store: bool = False
    of_piece: bool = False  # tiles are counted within this block's piece, not in the tensor
    of_tile: bool = False  # tiles are counted within a tile of the kernel
    step: int | None = None  # between the starts of windows; None: tiles are adjacent
    of_clip: bool = False  # the index was clipped to the axis: outside only if the axis is empty
    is_whole: bool = False  # a partial tile at the edge is not counted

    @property
    def place(self) -> str:
        """Return the name of the indexed thing, for messages."""
        if self.of_tile:
            return f"the tile `{self.subject}`"
        return f"this block's piece of `{self.subject}`" if self.of_piece else f"`{self.subject}`"

    def counted(self, number: object) -> str:
        """Return a count of tiles, or parts, of this extent, for messages."""
        every = "" if self.step is None else f", one every {self.step}"
        return f"{number} {self.noun}{'' if str(number) == '1' else 's'} of {self.tile}{every}"

    @property
    def noun(self) -> str:
        """Noun of the unit counted along the axis."""
        noun = "part" if self.of_piece or self.of_tile else "tile"
        noun = noun if self.step is None else "window"
        return f"whole {noun}" if self.is_whole else noun


@dataclass(frozen=True)
class DivisorSite:
    """A division whose divisor was not proved non-zero."""


@dataclass(frozen=True)
class AssertSite:
    """An `assert` of the author, with its message."""

    message: str


# The location of a check, and its description.
Site = tuple[Location | None, CheckSite | DivisorSite | AssertSite]

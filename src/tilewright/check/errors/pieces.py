"""Problems of pieces: a part of an output whose shape no tile has."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import Problem

__all__ = ["PieceIsNoTile"]


@dataclass(frozen=True)
class PieceIsNoTile(Problem):
    """A whole piece used as a tile, with a shape that no tile has."""

    code = "types"

    output: str
    shape: tuple[int | None, ...]  # None: the whole axis

    @property
    def title(self) -> str:
        shown = ", ".join("All" if extent is None else str(extent) for extent in self.shape)
        comma = "," if len(self.shape) == 1 else ""
        return (
            f"the piece of `{self.output}` has shape ({shown}{comma}); every extent of a tile is "
            f"a power of two"
        )

    @property
    def helps(self) -> tuple[str, ...]:
        use = f"`p = {self.output}.partition(sub…)`, then `p.store(tile, i)`"
        return (f"take the piece in parts that are: {use}",)

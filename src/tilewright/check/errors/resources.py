"""Problems of a kernel's tiles with the memory of a target."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.diagnostics import Problem

__all__ = ["TileDoesNotFit"]


@dataclass(frozen=True)
class TileDoesNotFit(Problem):
    """A tile for which the assembler finds no place on the target."""

    code = "target"

    tile: str
    nbytes: int
    target: str
    there: str  # the memory of the target

    @property
    def title(self) -> str:
        return f"{self.tile} does not fit {self.target}: it takes {self.nbytes:,} bytes"

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"a multiprocessor of {self.target} has {self.there}",)

    @property
    def helps(self) -> tuple[str, ...]:
        return ("choose smaller tiles, or work on this one in parts, in a loop",)

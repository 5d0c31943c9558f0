"""A reduction that would combine padding, as data: launches warn of it, and the cache keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.ir.launch_terms import Extent, LaunchTerm
from tilewright.source import Location

__all__ = ["PaddedReduction"]


@dataclass(frozen=True)
class PaddedReduction:
    """A reduction along an axis of a tensor whose padding is not neutral."""

    location: Location
    extent: Extent
    tile: int
    is_first: bool  # only the first tile is read
    became: str  # the padding in the reduced tile; empty if unknown
    padding: str  # neutral padding, as an argument of `partition`; empty if there is none
    is_counted: bool = False  # by the divisor of a mean
    step: int | None = None  # between the starts of windows; None: tiles are adjacent
    visited: LaunchTerm | None = None  # how many windows are read; None: the first alone

    def is_noticed(self, environment: Mapping[LaunchTerm, int]) -> bool:
        """Whether a launch with these numbers has padding there."""
        extent = environment[self.extent]
        if self.visited is not None and self.step is not None:
            count = environment[self.visited]
            return count > 0 and (count - 1) * self.step + self.tile > extent
        return 0 < extent < self.tile if self.is_first else extent % self.tile != 0

    def as_python(self, text_of: Callable[[LaunchTerm], str]) -> str:
        """The condition that a launch has no padding there, as Python text over its extent."""
        extent = text_of(self.extent)
        if self.visited is not None:
            count = f"({text_of(self.visited)})"
            return f"{count} < 1 or ({count} - 1) * {self.step} + {self.tile} <= {extent}"
        return (
            f"not 0 < {extent} < {self.tile}" if self.is_first else f"{extent} % {self.tile} == 0"
        )

    def describe(self, environment: Mapping[LaunchTerm, int]) -> str:
        """The effect, the reason and the way out, for a warning."""
        name, axis, number = self.extent.param, self.extent.axis, environment[self.extent]
        beyond = f"which tiles of {self.tile} do not divide"
        if self.step == self.tile:
            beyond = f"beyond which tiles of {self.tile} reach"
        elif self.step is not None:
            beyond = f"beyond which a window of {self.tile}, one every {self.step}, reaches"
        happens = self._what_happens()
        return f"axis {axis} of `{name}` has {number} elements, {beyond}, and {happens}"

    def _what_happens(self) -> str:
        if self.is_counted:
            count = f"{self.extent.param}.shape[{self.extent.axis}].astype(t.dtype)"
            return (
                "tw.mean divides by the number of elements of the tile, padding included: divide "
                f"the sum by the number of those that count, as `tw.sum(t) / {count}` does"
            )
        load = f"load with `padding={self.padding}`, or mask" if self.padding else "mask"
        value = self.became or "the value computed from the padding"
        return f"{value} takes part in this reduction: {load} the elements outside with tw.where"

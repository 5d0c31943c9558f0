"""A reduction that would combine padding, as data: launches warn of it, and the cache keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.analysis.formulas import AllOf, AtLeastZero, Formula
from tilewright.analysis.padding_facts import ReachBound
from tilewright.analysis.terms import Linear, TermIntervals
from tilewright.check.launch import LaunchCheck

__all__ = ["PaddedReduction"]


@dataclass(frozen=True)
class PaddedReduction(LaunchCheck):
    """A reduction of a tile whose padding is not neutral: the check is that there is none.

    A launch that fails it is warned of, and not refused.
    """

    bounds: tuple[ReachBound, ...]
    param: str  # the tensor
    axis: int | None  # None for elements behind a mask
    extent: Linear | None
    became: str  # the padding in the reduced tile; empty if unknown
    padding: str = ""  # neutral padding, as an argument of `partition`, if there is one
    effect: str = "takes part in this reduction"
    is_counted: bool = False  # by the divisor of a mean

    def _terms(self) -> Iterable[Linear]:
        return tuple(bound.goal for bound in self.bounds)

    def _formula(self) -> Formula:
        return AllOf(tuple(AtLeastZero(bound.goal) for bound in self.bounds))

    def _is_met(self, numbers: TermIntervals) -> bool:
        return all(numbers.of(bound.goal).low >= 0 for bound in self.bounds)

    def _problem(self, numbers: TermIntervals) -> str:
        """The effect, the reason and the way out."""
        beyond = next(one.beyond for one in self.bounds if numbers.of(one.goal).low < 0)
        reason = beyond
        if self.extent is not None:
            has = f"axis {self.axis} of `{self.param}` has {numbers.of(self.extent).low} elements"
            reason = f"{has}, {beyond}"
        return f"{reason}, and {self._what_happens()}"

    def _what_happens(self) -> str:
        if self.is_counted:
            count = "the number of those that count"
            if self.axis is not None:
                count += f", as `tw.sum(t) / {self.param}.shape[{self.axis}].astype(t.dtype)` does"
            return (
                "tw.mean divides by the number of elements of the tile, padding included: divide "
                f"the sum by {count}"
            )
        load = f"load with `padding={self.padding}`, or mask" if self.padding else "mask"
        value = self.became or "the value computed from the padding"
        return f"{value} {self.effect}: {load} the elements outside with tw.where"

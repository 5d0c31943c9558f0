"""Intervals of mathematical integers, and machine types.

Pure arithmetic on numbers: no symbols, no IR. Division and remainder are Python's (floor), and
every result contains the results for all members of the operands.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["I32", "Interval", "MachineType"]


@dataclass(frozen=True)
class Interval:
    """All integers from `low` to `high`, both included; never empty."""

    low: int
    high: int

    def __mul__(self, other: Interval) -> Interval:
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(corners), max(corners))

    def scaled(self, factor: int) -> Interval:
        """The interval of every member times a factor."""
        ends = self.low * factor, self.high * factor
        return Interval(ends[1], ends[0]) if factor < 0 else Interval(*ends)

    def contains(self, other: Interval) -> bool:
        """Whether every member of the other is a member of this one."""
        return self.low <= other.low and other.high <= self.high

    def meet(self, other: Interval) -> Interval:
        """The intersection; if it is empty, the code never runs, and any answer is sound."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(min(low, high), max(low, high))

    def without_zero(self) -> Interval:
        """The interval of a divisor after its check, which replaces zero by one."""
        if self.low == 0:
            return Interval(1, max(self.high, 1))
        return Interval(self.low, 1) if self.high == 0 else self

    def floor_divide(self, divisor: Interval) -> Interval:
        """Quotients rounded down, for every divisor but zero."""
        divisors = [d for d in (divisor.low, -1, 1, divisor.high) if _is_usable(d, divisor)]
        if not divisors:
            return self
        corners = [n // d for n in (self.low, self.high) for d in divisors]
        return Interval(min(corners), max(corners))

    def floor_remainder(self, divisor: Interval) -> Interval:
        """Remainders of floor division, for every divisor but zero."""
        if divisor.low == divisor.high != 0:
            quotients = self.low // divisor.low, self.high // divisor.low
            if quotients[0] == quotients[1]:
                ends = self.low % divisor.low, self.high % divisor.low
                return Interval(min(ends), max(ends))
        low, high = min(divisor.low + 1, 0), max(divisor.high - 1, 0)
        if divisor.low > 0 and self.low >= 0:
            high = min(high, self.high)
        return Interval(low, high)


@dataclass(frozen=True)
class MachineType:
    """An integer type: its bits and its signedness."""

    bits: int
    signed: bool = True

    @property
    def interval(self) -> Interval:
        """All numbers of the type."""
        if self.signed:
            return Interval(-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        return Interval(0, (1 << self.bits) - 1)

    def hold(self, value: Interval) -> Interval:
        """The interval of mathematical results after wrap-around.

        Results that wrap by the same multiple keep their interval; otherwise it is the whole type.
        """
        whole = self.interval
        turns = (value.low - whole.low) >> self.bits
        if (value.high - whole.low) >> self.bits != turns:
            return whole
        shift = turns << self.bits
        return Interval(value.low - shift, value.high - shift) if turns else value


I32 = MachineType(32)  # the type of extents, counts and indices


def _is_usable(candidate: int, divisor: Interval) -> bool:
    return candidate != 0 and divisor.low <= candidate <= divisor.high

"""Exact integer operations on Python ints, which generated code calls for rank-0 tiles.

Operands are numbers under the op's signedness; results are exact, and the caller wraps them into
the width. These functions also define the array versions in `integers`, which tests compare with
them.
"""

from __future__ import annotations

from tilewright.backends.cpu.faults import report
from tilewright.ir.attributes import Rounding

__all__ = [
    "DIVIDE",
    "FARTHEST",
    "divide_ceil",
    "divide_floor",
    "divide_zero",
    "fitting",
    "fitting_extent",
    "limits",
    "moved",
    "remainder",
    "shift_count",
]


FARTHEST = 1 << 62  # bytes that a pointer may move; twice that leaves the address space


def limits(bits: int, signed: bool) -> tuple[int, int]:
    """Return the least and the greatest integer of a width."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def divide_zero(site: int, low: int, high: int, x: int, y: int) -> int:
    """Return the quotient truncated towards zero; a zero divisor or an overflow is reported."""
    _require_divisor(site, x, y)
    quotient = abs(x) // abs(y)
    return _quotient(site, low, high, x, y, quotient if (x < 0) == (y < 0) else -quotient)


def divide_floor(site: int, low: int, high: int, x: int, y: int) -> int:
    """Return the quotient rounded down."""
    _require_divisor(site, x, y)
    return _quotient(site, low, high, x, y, x // y)


def divide_ceil(site: int, low: int, high: int, x: int, y: int) -> int:
    """Return the quotient rounded up."""
    _require_divisor(site, x, y)
    return _quotient(site, low, high, x, y, -(-x // y))


def remainder(site: int, low: int, high: int, x: int, y: int) -> int:
    """Return the remainder of a division towards zero; it has the sign of `x`."""
    quotient = divide_zero(site, low, high, x, y)
    return x - quotient * y


def shift_count(site: int, bits: int, count: int) -> int:
    """Return a shift count, which must be below the width."""
    if not 0 <= count < bits:
        report(site, f"shifts by {count}, and the width is {bits}")
    return count


def fitting(site: int, low: int, high: int, exact: int) -> int:
    """Return a result that was promised not to wrap."""
    if not low <= exact <= high:
        report(site, f"wraps, and promises not to: {exact} is not in [{low}, {high}]")
    return exact


def fitting_extent(site: int, bits: int, extent: int) -> int:
    """Return an extent that must fit an unsigned integer of a width."""
    if extent >> bits:
        report(site, f"gives the extent {extent}, which does not fit in {bits} bits")
    return extent


def moved(site: int, place: int, offset: int, size: int) -> int:
    """Advance an address by a number of elements; one that would wrap is reported."""
    if abs(offset) > FARTHEST // size:
        report(site, f"moves a pointer by {offset} elements, which wraps")
    return place + offset * size


def _require_divisor(site: int, x: int, y: int) -> None:
    if y == 0:
        report(site, f"divides by zero: {x} / 0")


def _quotient(site: int, low: int, high: int, x: int, y: int, quotient: int) -> int:
    if not low <= quotient <= high:
        report(site, f"overflows: {x} / {y} is not in [{low}, {high}]")
    return quotient


# Quotients by rounding mode.
DIVIDE = {
    Rounding.ZERO: divide_zero,
    Rounding.NEGATIVE_INF: divide_floor,
    Rounding.POSITIVE_INF: divide_ceil,
}

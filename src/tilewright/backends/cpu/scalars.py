"""Integer operations on Python ints, exact: what generated code calls for rank-0 tiles.

Operands are numbers as the op reads them (signed or unsigned); results are exact, and the caller
folds them back into the width. This is also the definition that the array versions in `integers`
are tested against.
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


FARTHEST = 1 << 62  # bytes that a pointer may move; twice that leaves the addresses there are


def limits(bits: int, signed: bool) -> tuple[int, int]:
    """The least and the greatest integer of a width."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def divide_zero(site: int, low: int, high: int, x: int, y: int) -> int:
    """Quotient cut towards zero; a zero divisor or a quotient out of range is reported."""
    _require_divisor(site, x, y)
    quotient = abs(x) // abs(y)
    return _quotient(site, low, high, x, y, quotient if (x < 0) == (y < 0) else -quotient)


def divide_floor(site: int, low: int, high: int, x: int, y: int) -> int:
    """Quotient rounded down."""
    _require_divisor(site, x, y)
    return _quotient(site, low, high, x, y, x // y)


def divide_ceil(site: int, low: int, high: int, x: int, y: int) -> int:
    """Quotient rounded up."""
    _require_divisor(site, x, y)
    return _quotient(site, low, high, x, y, -(-x // y))


def remainder(site: int, low: int, high: int, x: int, y: int) -> int:
    """What is left of `x` after dividing towards zero; it has the sign of `x`."""
    quotient = divide_zero(site, low, high, x, y)
    return x - quotient * y


def shift_count(site: int, bits: int, count: int) -> int:
    """A shift count, which must be below the width."""
    if not 0 <= count < bits:
        report(site, f"shifts by {count}, and the width is {bits}")
    return count


def fitting(site: int, low: int, high: int, exact: int) -> int:
    """A result that was promised not to wrap."""
    if not low <= exact <= high:
        report(site, f"wraps, and promises not to: {exact} is not in [{low}, {high}]")
    return exact


def fitting_extent(site: int, bits: int, extent: int) -> int:
    """An extent that is asked for in an integer of a width, which is read unsigned."""
    if extent >> bits:
        report(site, f"gives the extent {extent}, which does not fit in {bits} bits")
    return extent


def moved(site: int, place: int, offset: int, size: int) -> int:
    """An address moved by a number of elements; so far that it would wrap is reported."""
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


# The quotient for each rounding.
DIVIDE = {
    Rounding.ZERO: divide_zero,
    Rounding.NEGATIVE_INF: divide_floor,
    Rounding.POSITIVE_INF: divide_ceil,
}

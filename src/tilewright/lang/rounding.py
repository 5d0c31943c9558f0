"""Names of rounding modes, as type checkers see them."""

from __future__ import annotations

from typing import Literal

__all__ = ["Direction", "Precision", "QuotientRounding", "RootRounding"]

# To the nearest number (ties to the even one), or to a neighbour on a chosen side.
Direction = Literal["nearest", "zero", "down", "up"]
# Full precision, or the fast approximation of the GPU.
Precision = Literal["full", "approx"]
# Of a quotient: "full" and "approx" are faster and less exact.
QuotientRounding = Literal["nearest", "zero", "down", "up", "approx", "full"]
# Of a square root.
RootRounding = Literal["nearest", "zero", "down", "up", "approx"]

"""Arguments of an entry: the launch term and the promises of each.

One list serves the pass that binds the kernel's parameters and the host code that packs them, so
the two cannot disagree. A tensor is passed as its address, its extents and its strides, as far as
the kernel uses them; a scalar as itself; the failure record, if the kernel has one, comes last.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.launch_terms import LaunchTerm
from tilewright.ir.types import TileType

__all__ = ["Argument"]


@dataclass(frozen=True)
class Argument:
    """One parameter of an entry."""

    term: LaunchTerm
    type: TileType
    divisor: int = 1  # the value is a multiple of this (bytes for an address); checked at launch
    lower: int | None = None  # the value is never below; checked at launch
    upper: int | None = None

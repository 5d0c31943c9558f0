"""The largest tile of a module, compared with the memory of its target.

tileiras gives no reason where a tile does not fit: the program as a whole "failed to compile". An
op holds its operand and its result at once, so a tile of half the register file or more is the
likely cause of such a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.bytecode import Encoded
from tilewright.ir.architectures import REGISTER_BYTES, find_architecture
from tilewright.ir.op import Op
from tilewright.ir.types import PtrType, TileType
from tilewright.source import Location

__all__ = ["LargeTile", "largest_tile", "memory_of"]

_POINTER_BITS = 64
_LARGE = REGISTER_BYTES // 2  # an operand and a result of this size fill the registers


@dataclass(frozen=True)
class LargeTile:
    """A tile that fills half the registers of a multiprocessor or more."""

    type: TileType
    nbytes: int
    location: Location | None  # None if the module has no locations

    def __str__(self) -> str:
        element = "pointers" if isinstance(self.type.element, PtrType) else self.type.element
        return f"the largest tile, {element} of shape {self.type.shape},"

    def beside(self, target: str) -> str:
        """Describe the bytes of the tile and those of the target."""
        there = memory_of(target)
        return f"{self} takes {self.nbytes:,} bytes; a multiprocessor of {target} has {there}"


def memory_of(target: str) -> str:
    """Describe the memory of a multiprocessor."""
    known = find_architecture(target)
    more = "" if known is None else f" and {known.shared_memory:,} bytes of shared memory"
    return f"{REGISTER_BYTES:,} bytes of registers{more}"


def largest_tile(bytecode: Encoded | bytes) -> LargeTile | None:
    """Return the largest tile of a module, at the first op that defines it, if it is large."""
    if not isinstance(bytecode, Encoded):
        return None
    tiles = [tile for _, op in bytecode.places for tile in _tiles(op) if tile.nbytes >= _LARGE]
    return max(tiles, key=lambda tile: tile.nbytes, default=None)


def _tiles(op: Op) -> Iterator[LargeTile]:
    for result in op.results:
        if isinstance(result.type, TileType):
            element = result.type.element
            bits = _POINTER_BITS if isinstance(element, PtrType) else element.bits
            nbytes = result.type.size * max(bits, 8) // 8
            yield LargeTile(result.type, nbytes, op.loc)

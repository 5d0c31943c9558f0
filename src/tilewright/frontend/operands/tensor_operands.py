"""Operands of tensor parameters: shared tensors, outputs, accumulators.

They are compile-time aggregates like the other operands (`operands`): none is an SSA value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.frontend.signature.specialization import TensorSpecialization
from tilewright.ir.op import Value

__all__ = [
    "AccumOperand",
    "MappedOperand",
    "PieceOperand",
    "RefOperand",
    "SegmentedPiece",
    "TensorOperand",
]


@dataclass(frozen=True, eq=False)
class TensorOperand:
    """A tensor parameter, or its part at indices of its leading axes."""

    name: str
    spec: TensorSpecialization
    view: Value  # the whole tensor
    rank: int  # without the indexed axes
    leading: tuple[Value, ...] = field(default=(), kw_only=True)  # checked indices

    def along(self, axis: int) -> int:
        """The axis of the whole tensor of a remaining axis."""
        return len(self.leading) + axis

    def whole_tile(self, tile: tuple[int, ...]) -> tuple[int, ...]:
        """The tile of the whole tensor for a tile of the remaining axes."""
        return (*(1,) * len(self.leading), *tile)


class RefOperand(TensorOperand):
    """Shared read-only tensor."""

    def __str__(self) -> str:
        return f"tensor `{self.name}`"


@dataclass(frozen=True, eq=False)
class PieceOperand(TensorOperand):
    """This block's piece of a `Mut` output, or of one step of a walk."""

    index: tuple[Value, ...]  # of the piece, one number for each remaining axis

    @property
    def tile(self) -> tuple[int | None, ...]:
        """Extents of the piece; None is a whole axis."""
        return self.spec.tile[len(self.leading) :]

    def __str__(self) -> str:
        return f"output `{self.name}`"


@dataclass(frozen=True, eq=False)
class SegmentedPiece(PieceOperand):
    """This block's piece of ragged rows: the first axis is cut by offsets read from memory."""

    place: tuple[Value, Value]  # the segment, and the piece in it
    rows: tuple[Value, Value]  # start and end of the piece
    segment: tuple[Value, Value]  # start and end of the whole segment


class MappedOperand(TensorOperand):
    """An output walked by a persistent schedule."""

    @property
    def tile(self) -> tuple[int | None, ...]:
        """Extents of one tile; None is a whole axis."""
        return self.spec.tile

    def __str__(self) -> str:
        return f"output `{self.name}`"


class AccumOperand(TensorOperand):
    """A tensor that all blocks accumulate into."""

    def __str__(self) -> str:
        return f"accumulator `{self.name}`"

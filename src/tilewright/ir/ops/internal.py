"""Internal ops: facts that the front end states and passes lower before encoding.

Internal ops have no opcode, so the verifier refuses any that is left over, except an inspection in
a program for the CPU.
"""

from __future__ import annotations

from tilewright.dtypes import Element
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.inspections import InspectedNames
from tilewright.ir.launch_terms import LaunchTerm
from tilewright.ir.op import (
    Block,
    Effect,
    Op,
    Value,
    attr,
    defined,
    defined_many,
    operand,
    operands,
    region,
)
from tilewright.ir.types import TileType, Type, scalar

__all__ = [
    "Assertion",
    "Assumption",
    "Averaged",
    "BlockIndex",
    "BlockInspection",
    "BoundsCheck",
    "CeilDiv",
    "DivisorCheck",
    "FloorDiv",
    "FloorMod",
    "LaunchValue",
    "NotEmpty",
    "PartIndex",
    "ReadAs",
    "RecordFailure",
    "Require",
    "Sorted",
    "StepCheck",
    "Walk",
]


class LaunchValue(Op, mnemonic="launch_value"):
    """A launch term by name. `bind_arguments` turns it into an argument.

    `known_as` is a term that every launch checks to be equal. Terms proved equal share one name in
    the prover, and each is still passed as its own argument.
    """

    term: LaunchTerm = attr()
    to: TileType = attr()
    known_as: LaunchTerm | None = attr(default=None)
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)


class BlockIndex(Op, mnemonic="block_index"):
    """This block's coordinates in the logical grid, one for each axis.

    `counts` are the grid's extents. Blocks are linearised with the last axis fastest; the axes of
    `descending` run from the last coordinate to the first.
    """

    counts: tuple[Value, ...] = operands(default=())
    descending: tuple[int, ...] = attr(default=())
    indices: tuple[Value, ...] = defined_many()

    def result_types(self) -> tuple[Type, ...]:
        return (scalar(Element.I32),) * len(self.counts)


class PartIndex(Op, mnemonic="part_index"):
    """Index in the tensor of part `own` of a piece.

    `piece` is the index of the piece and `parts` its number of parts along the axis. `own` is
    checked to be below `parts`, so parts of different pieces never coincide.
    """

    piece: Value = operand()
    own: Value = operand()
    parts: int = attr()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.own.type,)


class Walk(Op, mnemonic="walk"):
    """Loop over this block's share of the tiles of its outputs.

    `counts` are the tiles along each axis. Along the axes of `ranged` only the tiles from `starts`
    to below `stops` are visited; both may be any numbers, and tiles outside the grid are skipped.
    The body's arguments are the tile's coordinates, then the carried values. Blocks visit disjoint
    tiles and together cover the range. `group` is the shape, along the last two axes, of the blocks
    of tiles that are visited contiguously, in row-major order; `order` lists the axes from the
    slowest to the fastest, as `~axis` for a descending one.
    """

    counts: tuple[Value, ...] = operands(default=())
    starts: tuple[Value, ...] = operands(default=())
    stops: tuple[Value, ...] = operands(default=())
    init_values: tuple[Value, ...] = operands(default=())
    ranged: tuple[int, ...] = attr(default=())
    group: tuple[int, int] | None = attr(default=(1, 1))  # None: left to `choose_hints`
    order: tuple[int, ...] = attr(default=())  # declared order of the axes
    outputs: tuple[str, ...] = attr()  # parameters that share the walk
    body: Block = region()
    result_values: tuple[Value, ...] = defined_many()

    @property
    def ranges(self) -> dict[int, tuple[Value, Value]]:
        """Return the start and stop of the walk along each axis that it does not cover whole."""
        return dict(zip(self.ranged, zip(self.starts, self.stops, strict=True), strict=True))

    def result_types(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.init_values)


class BoundsCheck(Op, mnemonic="bounds_check"):
    """The index, which must lie in `[0, count)`. A check that is not proved stays in the kernel.

    With `skips` the axis may be empty: loads at the result are skipped then.
    """

    index: Value = operand()
    count: Value = operand()
    site: CheckSite = attr()
    skips: bool = attr(default=False)
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.index.type,)


class DivisorCheck(Op, mnemonic="divisor_check"):
    """The divisor, whose elements must all be non-zero."""

    divisor: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.divisor.type,)


class StepCheck(Op, mnemonic="step_check"):
    """The step of a counted loop, which must be positive. The check never stays in the kernel."""

    step: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.step.type,)


class FloorDiv(Op, mnemonic="floor_div"):
    """Python's `//` on integers; the divisor is non-zero."""

    lhs: Value = operand()
    rhs: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.lhs.type,)


class CeilDiv(Op, mnemonic="ceil_div"):
    """`tw.cdiv`: the quotient of two integers, rounded up; the divisor is non-zero."""

    lhs: Value = operand()
    rhs: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.lhs.type,)


class FloorMod(Op, mnemonic="floor_mod"):
    """Python's `%` on integers: the sign of the divisor, which is non-zero."""

    lhs: Value = operand()
    rhs: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.lhs.type,)


class ReadAs(Op, mnemonic="read_as"):
    """The same bits under another dtype, which may differ in signedness."""

    source: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.source.type,)


class Averaged(Op, mnemonic="averaged"):
    """The operand of a mean along `dims`, whose element count includes padding."""

    source: Value = operand()
    dims: tuple[int, ...] = attr()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.source.type,)


class Sorted(Op, mnemonic="sorted"):
    """The operand of a sort along `dim`, in which padding is sorted like any element."""

    source: Value = operand()
    dim: int = attr()
    is_descending: bool = attr()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.source.type,)


class Require(Op, mnemonic="require", effect=Effect.OBSERVE):
    """A condition on launch terms: checked by every launch, a fact in the kernel."""

    condition: Value = operand()
    text: str = attr()


class NotEmpty(Op, mnemonic="not_empty", effect=Effect.OBSERVE):
    """An axis that is not empty where this op executes: checked by the launch, a fact from here on.

    Unlike `Require`, it does not constrain launches that never reach this op.
    """

    count: Value = operand()
    text: str = attr()


class Assertion(Op, mnemonic="assertion", effect=Effect.OBSERVE):
    """Truth values that should all be true: a false one is reported, and none becomes a fact."""

    condition: Value = operand()
    message: str = attr()


class Assumption(Op, mnemonic="assumption", effect=Effect.OBSERVE):
    """A condition that the author promises: a fact from here on, without a check."""

    condition: Value = operand()


class BlockInspection(Op, mnemonic="inspection", effect=Effect.OBSERVE):
    """Show the named values of a block to an observer. It reaches the CPU backend, and no other."""

    args: tuple[Value, ...] = operands(default=())
    shown: InspectedNames = attr()


class RecordFailure(Op, mnemonic="record", effect=Effect.OBSERVE):
    """Write a failed check to the failure record: `failed` is the condition, the rest its data."""

    failed: Value = operand()
    index: Value = operand()
    count: Value = operand()
    site_number: Value = operand()  # an i32; a loop may carry the site that failed first

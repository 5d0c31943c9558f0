"""Ops that Tile IR does not have: facts the front end states and passes use up before encoding.

None of them has an opcode, so one that is left over is refused by the verifier.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dtypes import Element
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
    "AssertSite",
    "Assertion",
    "Assumption",
    "Averaged",
    "BlockIndex",
    "BoundsCheck",
    "CeilDiv",
    "CheckSite",
    "DivisorCheck",
    "DivisorSite",
    "FloorDiv",
    "FloorMod",
    "LaunchValue",
    "NotEmpty",
    "PartIndex",
    "ReadAs",
    "Record",
    "Require",
    "StepCheck",
    "Walk",
]


@dataclass(frozen=True)
class CheckSite:
    """What a check is about, in the author's words."""

    subject: str  # the parameter or value that is indexed: `x`
    axis: int
    tile: int
    is_store: bool = False
    of_piece: bool = False  # counted in parts of this block's piece, not in tiles of the tensor
    of_tile: bool = False  # counted in parts of a tile that the kernel holds
    step: int | None = None  # between the starts of windows; None: tiles lie side by side

    @property
    def place(self) -> str:
        """What is indexed, for people."""
        if self.of_tile:
            return f"the tile `{self.subject}`"
        return f"this block's piece of `{self.subject}`" if self.of_piece else f"`{self.subject}`"

    def counted(self, number: object) -> str:
        """So many tiles, or parts, of this extent."""
        every = "" if self.step is None else f", one every {self.step}"
        return f"{number} {self.noun}{'' if str(number) == '1' else 's'} of {self.tile}{every}"

    @property
    def noun(self) -> str:
        """What is counted along the axis."""
        return (
            "part" if self.of_piece or self.of_tile else "tile" if self.step is None else "window"
        )


@dataclass(frozen=True)
class DivisorSite:
    """A division whose divisor was not proved to be other than zero."""


@dataclass(frozen=True)
class AssertSite:
    """An `assert` of the author, with what it says when it is false."""

    message: str


class LaunchValue(Op, mnemonic="launch_value"):
    """Something known at launch, by name. `bind_arguments` turns it into an argument.

    `known_as` is a term that every launch has checked to be the same number: for the prover all
    that are equal have one name, and each is passed as what it is.
    """

    term: LaunchTerm = attr()
    to: TileType = attr()
    known_as: LaunchTerm | None = attr(default=None)
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.to,)


class BlockIndex(Op, mnemonic="block_index"):
    """This block's place in the logical grid, one number for each axis.

    `counts` are the grid's extents; blocks are laid out linearly, the last axis fastest, and along
    the axes of `descending` from the last place to the first.
    """

    counts: tuple[Value, ...] = operands(default=())
    descending: tuple[int, ...] = attr(default=())
    indices: tuple[Value, ...] = defined_many()

    def result_types(self) -> tuple[Type, ...]:
        return (scalar(Element.I32),) * len(self.counts)


class PartIndex(Op, mnemonic="part_index"):
    """Which part of a tensor part `own` of a piece is, counted from the start of the tensor.

    `piece` is the place of the piece and `parts` how many it has along the axis; `own` has been
    checked to be one of them, so parts of different pieces are different.
    """

    piece: Value = operand()
    own: Value = operand()
    parts: int = attr()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.own.type,)


class Walk(Op, mnemonic="walk"):
    """This block's share of the tiles of its outputs, visited one by one.

    `counts` are the tiles along each axis. Along the axes of `ranged` only the tiles from `starts`
    to below `stops` are walked; these may be any numbers, and what lies outside the grid is not
    visited. The body's arguments are the tile's coordinates, then the carried values. Blocks visit
    disjoint tiles and together all of the range. `group` is the shape, along the last two axes, of
    the blocks of tiles that are finished one after the other, row by row; `order` has the axes from
    the slowest to the fastest, `~axis` for one whose last tiles come first.
    """

    counts: tuple[Value, ...] = operands(default=())
    starts: tuple[Value, ...] = operands(default=())
    stops: tuple[Value, ...] = operands(default=())
    init_values: tuple[Value, ...] = operands(default=())
    ranged: tuple[int, ...] = attr(default=())
    group: tuple[int, int] = attr(default=(1, 1))
    order: tuple[int, ...] = attr(default=())  # as the axes stand
    outputs: tuple[str, ...] = attr()  # that share the walk
    body: Block = region()
    result_values: tuple[Value, ...] = defined_many()

    @property
    def ranges(self) -> dict[int, tuple[Value, Value]]:
        """Where the walk starts and stops along each axis that it does not walk whole."""
        return dict(zip(self.ranged, zip(self.starts, self.stops, strict=True), strict=True))

    def result_types(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.init_values)


class BoundsCheck(Op, mnemonic="bounds_check"):
    """The index, which must lie in `[0, count)`. What `check` cannot prove stays in the kernel.

    One that `skips` may find its axis empty: a load by its result is not made then.
    """

    index: Value = operand()
    count: Value = operand()
    site: CheckSite = attr()
    skips: bool = attr(default=False)
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.index.type,)


class DivisorCheck(Op, mnemonic="divisor_check"):
    """The divisor, none of whose elements may be zero."""

    divisor: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.divisor.type,)


class StepCheck(Op, mnemonic="step_check"):
    """The step of a counted loop, which must be above zero. It never stays in the kernel."""

    step: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.step.type,)


class FloorDiv(Op, mnemonic="floor_div"):
    """Python's `//` on integers; the divisor is not zero."""

    lhs: Value = operand()
    rhs: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.lhs.type,)


class CeilDiv(Op, mnemonic="ceil_div"):
    """`tw.cdiv`: the exact quotient of two integers, rounded up; the divisor is not zero."""

    lhs: Value = operand()
    rhs: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.lhs.type,)


class FloorMod(Op, mnemonic="floor_mod"):
    """Python's `%` on integers: the sign of the divisor, which is not zero."""

    lhs: Value = operand()
    rhs: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.lhs.type,)


class ReadAs(Op, mnemonic="read_as"):
    """The same bits, which the author's dtype reads with or without a sign from here on."""

    source: Value = operand()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.source.type,)


class Averaged(Op, mnemonic="averaged"):
    """The same tile, whose elements along `dims` are counted, padding with them: for a mean."""

    source: Value = operand()
    dims: tuple[int, ...] = attr()
    result: Value = defined()

    def result_types(self) -> tuple[Type, ...]:
        return (self.source.type,)


class Require(Op, mnemonic="require", effect=Effect.OBSERVE):
    """A condition on launch-known values that every launch checks, and a fact in the kernel."""

    condition: Value = operand()
    text: str = attr()


class NotEmpty(Op, mnemonic="not_empty", effect=Effect.OBSERVE):
    """An axis that has something wherever this is reached: checked by the launch, a fact from here.

    Unlike a `Require` it says nothing about launches that never get here.
    """

    count: Value = operand()
    text: str = attr()


class Assertion(Op, mnemonic="assertion", effect=Effect.OBSERVE):
    """A truth value, or a tile of them, all of which should be true: reported, and no fact."""

    condition: Value = operand()
    message: str = attr()


class Assumption(Op, mnemonic="assumption", effect=Effect.OBSERVE):
    """A condition that the author promises: a fact from here on, and nobody's to check."""

    condition: Value = operand()


class Record(Op, mnemonic="record", effect=Effect.OBSERVE):
    """Report that a check failed: `failed` says whether, the rest says what."""

    failed: Value = operand()
    index: Value = operand()
    count: Value = operand()
    site_number: Value = operand()  # an i32: a loop may carry the site that failed first

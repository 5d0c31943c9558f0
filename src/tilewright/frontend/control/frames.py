"""Frames: a function that is being lowered, its names, and its jumps."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum, auto

from tilewright.dtypes import DType
from tilewright.frontend.operands.operands import LambdaOperand, Operand, Static, TileOperand
from tilewright.frontend.source.capture import SourceFunction
from tilewright.ir.op import Block
from tilewright.ir.ops.control import Break, Continue
from tilewright.source import Span

__all__ = [
    "RESULT",
    "RETURNED",
    "Arm",
    "Departure",
    "Frame",
    "Learned",
    "LoopExit",
    "OpenBranch",
    "Scope",
    "Unrolled",
]

# Operands of the names of a function at one point.
Scope = dict[str, Operand]

# A hidden name of a helper's scope: whether it has returned.
RETURNED = "returned?"

# A hidden name of a helper's scope: its result, once it has returned.
RESULT = "result?"


class Departure(Enum):
    """How control left the statements that are being lowered."""

    JUMPED = auto()  # the block of the IR ends in a jump
    SKIPPING = auto()  # the block continues, but skips the rest of the source


@dataclass(frozen=True, eq=False)
class LoopExit:
    """An end of an iteration; its jump is added when the carried names are known."""

    jump: type[Break | Continue]
    node: ast.AST
    block: Block
    scope: Scope | None  # None: unreachable, and carries the incoming values
    returns: bool = False  # a `return` of a helper, which continues after the loop


@dataclass(eq=False)
class Learned:
    """Facts about a loop that are known only after its body has been lowered once."""

    dtypes: dict[tuple[str, int], type[DType]] = field(default_factory=dict)  # by name and leaf
    results: list[Operand] = field(default_factory=list)  # of the helper's `return`s inside
    result: Operand | None = None  # an initial value of their type
    dropped: set[str] = field(default_factory=set)  # functions that an iteration replaces by others


@dataclass(frozen=True)
class Unrolled:
    """An unrolled loop: hidden names are true where an iteration, or the whole loop, is over."""

    turn_over: str
    all_over: str


@dataclass(frozen=True, eq=False)
class Arm:
    """One side of a branch, lowered."""

    block: Block
    scope: Scope
    left: Departure | None

    @property
    def has_returned(self) -> bool:
        """Whether every path through it has returned."""
        returned = self.scope.get(RETURNED)
        return (
            self.left is Departure.SKIPPING
            and isinstance(returned, Static)
            and bool(returned.value)
        )


@dataclass(frozen=True, eq=False)
class OpenBranch:
    """A branch that one arm has left; lowering continues inside the other arm."""

    node: ast.AST
    condition: TileOperand
    left: Arm
    is_then: bool  # whether the arm that left is the one for a true condition
    outer: Block
    before: Scope


@dataclass(eq=False)
class Frame:
    """A function whose body is being lowered: the kernel, or a helper inlined into it."""

    source: SourceFunction
    scope: Scope
    calls: tuple[Span, ...] = ()
    left: Departure | None = None
    exits: list[LoopExit] | None = None  # of the innermost loop of the IR, if there is one
    unrolled: Unrolled | None = None  # the loop of a `break`, if it is unrolled
    skips: list[str] = field(default_factory=list)  # hidden names that are true where code is over
    opened: list[OpenBranch] = field(default_factory=list)
    callee: LambdaOperand | None = None  # the nested function, if it is one
    unsafe_reason: str | None = None  # of the enclosing unsafe block

    @property
    def node(self) -> ast.FunctionDef:
        """The function itself."""
        nested = None if self.callee is None else self.callee.node
        return nested if isinstance(nested, ast.FunctionDef) else self.source.node

    @property
    def is_inlined(self) -> bool:
        """Whether it is a helper: its `return` continues after the call."""
        return bool(self.calls)

    def is_over(self) -> bool:
        """Whether a hidden name shows that no path continues here."""
        found = (self.scope.get(name) for name in self.skips)
        return any(isinstance(operand, Static) and operand.value for operand in found)

"""A function that is being lowered: what its names are, and where control can go from here."""

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

# What the names of a function are at one place.
Scope = dict[str, Operand]

# A hidden name of a helper's scope: whether it has returned.
RETURNED = "returned?"

# A hidden name of a helper's scope: what it has returned, where it has.
RESULT = "result?"


class Departure(Enum):
    """How control left the statements that are being lowered."""

    JUMPED = auto()  # the IR's block ends in a jump
    SKIPPING = auto()  # the block goes on, but what follows in the source is not for it


@dataclass(frozen=True, eq=False)
class LoopExit:
    """An end of a turn of a loop, whose jump is added when the loop knows what it carries."""

    jump: type[Break | Continue]
    node: ast.AST
    block: Block
    scope: Scope | None  # None: it is never reached, and hands on what came in
    returns: bool = False  # it is a `return` of a helper, which goes on behind the loop


@dataclass(eq=False)
class Learned:
    """What is known about a loop only when its body has been lowered once."""

    dtypes: dict[tuple[str, int], type[DType]] = field(default_factory=dict)  # by name and leaf
    results: list[Operand] = field(default_factory=list)  # that a helper returns from inside
    result: Operand | None = None  # something of their type, to start with
    dropped: set[str] = field(default_factory=set)  # functions that a turn replaces by others


@dataclass(frozen=True)
class Unrolled:
    """A loop that is no loop of the IR: hidden names say that its turn, or all of it, is over."""

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
        """Whether no path through it goes on behind it in its function."""
        returned = self.scope.get(RETURNED)
        return (
            self.left is Departure.SKIPPING
            and isinstance(returned, Static)
            and bool(returned.value)
        )


@dataclass(frozen=True, eq=False)
class OpenBranch:
    """A branch that one arm has left, where lowering goes on inside the other."""

    node: ast.AST
    condition: TileOperand
    left: Arm
    is_then: bool  # whether the arm that left is the one for a true condition
    outer: Block
    before: Scope


@dataclass(eq=False)
class Frame:
    """One function whose body is being lowered: the kernel, or a helper inlined into it."""

    source: SourceFunction
    scope: Scope
    calls: tuple[Span, ...] = ()
    left: Departure | None = None
    exits: list[LoopExit] | None = None  # of the innermost loop of the IR, if there is one
    unrolled: Unrolled | None = None  # the loop that `break` means, if it is no loop of the IR
    skips: list[str] = field(default_factory=list)  # hidden names that are true where code is over
    opened: list[OpenBranch] = field(default_factory=list)
    callee: LambdaOperand | None = None  # a function inside the source function, if it is that
    unsafe_reason: str | None = None  # of the unsafe block around the current statement

    @property
    def node(self) -> ast.FunctionDef:
        """The function itself."""
        nested = None if self.callee is None else self.callee.node
        return nested if isinstance(nested, ast.FunctionDef) else self.source.node

    @property
    def is_inlined(self) -> bool:
        """Whether it is a helper: its `return` goes on behind the call."""
        return bool(self.calls)

    def is_over(self) -> bool:
        """Whether a hidden name says that no path goes on here."""
        found = (self.scope.get(name) for name in self.skips)
        return any(isinstance(operand, Static) and operand.value for operand in found)

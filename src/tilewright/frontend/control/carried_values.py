"""A loop-carried name: its initial value, its block arguments, its value after an iteration.

Leaves of an aggregate that are tiles or numbers are carried; constants beside them (None, a dtype,
a function) are loop-invariant; with any other leaf (a partition, a minted index) the name cannot be
carried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from tilewright.check.errors.types import CarriedTypeChange
from tilewright.diagnostics import Rejected
from tilewright.frontend.control.frames import RESULT, Learned
from tilewright.frontend.control.merging import is_same_constant, refuse_results
from tilewright.frontend.lowering import Derived, Lowering
from tilewright.frontend.operands.aggregates import Aggregate, are_alike, leaves, refilled
from tilewright.frontend.operands.operands import (
    BuiltinOperand,
    DTypeOperand,
    FunctionOperand,
    LambdaOperand,
    Operand,
    Poison,
    PythonFunction,
    Static,
    TileOperand,
    Unset,
)
from tilewright.frontend.operands.tiles import as_tile, default_dtype, gives_way, is_static_number
from tilewright.ir.op import Value
from tilewright.ir.ops.shape import Constant

__all__ = ["Carried", "LoopNode", "carried", "learn_of_exit", "not_handed_on", "zero_like"]

# The AST nodes of loops.
LoopNode = ast.For | ast.While

_CONSTANTS = (BuiltinOperand, DTypeOperand, FunctionOperand, PythonFunction, Static)


def learn_of_exit(learned: Learned, item: Carried, after: Operand | None) -> bool:
    """Record dtypes that literals met on the way to an end of the body; whether any did."""
    if after is None or isinstance(after, (Unset, Poison)):
        return False
    replaced = item.name != RESULT and _has_functions(item.initial)
    if replaced and not are_alike(item.initial, after):
        learned.dropped.add(item.name)
        return True
    found = False
    pairs = zip(leaves(item.initial), leaves(after), strict=False)
    for place, ((_, before), (_, leaf)) in enumerate(pairs):
        is_news = (
            isinstance(before, TileOperand) and before.weak
            and isinstance(leaf, TileOperand) and not leaf.weak
        )  # fmt: skip
        if is_news and (item.name, place) not in learned.dtypes:
            assert isinstance(leaf, TileOperand)
            learned.dtypes[item.name, place] = leaf.dtype
            found = True
    return found


@dataclass(frozen=True, eq=False)
class Carried:
    """A name that a loop carries from one iteration to the next."""

    name: str
    initial: Operand

    @property
    def tiles(self) -> tuple[TileOperand, ...]:
        """Its initial value, leaf by leaf."""
        return tuple(tile for _, tile in leaves(self.initial) if isinstance(tile, TileOperand))

    def held_by(self, values: Iterator[Value]) -> Operand:
        """The operand of the name for given SSA values."""

        def hold(leaf: Operand) -> Operand:
            if not isinstance(leaf, TileOperand):
                return leaf
            value = next(values)
            value.dtype, value.hint = leaf.dtype, self.name
            return TileOperand(value, leaf.dtype, leaf.weak)

        return refilled(self.initial, iter([hold(leaf) for _, leaf in leaves(self.initial)]))

    def handed_on(
        self, lo: Lowering, loop: LoopNode, after: Operand | None
    ) -> tuple[TileOperand, ...]:
        """The name at the end of an iteration, as tiles of its initial types."""
        if isinstance(after, Poison):
            raise Derived
        if after is None or isinstance(after, Unset):
            got = "nothing" if after is None else after.reason
            self._refuse(lo, loop, "", str(self.initial), got)
        if not are_alike(self.initial, after):
            self._refuse(lo, loop, "", str(self.initial), str(after))
        found = []
        for (path, start), (_, end) in zip(leaves(self.initial), leaves(after), strict=True):
            tile = _fitted_tile(lo, loop, start, end) if isinstance(start, TileOperand) else None
            if tile is not None:
                found.append(tile)
            elif isinstance(start, TileOperand) or not is_same_constant(start, end):
                self._refuse(lo, loop, path, str(start), str(end))
        return tuple(found)

    def _refuse(self, lo: Lowering, loop: LoopNode, path: str, was: str, got: str) -> NoReturn:
        if self.name == RESULT:
            refuse_results(lo, loop, was, got)
        where = _last_assignment(loop, self.name)
        head = lo.span(loop.iter if isinstance(loop, ast.For) else loop.test)
        lo.reject(CarriedTypeChange, where, f"{self.name}{path}", was, got, head)


def _fitted_tile(
    lo: Lowering, loop: LoopNode, start: TileOperand, end: Operand
) -> TileOperand | None:
    try:
        tile = as_tile(lo, loop, end, start.dtype)
    except Rejected:
        return None
    return tile if tile.type == start.type and tile.dtype is start.dtype else None


def _last_assignment(loop: LoopNode, name: str) -> ast.AST:
    """The last assignment to a name in the body of a loop."""
    found: ast.AST = loop.target if isinstance(loop, ast.For) else loop.test
    for inner in (inner for statement in loop.body for inner in ast.walk(statement)):
        if isinstance(inner, ast.Name) and inner.id == name and isinstance(inner.ctx, ast.Store):
            found = inner
    return found


def carried(
    lo: Lowering, loop: LoopNode, name: str, operand: Operand, learned: Learned
) -> Carried | None:
    """A name as a loop carries it, or None if it cannot be carried."""
    if isinstance(operand, (Poison, Unset)) or _stuck(operand) is not None:
        return None
    if name in learned.dropped:
        return None
    started: list[Operand] = []
    for place, (_, leaf) in enumerate(leaves(operand)):
        dtype = learned.dtypes.get((name, place))
        if isinstance(leaf, TileOperand):
            started.append(leaf if dtype is None else gives_way(lo, loop, leaf, dtype))
        elif isinstance(leaf, Static) and is_static_number(leaf):
            made = as_tile(lo, loop, leaf, dtype or default_dtype(leaf.value))
            started.append(TileOperand(made.value, made.dtype, weak=dtype is None))
        else:
            started.append(leaf)
    return Carried(name, refilled(operand, iter(started)))


def _has_functions(operand: Operand) -> bool:
    """Whether an operand is, or holds, a nested function."""
    if isinstance(operand, Aggregate):
        return any(map(_has_functions, operand.items))
    return isinstance(operand, LambdaOperand)


def _stuck(operand: Operand) -> tuple[str, Operand] | None:
    """The leaf that cannot be carried, and its path."""
    for path, leaf in leaves(operand):
        is_number = isinstance(leaf, TileOperand) or is_static_number(leaf)
        if not is_number and not (path and isinstance(leaf, _CONSTANTS)):
            return path, leaf
    return None


def not_handed_on(before: Operand) -> Operand:
    """The operand, in a loop, of an assigned name that the loop cannot carry."""
    if isinstance(before, (Poison, Unset)):
        return before
    stuck = _stuck(before)
    part = "" if stuck is None or not stuck[0] else f" whose `{stuck[0]}` was {stuck[1]}"
    reason = f"a loop sets it, and before it was {before}{part}, which a loop cannot hand on"
    way_out = "start with a tile or a number, or use another name inside the loop"
    return Unset(reason, way_out)


def zero_like(lo: Lowering, operands: Iterable[Operand]) -> Operand:
    """An initial value of the type that all these operands can have."""
    first, *others = operands
    columns = zip(*(list(leaves(operand)) for operand in (first, *others)), strict=False)
    return refilled(first, iter([_zero(lo, [leaf for _, leaf in column]) for column in columns]))


def _zero(lo: Lowering, candidates: list[Operand]) -> Operand:
    tiles = [leaf for leaf in candidates if isinstance(leaf, TileOperand)]
    if tiles:
        best = next((tile for tile in tiles if not tile.weak), tiles[0])
        op = lo.builder.add(Constant(value=0, to=best.type, dtype=best.dtype))
        return TileOperand(op.result, best.dtype, best.weak)
    numbers = [leaf.value for leaf in candidates if isinstance(leaf, Static)]
    is_float = any(isinstance(number, float) for number in numbers)
    is_number = all(is_static_number(leaf) for leaf in candidates)
    if is_number and len({repr(number) for number in numbers}) > 1:
        return Static(0.0 if is_float else type(numbers[0])(0))
    return candidates[0]

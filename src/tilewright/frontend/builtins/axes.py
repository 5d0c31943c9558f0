"""Axis arguments: one, several, all; negative ones count from the end."""

from __future__ import annotations

from math import prod

from tilewright.check.errors.types import NoSuchAxis, NotStatic, WrongOperand
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, Static, TileOperand, TupleOperand
from tilewright.frontend.operands.tiles import reshaped, static_int

__all__ = ["axes_argument", "axis_argument", "flag_argument", "flattened", "kept"]


def axis_argument(lo: Lowering, call: Arguments, tile: TileOperand) -> int | None:
    """The axis argument, or None for the elements in row-major order."""
    operand = call.operand("axis")
    if isinstance(operand, Static) and operand.value is None:
        return None
    if isinstance(operand, TupleOperand):
        lo.reject(WrongOperand, call.where("axis"), "an axis", "one is needed, or none")
    return _axis(lo, call, tile, operand)


def axes_argument(lo: Lowering, call: Arguments, tile: TileOperand) -> tuple[int, ...]:
    """The axes argument, the last first, so that the others keep their numbers."""
    operand = call.operand("axis")
    if isinstance(operand, Static) and operand.value is None:
        return tuple(reversed(range(len(tile.shape))))
    if not isinstance(operand, TupleOperand):
        return (_axis(lo, call, tile, operand),)
    axes = [_axis(lo, call, tile, item) for item in operand.items]
    if len(set(axes)) != len(axes):
        lo.reject(WrongOperand, call.where("axis"), f"axes {tuple(axes)}", "one of them twice")
    return tuple(sorted(axes, reverse=True))


def _axis(lo: Lowering, call: Arguments, tile: TileOperand, operand: Operand) -> int:
    rank = len(tile.shape)
    axis = static_int(lo, call.where("axis"), operand, "an axis")
    if not -rank <= axis < rank:
        lo.reject(NoSuchAxis, call.where("axis"), str(tile), axis, rank)
    return axis % rank


def flag_argument(lo: Lowering, call: Arguments, name: str) -> bool:
    """A compile-time truth value."""
    operand = call.operand(name)
    if not isinstance(operand, Static) or not isinstance(operand.value, bool):
        lo.reject(NotStatic, call.where(name), name, str(operand))
    return operand.value


def flattened(lo: Lowering, tile: TileOperand) -> TileOperand:
    """All elements along one axis."""
    return reshaped(lo, tile, (prod(tile.shape),))


def kept(
    lo: Lowering, result: TileOperand, shape: tuple[int, ...], axes: tuple[int, ...]
) -> TileOperand:
    """A result with the reduced axes, each of extent one."""
    return reshaped(lo, result, tuple(1 if a in axes else n for a, n in enumerate(shape)))

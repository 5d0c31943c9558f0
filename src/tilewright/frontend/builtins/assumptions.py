"""Promises of the author: conditions, bounds and divisibility that the compiler may rely on."""

from __future__ import annotations

from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import DType, bool_
from tilewright.frontend.builtins.launch import open_condition
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.memory.unsafe import require_unsafe
from tilewright.frontend.operands.operands import Operand, PointerOperand, Static, TileOperand
from tilewright.frontend.operands.tiles import as_tile, is_power_of_two, static_int
from tilewright.ir.attributes import Bounded, DivBy, Promise
from tilewright.ir.op import Value
from tilewright.ir.ops.control import Assume
from tilewright.ir.ops.internal import Assumption

__all__ = ["lower_assume", "lower_assume_bounds", "lower_assume_divisible"]

_WHY = "the compiler believes it, and where it is false anything may happen"
_LARGEST_DIVISOR = 1 << 62


def lower_assume(lo: Lowering, call: Arguments) -> Operand:
    """`tw.assume(condition)`."""
    instead = "`tw.require(…)` is checked by every launch, `if` by the kernel"
    require_unsafe(lo, call.node, "`tw.assume`", _WHY, instead)
    condition = open_condition(lo, call, "`tw.assume`")
    if condition is not None:
        lo.builder.add(Assumption(condition=condition.value))
    return Static(None)


def lower_assume_bounds(lo: Lowering, call: Arguments) -> Operand:
    """`tw.assume_bounds(x, lower, upper)`."""
    instead = "`tw.clamp(x, lower, upper)` makes it so"
    require_unsafe(lo, call.node, "`tw.assume_bounds`", _WHY, instead)
    tile = _integers(lo, call, "tw.assume_bounds")
    lower, upper = (_bound(lo, call, name, tile.dtype) for name in ("lower", "upper"))
    if lower is not None and upper is not None and lower > upper:
        reason = f"no number lies between {lower} and {upper}"
        lo.reject(BadCall, call.node, "tw.assume_bounds", reason)
    if lower is None and upper is None:
        return tile
    return TileOperand(_promised(lo, tile.value, Bounded(lower, upper)), tile.dtype)


def _bound(lo: Lowering, call: Arguments, name: str, dtype: type[DType]) -> int | None:
    operand = call.operand(name)
    if isinstance(operand, Static) and operand.value is None:
        return None
    bound = static_int(lo, call.where(name), operand, "a bound of tw.assume_bounds")
    largest = (1 << dtype.element.bits - 1) - 1  # bounds are signed for every dtype
    smallest = -largest - 1 if dtype.signed else 0
    if not smallest <= bound <= largest:
        reason = f"a bound of {dtype.label} is between {smallest} and {largest}"
        lo.reject(BadCall, call.where(name), "tw.assume_bounds", reason)
    return bound


def lower_assume_divisible(lo: Lowering, call: Arguments) -> Operand:
    """`tw.assume_divisible(x, divisor)`."""
    instead = "`tw.require(x % 16 == 0)` is checked by every launch"
    require_unsafe(lo, call.node, "`tw.assume_divisible`", _WHY, instead)
    operand = call.operand("x")
    divisor = static_int(lo, call.where("divisor"), call.operand("divisor"), "the divisor")
    if not is_power_of_two(divisor) or divisor > _LARGEST_DIVISOR:
        reason = f"the divisor is a power of two up to 2^62; this is {divisor}"
        lo.reject(BadCall, call.where("divisor"), "tw.assume_divisible", reason)
    promise = DivBy(divisor)
    if isinstance(operand, PointerOperand):
        return PointerOperand(_promised(lo, operand.value, promise), operand.dtype)
    tile = _integers(lo, call, "tw.assume_divisible")
    return TileOperand(_promised(lo, tile.value, promise), tile.dtype)


def _integers(lo: Lowering, call: Arguments, callee: str) -> TileOperand:
    tile = as_tile(lo, call.where("x"), call.operand("x"))
    if not tile.dtype.element.is_integer or tile.dtype is bool_:
        reason = f"it is about integers; this is {tile}"
        lo.reject(WrongOperand, call.where("x"), f"`{callee}`", reason)
    return tile


def _promised(lo: Lowering, value: Value, promise: Promise) -> Value:
    result = lo.builder.add(Assume(value=value, predicate=promise)).result
    result.dtype, result.hint = value.dtype, value.hint
    return result

"""Constant folding of Python's own functions and methods of numbers and strings.

The list has only functions that take bounded time for any constant of a kernel. For values of the
kernel there is a function of the language instead.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any, NoReturn

from tilewright.check.errors.syntax import BadCall
from tilewright.check.errors.types import WrongOperand
from tilewright.frontend.calling.arguments import spread
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Method, Operand, Static, TupleOperand
from tilewright.lang import functions

__all__ = ["MATHEMATICS", "computed_now", "method_of_constant", "refuse_values"]

# Functions of `math` on constants.
MATHEMATICS: tuple[Callable[..., Any], ...] = (
    math.acos, math.asin, math.atan, math.atan2, math.cbrt, math.ceil, math.copysign, math.cos,
    math.cosh, math.erf, math.exp, math.exp2, math.expm1, math.fabs, math.floor, math.fmod,
    math.gcd, math.hypot, math.isfinite, math.isinf, math.isnan, math.isqrt, math.lcm, math.log,
    math.log10, math.log1p, math.log2, math.pow, math.sin, math.sinh, math.sqrt, math.tan,
    math.tanh, math.trunc,
)  # fmt: skip
_METHODS: dict[type, tuple[str, ...]] = {
    int: ("bit_count", "bit_length"),
    float: ("is_integer",),
    str: ("endswith", "lower", "startswith", "upper"),
}


def computed_now(
    lo: Lowering, node: ast.Call, function: Callable[..., Any], operands: list[Operand]
) -> Operand:
    """The result of a Python function on constants; a pair, as of `divmod`, is a tuple."""
    values = [operand.value for operand in operands if isinstance(operand, Static)]
    try:
        result = function(*values)
    except (TypeError, ValueError, ArithmeticError) as error:
        lo.reject(BadCall, node, f"{function.__name__}", str(error))
    if isinstance(result, tuple):
        return TupleOperand(tuple(Static(item) for item in result))
    return Static(result)


def refuse_values(
    lo: Lowering, node: ast.Call, function: Callable[..., Any], operands: list[Operand]
) -> NoReturn:
    """Refuse a constant function on values of the kernel, and name the alternative."""
    name = function.__name__
    shown = f"math.{name}" if function in MATHEMATICS else name
    given = next(operand for operand in operands if not isinstance(operand, Static))
    known = {"fabs": "abs"}.get(name, name)
    way_out = f"on tiles and scalars use `tw.{known}`" if known in functions.__all__ else ""
    reason = f"it computes constants, known when the kernel is compiled; this is {given}"
    lo.reject(WrongOperand, node, f"`{shown}`", reason, way_out)


def method_of_constant(owner: Operand, name: str) -> Method | None:
    """`n.bit_length()` and the like, if a constant has such a method."""
    if not isinstance(owner, Static):
        return None
    kind = next((kind for kind in _METHODS if isinstance(owner.value, kind)), None)
    if kind is None or name not in _METHODS[kind]:
        return None

    def lower(lo: Lowering, node: ast.Call) -> Operand:
        operands = [operand for _, operand in spread(lo, node.args)]
        if node.keywords or not all(isinstance(operand, Static) for operand in operands):
            lo.reject(BadCall, node, f".{name}", "it takes constants, by position")
        return computed_now(lo, node, getattr(kind, name), [owner, *operands])

    return Method(name, owner, lower)

"""Keyword modifiers: `rounding=`, `ftz=` and `nan=`, for ops that have them.

The IR has the rules which op takes which modifier on which dtype; here a wrong combination becomes
a message in terms of the language.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from tilewright.check.errors.types import NotStatic, WrongOperand
from tilewright.dtypes import DType
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Static
from tilewright.ir.attributes import Rounding
from tilewright.ir.op import Op
from tilewright.ir.verify.verifier import rule_problems

__all__ = ["ROUNDINGS", "are_usual", "modified", "rounding_argument"]

# The name of each rounding mode.
ROUNDINGS: dict[str, Rounding] = {
    "nearest": Rounding.NEAREST_EVEN,
    "zero": Rounding.ZERO,
    "down": Rounding.NEGATIVE_INF,
    "up": Rounding.POSITIVE_INF,
    "approx": Rounding.APPROX,
    "full": Rounding.FULL,
}
_FLAGS = {"ftz": "flush_to_zero", "nan": "propagate_nan"}
_Op = TypeVar("_Op", bound=Op)


def modified(lo: Lowering, call: Arguments, op: type[_Op], **fields: Any) -> _Op:
    """An op with the modifiers of the call, added to the kernel."""
    chosen = _modifiers(lo, call)
    made = op(**fields, **chosen)
    if any(rule_problems(made)):
        _refuse(lo, call, op, fields, chosen)
    return lo.builder.add(made)


def are_usual(call: Arguments) -> bool:
    """Whether a call has no modifiers."""
    return not any(call.given(name) for name in ("rounding", *_FLAGS))


def rounding_argument(lo: Lowering, call: Arguments) -> Rounding:
    """The rounding mode of a call."""
    operand = call.operand("rounding")
    word = operand.value if isinstance(operand, Static) else None
    if not isinstance(word, str) or word not in ROUNDINGS:
        options = ", ".join(f'"{word}"' for word in ROUNDINGS)
        lo.reject(
            WrongOperand, call.where("rounding"), "rounding", f"it is one of {options}"
        )  # fmt: skip
    return ROUNDINGS[word]


def _modifiers(lo: Lowering, call: Arguments) -> dict[str, Any]:
    """The fields of an op that the modifiers of a call set."""
    chosen: dict[str, Any] = {}
    if "rounding" in call.signature.parameters:
        chosen["rounding_mode"] = rounding_argument(lo, call)
    for name in _FLAGS.keys() & call.signature.parameters.keys():
        operand = call.operand(name)
        if not isinstance(operand, Static) or not isinstance(operand.value, bool):
            lo.reject(NotStatic, call.where(name), name, str(operand))
        chosen[_FLAGS[name]] = operand.value
    return chosen


def _refuse(
    lo: Lowering, call: Arguments, op: type[Op], fields: dict[str, Any], chosen: dict[str, Any]
) -> NoReturn:
    """Refuse the modifier that does not go with the dtype, and name those that do."""
    dtype: type[DType] = fields["dtype"]
    if chosen.get("flush_to_zero"):
        reason = f"subnormal numbers are flushed to zero in f32 only; this is {dtype.label}"
        lo.reject(WrongOperand, call.where("ftz"), "ftz=True", reason, "leave it out")
    fitting = [
        f'"{word}"'
        for word, mode in ROUNDINGS.items()
        if not any(rule_problems(op(**fields, **{**chosen, "rounding_mode": mode})))
    ]
    word = call.operand("rounding")
    reason = f"on {dtype.label} there are {', '.join(fitting)}"
    lo.reject(WrongOperand, call.where("rounding"), f"rounding={word}", reason)

"""Dtypes with arithmetic; the others only store and multiply, and are refused elsewhere."""

from __future__ import annotations

import ast

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import DType, Element
from tilewright.frontend.lowering import Lowering
from tilewright.ir.verify.rules import BASE_FLOATS, INTEGERS

__all__ = ["can_compute", "check_computes"]

_PURPOSES = {
    Element.I4: "held in tiles, packed and unpacked",
    Element.TF32: "an operand of mma",
    Element.F8E4M3FN: "stored, and an operand of mma",
    Element.F8E5M2: "stored, and an operand of mma",
    Element.F8E8M0FNU: "stored, and a scale of mma_scaled",
    Element.F4E2M1FN: "held in tiles, packed and unpacked, and an operand of mma_scaled",
}


def can_compute(dtype: type[DType]) -> bool:
    """Whether a dtype has arithmetic."""
    return dtype.element in INTEGERS | BASE_FLOATS


def check_computes(lo: Lowering, node: ast.AST, what: str, dtype: type[DType]) -> None:
    """Refuse a dtype without arithmetic."""
    if not can_compute(dtype):
        wide = "i8" if dtype.element.is_integer else "f32"
        lo.reject(
            WrongOperand, node, f"{what} on {dtype.label}",
            f"there is no arithmetic on it; it is {_PURPOSES[dtype.element]}",
            f"convert it to compute: `.astype({wide})`",
        )  # fmt: skip

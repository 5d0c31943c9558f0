"""`tw.mma_scaled`: matrix products of narrow floats with separate scales.

A negative scale of f8e4m3fn is undefined in Tile IR, so its sign is removed before: scales count by
their magnitude.
"""

from __future__ import annotations

import ast

from tilewright.check.errors.types import ScaledDTypes, WrongOperand
from tilewright.dtypes import Element, f8e4m3fn, f32, u8
from tilewright.frontend.builtins.bits import bits_as
from tilewright.frontend.builtins.matrix import check_shapes
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, TileOperand
from tilewright.frontend.operands.tiles import as_tile, constant
from tilewright.ir.ops.elementwise import AndI
from tilewright.ir.ops.reduction import MmaFScaled
from tilewright.ir.verify.matrices import SCALE_GROUPS

__all__ = ["lower_mma_scaled"]

_NOT_THE_SIGN = 0x7F


def lower_mma_scaled(lo: Lowering, call: Arguments) -> Operand:
    """`tw.mma_scaled(a, b, acc, a_scale, b_scale)`."""
    names = ("a", "b", "acc", "a_scale", "b_scale")
    a, b, acc, a_scale, b_scale = (
        as_tile(lo, call.where(name), call.operand(name)) for name in names
    )
    groups = _groups(lo, call.node, (a, b, acc), (a_scale, b_scale))
    check_shapes(lo, call.node, a, b, acc.shape)
    _check_scales(lo, call, (a, b), (a_scale, b_scale), groups)
    op = MmaFScaled(
        lhs=a.value, rhs=b.value, acc=acc.value, lhs_scale=_magnitude(lo, call.node, a_scale).value,
        rhs_scale=_magnitude(lo, call.node, b_scale).value, dtype=f32,
    )  # fmt: skip
    return TileOperand(lo.builder.add(op).result, f32)


def _groups(
    lo: Lowering,
    node: ast.AST,
    product: tuple[TileOperand, TileOperand, TileOperand],
    scales: tuple[TileOperand, TileOperand],
) -> tuple[int, ...]:
    """The number of elements that may share a scale of these dtypes."""
    a, b, acc = product
    left, right = scales
    found = SCALE_GROUPS.get((a.dtype.element, left.dtype.element), ())
    if b.dtype is not a.dtype or right.dtype is not left.dtype or acc.dtype is not f32 or not found:
        labels = tuple(tile.dtype.label for tile in (a, b, acc, left, right))
        lo.reject(ScaledDTypes, node, labels, _described())
    return found


def _described() -> str:
    rows = (
        f"{element.spelling.lower()} with {scale.spelling.lower()}"
        for element, scale in SCALE_GROUPS
        if Element.FNV8E5M3FNU not in (element, scale)
    )
    return ", ".join(rows)


def _check_scales(
    lo: Lowering,
    call: Arguments,
    factors: tuple[TileOperand, TileOperand],
    scales: tuple[TileOperand, TileOperand],
    groups: tuple[int, ...],
) -> None:
    """Check that there is one scale for each group along the summed axis."""
    (a, b), (left, right) = factors, scales
    extent = a.shape[-1]
    shapes = [
        ((*a.shape[:-1], extent // group), (*b.shape[:-2], extent // group, b.shape[-1]))
        for group in groups
    ]
    if extent < groups[-1]:
        reason = f"{groups[-1]} elements share a scale, and the matrices are only {extent} long"
        lo.reject(WrongOperand, call.node, "tw.mma_scaled", reason)
    if (left.shape, right.shape) not in shapes:
        wanted = " or ".join(f"{rows} and {columns}" for rows, columns in shapes)
        reason = f"scales of shapes {left.shape} and {right.shape} do not fit"
        way_out = f"{groups[-1]} elements share a scale: {wanted}"
        lo.reject(WrongOperand, call.node, "tw.mma_scaled", reason, way_out)


def _magnitude(lo: Lowering, node: ast.AST, scale: TileOperand) -> TileOperand:
    if scale.dtype is not f8e4m3fn:
        return scale
    mask = constant(lo, node, _NOT_THE_SIGN, u8, scale.shape).value
    bits = bits_as(lo, scale, u8).value
    unsigned = lo.builder.add(AndI(lhs=bits, rhs=mask, dtype=u8)).result
    return bits_as(lo, TileOperand(unsigned, u8), f8e4m3fn)

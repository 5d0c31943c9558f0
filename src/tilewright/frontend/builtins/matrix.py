"""Matrix products."""

from __future__ import annotations

import ast

from tilewright.check.errors.types import MmaDTypes, MmaShapes, WrongOperand
from tilewright.dtypes import DType, Element, f8e4m3fn, f8e5m2, f32, f64, i32
from tilewright.frontend.builtins.axes import flag_argument
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, TileOperand
from tilewright.frontend.operands.tiles import as_tile, check_tile_shape, constant, signedness
from tilewright.ir.ops.reduction import MmaF, MmaI

__all__ = ["check_shapes", "lower_mma", "matrix_product"]

_ACCUMULATORS: dict[Element, tuple[Element, ...]] = {
    Element.F16: (Element.F32, Element.F16),
    Element.BF16: (Element.F32,),
    Element.TF32: (Element.F32,),
    Element.F32: (Element.F32,),
    Element.F64: (Element.F64,),
    Element.F8E4M3FN: (Element.F32, Element.F16),
    Element.F8E5M2: (Element.F32, Element.F16),
    Element.I8: (Element.I32,),
}


def lower_mma(lo: Lowering, call: Arguments) -> Operand:
    """`tw.mma(a, b, acc)`."""
    a, b, acc = (as_tile(lo, call.where(name), call.operand(name)) for name in ("a", "b", "acc"))
    fast = flag_argument(lo, call, "fast_acc")
    if fast and a.dtype not in (f8e4m3fn, f8e5m2):
        lo.reject(
            WrongOperand, call.where("fast_acc"), "fast_acc=True",
            f"only sums of 8-bit floats have it; these are {a.dtype.label}", "leave it out",
        )  # fmt: skip
    return _multiplied(lo, call.node, (a, b), acc, fast=fast)


def matrix_product(lo: Lowering, node: ast.AST, left: Operand, right: Operand) -> Operand:
    """`a @ b`: into f32 zeros (f64 for f64, i32 for 8-bit integers)."""
    a, b = as_tile(lo, node, left), as_tile(lo, node, right)
    check_shapes(lo, node, a, b, None)
    dtype: type[DType] = f64 if a.dtype is f64 else i32 if a.dtype.element.is_integer else f32
    shape = (*a.shape[:-1], b.shape[-1])
    check_tile_shape(lo, node, shape, "the product", "", dtype)
    acc = constant(lo, node, 0, dtype, shape)
    return _multiplied(lo, node, (a, b), acc, fast=False)


def check_shapes(
    lo: Lowering, node: ast.AST, a: TileOperand, b: TileOperand, acc: tuple[int, ...] | None
) -> None:
    """Refuse matrices, or batches of them, whose shapes do not fit; `a @ b` has no accumulator."""
    ranks_fit = len(a.shape) == len(b.shape) and len(a.shape) in (2, 3)
    if not ranks_fit or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        lo.reject(MmaShapes, node, a.shape, b.shape, acc)
    if acc is not None and acc != (*a.shape[:-1], b.shape[-1]):
        lo.reject(MmaShapes, node, a.shape, b.shape, acc)


def _multiplied(
    lo: Lowering,
    node: ast.AST,
    factors: tuple[TileOperand, TileOperand],
    acc: TileOperand,
    *,
    fast: bool,
) -> Operand:
    a, b = factors
    check_shapes(lo, node, a, b, acc.shape)
    allowed = _ACCUMULATORS.get(a.dtype.element, ())
    if a.dtype.element is not b.dtype.element or acc.dtype.element not in allowed:
        lo.reject(MmaDTypes, node, a.dtype.label, b.dtype.label, acc.dtype.label, _described())
    if a.dtype.element.is_integer:
        integer = MmaI(
            lhs=a.value, rhs=b.value, acc=acc.value, signedness_lhs=signedness(a.dtype),
            signedness_rhs=signedness(b.dtype), dtype=acc.dtype,
        )  # fmt: skip
        return TileOperand(lo.builder.add(integer).result, acc.dtype)
    product = MmaF(lhs=a.value, rhs=b.value, acc=acc.value, fast_acc=fast, dtype=acc.dtype)
    return TileOperand(lo.builder.add(product).result, acc.dtype)


def _described() -> str:
    rows = (
        f"{element.spelling.lower()} into {' or '.join(acc.spelling for acc in accumulators)}"
        for element, accumulators in _ACCUMULATORS.items()
    )
    return ", ".join(rows)

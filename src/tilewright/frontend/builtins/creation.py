"""Creation of tiles."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import DType, i32
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, Static, TileOperand
from tilewright.frontend.operands.tiles import (
    as_scalar,
    broadcast_to,
    check_tile_shape,
    constant,
    convert,
    dtype_argument,
    shape_argument,
    static_int,
)
from tilewright.ir.ops.shape import Iota
from tilewright.ir.types import TileType

__all__ = ["filled", "lower_arange", "lower_full"]


def _shape_and_dtype(lo: Lowering, call: Arguments) -> tuple[tuple[int, ...], type[DType]]:
    dtype = dtype_argument(lo, call.where("dtype"), call.operand("dtype"))
    return shape_argument(lo, call.where("shape"), call.operand("shape"), dtype), dtype


def filled(value: int) -> Callable[[Lowering, Arguments], Operand]:
    """`tw.zeros` and `tw.ones`."""

    def lower(lo: Lowering, call: Arguments) -> Operand:
        shape, dtype = _shape_and_dtype(lo, call)
        return constant(lo, call.node, value, dtype, shape)

    return lower


def lower_full(lo: Lowering, call: Arguments) -> Operand:
    """`tw.full(shape, value, dtype)`; the value may be a scalar of the kernel."""
    shape, dtype = _shape_and_dtype(lo, call)
    value = call.operand("value")
    if isinstance(value, Static) and isinstance(value.value, (bool, int, float)):
        return constant(lo, call.where("value"), value.value, dtype, shape)
    scalar = as_scalar(lo, call.where("value"), value, "the value of tw.full")
    if scalar.dtype is not dtype and not scalar.weak:
        lo.reject(
            WrongOperand, call.where("value"), "tw.full",
            f"the value is {scalar.dtype.label}, not {dtype.label}",
            f"convert it: `.astype({dtype.label})`",
        )  # fmt: skip
    return broadcast_to(lo, convert(lo, scalar, dtype), shape)


def lower_arange(lo: Lowering, call: Arguments) -> Operand:
    """`tw.arange(n, dtype)`: counted in i32, then converted."""
    length = static_int(lo, call.where("n"), call.operand("n"), "the length of tw.arange")
    check_tile_shape(lo, call.where("n"), (length,), "this tile", "round up and mask with tw.where")
    dtype = (
        dtype_argument(lo, call.where("dtype"), call.operand("dtype"))
        if call.given("dtype")
        else i32
    )
    counted = lo.builder.add(Iota(to=TileType(i32.element, (length,)), dtype=i32)).result
    return convert(lo, TileOperand(counted, i32), dtype)

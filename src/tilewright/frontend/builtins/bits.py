"""Reinterpretation of bits: `bitcast`, `pack`, `unpack`.

Packing is by bytes along the last axis. Two numbers of 4 bits are one byte, the first in the low
half; wider numbers are several bytes in little-endian order.
"""

from __future__ import annotations

import ast
from math import prod

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import DType, bool_, i8, tf32, u8
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, TileOperand
from tilewright.frontend.operands.tiles import as_tile, check_tile_shape, dtype_argument, reshaped
from tilewright.ir.ops.elementwise import Bitcast
from tilewright.ir.ops.internal import ReadAs
from tilewright.ir.ops.shape import Pack, Unpack
from tilewright.ir.types import TileType

__all__ = ["bits_as", "lower_bitcast", "lower_pack", "lower_unpack"]

_BYTE = 8


def lower_bitcast(lo: Lowering, call: Arguments) -> Operand:
    """`tw.bitcast(x, dtype)`."""
    tile = as_tile(lo, call.where("x"), call.operand("x"))
    dtype = dtype_argument(lo, call.where("dtype"), call.operand("dtype"))
    _check_whole(lo, call.where("x"), "tw.bitcast", tile.dtype)
    _check_whole(lo, call.where("dtype"), "tw.bitcast", dtype)
    bits, wanted = tile.dtype.element.bits, dtype.element.bits
    if bits != wanted:
        reason = f"{tile.dtype.label} has {bits} bits and {dtype.label} has {wanted}"
        way_out = "tw.pack and tw.unpack change the number of elements; `.astype` converts numbers"
        lo.reject(WrongOperand, call.node, "tw.bitcast", reason, way_out)
    return bits_as(lo, tile, dtype)


def bits_as(lo: Lowering, tile: TileOperand, dtype: type[DType]) -> TileOperand:
    """The bits of every element read as another dtype of that width."""
    if tile.dtype.element is dtype.element:
        return TileOperand(lo.builder.add(ReadAs(source=tile.value, dtype=dtype)).result, dtype)
    to = tile.type.with_element(dtype.element)
    op = Bitcast(source=tile.value, to=to, dtype=dtype)
    return TileOperand(lo.builder.add(op).result, dtype)


def lower_pack(lo: Lowering, call: Arguments) -> Operand:
    """`tw.pack(x)`: bytes."""
    tile = as_tile(lo, call.where("x"), call.operand("x"))
    _check_packable(lo, call.where("x"), "tw.pack", tile.dtype)
    if tile.dtype.element.bits == _BYTE:
        return bits_as(lo, tile, u8)
    shape = _rescaled(lo, call.node, "tw.pack", tile.shape, (tile.dtype.element.bits, _BYTE))
    line = reshaped(lo, tile, (prod(tile.shape),))
    to = TileType(u8.element, (prod(shape),))
    packed = lo.builder.add(Pack(source=line.value, to=to, dtype=u8)).result
    return reshaped(lo, TileOperand(packed, u8), shape)


def lower_unpack(lo: Lowering, call: Arguments) -> Operand:
    """`tw.unpack(x, dtype)`: the inverse of `tw.pack`."""
    tile = as_tile(lo, call.where("x"), call.operand("x"))
    dtype = dtype_argument(lo, call.where("dtype"), call.operand("dtype"))
    _check_packable(lo, call.where("dtype"), "tw.unpack", dtype)
    if tile.dtype not in (u8, i8):
        reason = f"it takes bytes; this is {tile}"
        lo.reject(WrongOperand, call.where("x"), "tw.unpack", reason, "load it as u8")
    if dtype.element.bits == _BYTE:
        return bits_as(lo, tile, dtype)
    shape = _rescaled(lo, call.node, "tw.unpack", tile.shape, (_BYTE, dtype.element.bits))
    line = reshaped(lo, tile, (prod(tile.shape),))
    to = TileType(dtype.element, (prod(shape),))
    unpacked = lo.builder.add(Unpack(source=line.value, to=to, dtype=dtype)).result
    return reshaped(lo, TileOperand(unpacked, dtype), shape)


def _check_whole(lo: Lowering, node: ast.AST, name: str, dtype: type[DType]) -> None:
    """Refuse a dtype whose bits in a tile are not those in memory."""
    if dtype in (bool_, tf32) or dtype.element.bits < _BYTE:
        reason = f"{dtype.label} has no bits of its own in memory"
        lo.reject(WrongOperand, node, name, reason, "convert it: `.astype(…)`")


def _check_packable(lo: Lowering, node: ast.AST, name: str, dtype: type[DType]) -> None:
    if dtype in (bool_, tf32):
        reason = f"{dtype.label} does not fill bytes"
        lo.reject(WrongOperand, node, name, reason, "convert it: `.astype(…)`")


def _rescaled(
    lo: Lowering, node: ast.AST, name: str, shape: tuple[int, ...], bits: tuple[int, int]
) -> tuple[int, ...]:
    """The shape after the last axis is split into elements of another width."""
    before, after = bits
    if not shape or shape[-1] * before % after:
        extent = shape[-1] if shape else "no"
        reason = f"the last axis has {extent} elements of {before} bits, and needs a multiple of "
        lo.reject(WrongOperand, node, name, f"{reason}{after // before}")
    result = (*shape[:-1], shape[-1] * before // after)
    check_tile_shape(lo, node, result, "the result", "")
    return result

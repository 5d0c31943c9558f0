"""`tw.rand` and `tw.rand4x` in a kernel: the generator of `lang.philox` over tiles of u32."""

from __future__ import annotations

import ast
from functools import reduce
from math import prod

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import DType, bool_, f64, i32, u32, u64
from tilewright.frontend.calling.arguments import Arguments
from tilewright.frontend.expressions.conversions import convert
from tilewright.frontend.expressions.operators import apply_binary
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.operands import Operand, Static, TileOperand, TupleOperand
from tilewright.frontend.operands.tiles import (
    as_scalar,
    broadcast_together,
    constant,
    dtype_argument,
    reshaped,
    shape_argument,
    static_int,
)
from tilewright.ir.ops.elementwise import MulF, MulHiI, MulI
from tilewright.ir.ops.shape import Iota
from tilewright.ir.types import TileType
from tilewright.lang.philox import PRECISIONS, philox

__all__ = ["lower_rand", "lower_rand4x"]

_MASK = (1 << 64) - 1
_WORD = 32  # bits


class _Tiles:
    """Words as tiles, or scalars, of u32."""

    def __init__(self, lo: Lowering, node: ast.AST) -> None:
        self._lo = lo
        self._node = node

    def product(self, word: TileOperand, factor: int) -> tuple[TileOperand, TileOperand]:
        """The high and the low half of a product."""
        by = constant(self._lo, self._node, factor, u32, word.shape)
        add = self._lo.builder.add
        high = add(MulHiI(x=word.value, y=by.value, dtype=u32)).result
        low = add(MulI(lhs=word.value, rhs=by.value, dtype=u32)).result
        return TileOperand(high, u32), TileOperand(low, u32)

    def exclusive_or(self, *words: TileOperand) -> TileOperand:
        """The exclusive or of words."""
        return reduce(lambda a, b: self._computed(ast.BitXor(), a, b), words)

    def sum(self, word: TileOperand, step: int) -> TileOperand:
        """The sum of a word and a constant."""
        return self._computed(ast.Add(), word, Static(step))

    def _computed(self, sign: ast.operator, left: Operand, right: Operand) -> TileOperand:
        result = apply_binary(self._lo, self._node, sign, left, right)
        assert isinstance(result, TileOperand)
        return result


def lower_rand(lo: Lowering, call: Arguments) -> Operand:
    """`tw.rand(shape, dtype, seed=…, offset=…)`."""
    shape = shape_argument(lo, call.where("shape"), call.operand("shape"))
    dtype = _dtype(lo, call, "tw.rand", tuple(PRECISIONS))
    offset = _wide(lo, call, "offset")
    places = _sum(lo, call.node, offset, _counted(lo, prod(shape)))
    return reshaped(lo, _fraction(lo, call.node, _words(lo, call, places), dtype), shape)


def lower_rand4x(lo: Lowering, call: Arguments) -> Operand:
    """`tw.rand4x(places, dtype, seed=…)`."""
    where, operand = call.where("places"), call.operand("places")
    narrow = tuple(dtype for dtype, bits in PRECISIONS.items() if bits <= _WORD)
    dtype = _dtype(lo, call, "tw.rand4x", narrow)
    if not isinstance(operand, TileOperand) or not operand.dtype.element.is_integer:
        reason = f"places are a tile of integers; this is {operand}"
        lo.reject(WrongOperand, where, "tw.rand4x", reason)
    words = _words(lo, call, convert(lo, operand, u64))
    return TupleOperand(tuple(_fraction(lo, call.node, (word,), dtype) for word in words))


def _dtype(
    lo: Lowering, call: Arguments, callee: str, known: tuple[type[DType], ...]
) -> type[DType]:
    """The dtype of the random numbers, one of those allowed."""
    dtype = dtype_argument(lo, call.where("dtype"), call.operand("dtype"))
    if dtype not in known:
        names = ", ".join(dtype.label for dtype in known)
        reason = f"it makes {names}, not {dtype.label}"
        lo.reject(WrongOperand, call.where("dtype"), callee, reason)
    return dtype


def _words(lo: Lowering, call: Arguments, places: TileOperand) -> tuple[TileOperand, ...]:
    """Four random words for each offset in the sequence of the seed."""
    seed = _wide(lo, call, "seed")
    zero = constant(lo, call.node, 0, u32, places.shape)
    counter = (*_halves(lo, call.node, places), zero, zero)
    return philox(_Tiles(lo, call.node), counter, _halves(lo, call.node, seed))


def _wide(lo: Lowering, call: Arguments, name: str) -> TileOperand:
    """A seed or an offset: an integer, modulo 2**64."""
    operand, where = call.operand(name), call.where(name)
    if isinstance(operand, Static):
        return constant(lo, where, static_int(lo, where, operand, name) & _MASK, u64)
    scalar = as_scalar(lo, where, operand, f"the {name} of tw.rand")
    if scalar.dtype.element.is_float or scalar.dtype is bool_:
        reason = f"the {name} is an integer; this is {scalar}"
        lo.reject(WrongOperand, where, "tw.rand", reason)
    return convert(lo, scalar, u64)


def _counted(lo: Lowering, count: int) -> TileOperand:
    counted = lo.builder.add(Iota(to=TileType(i32.element, (count,)), dtype=i32)).result
    return convert(lo, TileOperand(counted, i32), u64)


def _sum(lo: Lowering, node: ast.AST, left: TileOperand, right: TileOperand) -> TileOperand:
    left, right = broadcast_together(lo, node, "tw.rand", left, right)
    result = apply_binary(lo, node, ast.Add(), left, right)
    assert isinstance(result, TileOperand)
    return result


def _halves(lo: Lowering, node: ast.AST, wide: TileOperand) -> tuple[TileOperand, TileOperand]:
    """The low and the high word of 64 bits."""
    high = apply_binary(lo, node, ast.RShift(), wide, Static(32))
    assert isinstance(high, TileOperand)
    return convert(lo, wide, u32), convert(lo, high, u32)


def _fraction(
    lo: Lowering, node: ast.AST, words: tuple[TileOperand, ...], dtype: type[DType]
) -> TileOperand:
    """A fraction in [0, 1) with as many bits as the dtype holds exactly."""
    bits = PRECISIONS[dtype]
    if dtype is f64:
        high, low = (convert(lo, word, u64) for word in words[:2])
        upper = apply_binary(lo, node, ast.LShift(), high, Static(bits - 32))
        lower = apply_binary(lo, node, ast.RShift(), low, Static(64 - bits))
        whole = apply_binary(lo, node, ast.BitOr(), upper, lower)
    else:
        whole = apply_binary(lo, node, ast.RShift(), words[0], Static(32 - bits))
    assert isinstance(whole, TileOperand)
    number = convert(lo, whole, dtype)
    scale = constant(lo, node, 2.0**-bits, dtype, number.shape)
    op = MulF(lhs=number.value, rhs=scale.value, dtype=dtype)
    return TileOperand(lo.builder.add(op).result, dtype)

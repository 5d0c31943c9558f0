"""Named reductions and scans."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.check.errors.types import WrongOperand
from tilewright.dtypes import DType, bf16, bool_, f16, f32, limits
from tilewright.frontend.builtins.axes import (
    axes_argument,
    axis_argument,
    flag_argument,
    flattened,
    kept,
)
from tilewright.frontend.builtins.folding import Combine, Fold, Scalars
from tilewright.frontend.builtins.maths import check_floats
from tilewright.frontend.calling.arguments import Arguments, Lowers
from tilewright.frontend.expressions.conversions import convert
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands.abilities import check_computes
from tilewright.frontend.operands.operands import Operand, TileOperand
from tilewright.frontend.operands.tiles import as_tile, constant, signedness
from tilewright.ir.op import Op
from tilewright.ir.ops.elementwise import (
    AddF,
    AddI,
    AndI,
    MaxF,
    MaxI,
    MinF,
    MinI,
    MulF,
    MulI,
    OrI,
)
from tilewright.ir.ops.internal import Averaged

__all__ = ["ALL", "ANY", "MAXIMUM", "MINIMUM", "PRODUCT", "SUM", "Reduction", "Truth",
           "lower_mean", "reduced_truth", "reduction", "scan", "truth"]  # fmt: skip


@dataclass(frozen=True)
class Reduction:
    """A combination of two numbers, and its identity."""

    name: str
    floats: type[Op]
    integers: type[Op]
    identity: Callable[[type[DType]], float]

    def fold(self, lo: Lowering, dtype: type[DType], **flags: bool) -> Fold:
        """The combination on a dtype."""
        if dtype.element.is_float:
            combine = _by(lo, self.floats, **flags)
        elif self.integers in (MaxI, MinI):
            combine = _by(lo, self.integers, signedness=signedness(dtype))
        else:
            combine = _by(lo, self.integers)
        return Fold(lo, combine, (self.identity(dtype),))


def _by(lo: Lowering, op: type[Op], **fields: Any) -> Combine:
    """A combination by one op."""

    def combine(before: Scalars, element: Scalars) -> list[TileOperand]:
        ((left,), (right,)) = before, element
        made = op(lhs=right.value, rhs=left.value, dtype=left.dtype, **fields)
        return [TileOperand(lo.builder.add(made).results[0], left.dtype)]

    return combine


def _lowest(dtype: type[DType]) -> float:
    return -math.inf if dtype.element.is_float else limits(dtype)[0]


def _highest(dtype: type[DType]) -> float:
    return math.inf if dtype.element.is_float else limits(dtype)[1]


# The sum of the elements.
SUM = Reduction("tw.sum", AddF, AddI, lambda _: 0)
# The product of the elements.
PRODUCT = Reduction("tw.prod", MulF, MulI, lambda _: 1)
# The greatest element; a NaN loses against a number unless `nan=True`.
MAXIMUM = Reduction("tw.max", MaxF, MaxI, _lowest)
# The least element, likewise.
MINIMUM = Reduction("tw.min", MinF, MinI, _highest)


def reduction(kind: Reduction) -> Lowers:
    """`tw.sum(x, axis=…, keepdims=…)` and the like."""

    def lower(lo: Lowering, call: Arguments) -> Operand:
        tile = _numbers(lo, call, kind.name)
        flags: dict[str, bool] = {}
        if "nan" in call.signature.parameters and flag_argument(lo, call, "nan"):
            check_floats(lo, call.node, f"{kind.name} with nan=", tile)
            flags["propagate_nan"] = True
        return _reduced(lo, call, tile, kind.fold(lo, tile.dtype, **flags))

    return lower


def lower_mean(lo: Lowering, call: Arguments) -> Operand:
    """`tw.mean(x, axis=…, keepdims=…)`: the sum over the number of elements, a power of two."""
    tile = as_tile(lo, call.where("x"), call.operand("x"))
    check_floats(lo, call.where("x"), "tw.mean", tile)
    held = convert(lo, tile, f32) if tile.dtype in (f16, bf16) else tile
    axes = axes_argument(lo, call, tile)
    counted = lo.builder.add(Averaged(source=held.value, dims=axes, dtype=held.dtype)).result
    total = _reduced(lo, call, TileOperand(counted, held.dtype), SUM.fold(lo, held.dtype))
    number = prod(tile.shape[axis] for axis in axes)
    share = constant(lo, call.node, 1 / number, held.dtype, total.shape)
    op = MulF(lhs=total.value, rhs=share.value, dtype=held.dtype)
    return convert(lo, TileOperand(lo.builder.add(op).result, held.dtype), tile.dtype)


def scan(name: str, kind: Reduction) -> Lowers:
    """`tw.cumsum(x, axis=…, reverse=…)` and the like; without an axis in row-major order."""

    def lower(lo: Lowering, call: Arguments) -> Operand:
        tile = _numbers(lo, call, name)
        axis = axis_argument(lo, call, tile)
        along = flattened(lo, tile) if axis is None else tile
        reverse = flag_argument(lo, call, "reverse")
        (result,) = kind.fold(lo, tile.dtype).scanned((along,), axis or 0, reverse=reverse)
        return result

    return lower


def _numbers(lo: Lowering, call: Arguments, name: str) -> TileOperand:
    """The operand of a reduction: numbers, not truth values."""
    tile = as_tile(lo, call.where("x"), call.operand("x"))
    check_computes(lo, call.where("x"), name, tile.dtype)
    if tile.dtype is bool_:
        lo.reject(
            WrongOperand,
            call.where("x"),
            name,
            "truth values are not numbers",
            "convert them: `.astype(i32)`; tw.any and tw.all take them as they are",
        )
    return tile


def _reduced(lo: Lowering, call: Arguments, tile: TileOperand, fold: Fold) -> TileOperand:
    axes, keepdims = axes_argument(lo, call, tile), flag_argument(lo, call, "keepdims")
    result = tile
    for axis in axes:
        (result,) = fold.reduced((result,), axis)
    return kept(lo, result, tile.shape, axes) if keepdims else result


# --- truth values ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """A reduction of truth values."""

    op: type[Op]
    identity: int


# Whether one of them is true.
ANY = Truth(OrI, 0)
# Whether all of them are true.
ALL = Truth(AndI, 1)


def reduced_truth(lo: Lowering, kind: Truth, tile: TileOperand, axis: int) -> TileOperand:
    """A reduction of truth values along one axis."""
    (result,) = Fold(lo, _by(lo, kind.op), (kind.identity,)).reduced((tile,), axis)
    return result


def truth(kind: Truth) -> Lowers:
    """`tw.any(x)` and `tw.all(x)`; a non-zero number is true."""

    def lower(lo: Lowering, call: Arguments) -> Operand:
        tile = convert(lo, as_tile(lo, call.where("x"), call.operand("x")), bool_)
        return _reduced(lo, call, tile, Fold(lo, _by(lo, kind.op), (kind.identity,)))

    return lower

"""Which function lowers which builtin. A test asserts that none is missing."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.frontend.arguments import Arguments
from tilewright.frontend.builtins import (
    assumptions,
    bits,
    combining,
    creation,
    elementwise,
    extreme_places,
    launch,
    maths,
    matrix,
    memory,
    random_numbers,
    reductions,
    scaled_matrix,
    shapes,
    special,
)
from tilewright.frontend.lowering import Lowering
from tilewright.frontend.operands import Operand
from tilewright.frontend.unsafe import refuse_expression
from tilewright.ir.attributes import AtomicMode
from tilewright.ir.ops import elementwise as ops
from tilewright.lang import functions as tw
from tilewright.lang import unsafe as raw

__all__ = ["LOWERINGS"]

# Every function of the language with what it becomes.
LOWERINGS: dict[Any, Callable[[Lowering, Arguments], Operand]] = {
    tw.zeros: creation.filled(0),
    tw.ones: creation.filled(1),
    tw.full: creation.lower_full,
    tw.arange: creation.lower_arange,
    tw.rand: random_numbers.lower_rand,
    tw.rand4x: random_numbers.lower_rand4x,
    tw.exp: maths.floats(ops.Exp),
    tw.exp2: maths.floats(ops.Exp2),
    tw.log: maths.floats(ops.Log),
    tw.log2: maths.lower_log2,
    tw.sqrt: maths.floats(ops.Sqrt),
    tw.rsqrt: maths.floats(ops.Rsqrt),
    tw.erf: special.composed("tw.erf", special.erf),
    tw.expm1: special.composed("tw.expm1", special.expm1),
    tw.log1p: special.composed("tw.log1p", special.log1p),
    tw.sigmoid: special.composed("tw.sigmoid", special.sigmoid),
    tw.round: special.composed("tw.round", special.rounded),
    tw.isnan: special.composed("tw.isnan", special.is_nan),
    tw.isinf: special.composed("tw.isinf", special.is_infinite),
    tw.isfinite: special.composed("tw.isfinite", special.is_finite),
    tw.sin: maths.floats(ops.Sin),
    tw.cos: maths.floats(ops.Cos),
    tw.tan: maths.floats(ops.Tan),
    tw.sinh: maths.floats(ops.Sinh),
    tw.cosh: maths.floats(ops.Cosh),
    tw.tanh: maths.floats(ops.Tanh),
    tw.ceil: maths.floats(ops.Ceil),
    tw.floor: maths.floats(ops.Floor),
    tw.abs: elementwise.lower_abs,
    tw.fma: maths.lower_fma,
    tw.pow: maths.lower_pow,
    tw.atan2: maths.lower_atan2,
    tw.mulhi: maths.lower_mulhi,
    tw.add: maths.arithmetic(ast.Add(), ops.AddF),
    tw.subtract: maths.arithmetic(ast.Sub(), ops.SubF),
    tw.multiply: maths.arithmetic(ast.Mult(), ops.MulF),
    tw.divide: maths.arithmetic(ast.Div(), ops.DivF),
    tw.minimum: elementwise.extremum(least=True),
    tw.maximum: elementwise.extremum(least=False),
    tw.clamp: elementwise.lower_clamp,
    tw.where: elementwise.lower_where,
    tw.sum: reductions.reduction(reductions.SUM),
    tw.max: reductions.reduction(reductions.MAXIMUM),
    tw.min: reductions.reduction(reductions.MINIMUM),
    tw.mean: reductions.lower_mean,
    tw.prod: reductions.reduction(reductions.PRODUCT),
    tw.any: reductions.truth(reductions.ANY),
    tw.all: reductions.truth(reductions.ALL),
    tw.argmax: extreme_places.lower_argmax,
    tw.argmin: extreme_places.lower_argmin,
    tw.cumsum: reductions.scan("tw.cumsum", reductions.SUM),
    tw.cumprod: reductions.scan("tw.cumprod", reductions.PRODUCT),
    tw.reduce: combining.lower_reduce,
    tw.scan: combining.lower_scan,
    tw.mma: matrix.lower_mma,
    tw.mma_scaled: scaled_matrix.lower_mma_scaled,
    tw.cat: shapes.lower_cat,
    tw.extract: shapes.lower_extract,
    tw.insert: shapes.lower_insert,
    tw.join: shapes.lower_join,
    tw.split: shapes.lower_split,
    tw.bitcast: bits.lower_bitcast,
    tw.pack: bits.lower_pack,
    tw.unpack: bits.lower_unpack,
    tw.block_id: launch.lower_block_id,
    tw.num_blocks: launch.lower_num_blocks,
    tw.cdiv: elementwise.lower_cdiv,
    tw.next_power_of_2: launch.lower_next_power_of_2,
    tw.require: launch.lower_require,
    tw.static_assert: launch.lower_static_assert,
    tw.static_range: launch.lower_static_range,
    raw.unsafe: refuse_expression,
    raw.assume: assumptions.lower_assume,
    raw.assume_bounds: assumptions.lower_assume_bounds,
    raw.assume_divisible: assumptions.lower_assume_divisible,
    raw.load: memory.lower_load,
    raw.store: memory.lower_store,
    raw.atomic_add: memory.atomic(AtomicMode.ADD),
    raw.atomic_and: memory.atomic(AtomicMode.AND),
    raw.atomic_cas: memory.lower_cas,
    raw.atomic_max: memory.atomic(AtomicMode.MAX),
    raw.atomic_min: memory.atomic(AtomicMode.MIN),
    raw.atomic_or: memory.atomic(AtomicMode.OR),
    raw.atomic_xchg: memory.atomic(AtomicMode.XCHG),
    raw.atomic_xor: memory.atomic(AtomicMode.XOR),
}

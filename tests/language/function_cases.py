"""What every function and operator of the language means, for every dtype that it takes.

A case names the dtypes that a function takes and its meaning on plain numbers: of integers and
truth values as Python computes it, wrapped to the dtype afterwards; of floats as NumPy does in a
wider dtype, rounded once. The meanings use nothing of the package. The tests hold the tables to the
public names, so that a function which is added has a case or is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import erf, inf, isfinite

import numpy as np
from operator_functions import (
    add,
    bit_and,
    bit_or,
    bit_xor,
    divide,
    equal,
    floor_divide,
    greater,
    greater_equal,
    inverted,
    less,
    less_equal,
    magnitude,
    modulo,
    multiply,
    negative,
    not_equal,
    positive,
    power,
    shift_left,
    shift_right,
    subtract,
)

import tilewright as tw
from tilewright import DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from tilewright.dtypes import DTYPES, IN_TILES_ONLY

INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)
FLOATS = (f16, bf16, f32, f64)
NUMBERS = INTEGERS + FLOATS
COMPUTED = (bool_, *NUMBERS)
BITS = (bool_, *INTEGERS)
STORED = tuple(dtype for dtype in DTYPES if dtype not in IN_TILES_ONLY)


def _always(*operands):
    return np.ones(operands[0].shape, bool)


def _by_another_than_zero(a, b):
    """Divisors that are no failure, and quotients that a float tells from their neighbours."""
    if a.dtype.kind in "iu":
        return b != 0
    with np.errstate(all="ignore"):
        return (b != 0) & np.isfinite(a) & (np.abs(a / b) < 64)


@dataclass(frozen=True)
class Case:
    """A function with what it means: `exact` of integers and truth values, `real` of floats."""

    call: Callable
    takes: tuple[type[DType], ...]
    arity: int
    exact: Callable | None = None
    real: Callable | None = None
    gives: type[DType] | None = None  # None: the dtype of the operands
    ulps: float = 0  # between what a float is and what is exact; 0: nothing but rounded once
    has_open_zero: bool = False  # whether zeros of both signs are right
    is_defined: Callable = _always


# --- operators ------------------------------------------------------------------------------------


def _shift(amount):
    """As the language reads an amount: beyond the width, or negative, it moves all bits out."""
    return amount if 0 <= amount < 64 else 64


def _power(a, b):
    return 0 if b < 0 else pow(a, b, 1 << 64)


def _comparison(call):
    return Case(call, COMPUTED, 2, call, call, gives=bool_)


def _division(call, exact, real):
    return Case(
        call, NUMBERS, 2, exact, real, has_open_zero=True, is_defined=_by_another_than_zero
    )  # fmt: skip


# By the name of the method that a tile has for it.
OPERATORS = {
    "__add__": Case(add, NUMBERS, 2, add, add),
    "__sub__": Case(subtract, NUMBERS, 2, subtract, subtract),
    "__mul__": Case(multiply, NUMBERS, 2, multiply, multiply),
    "__truediv__": Case(divide, FLOATS, 2, None, divide),
    "__floordiv__": _division(floor_divide, floor_divide, np.floor_divide),
    "__mod__": _division(modulo, modulo, np.mod),
    "__pow__": Case(power, NUMBERS, 2, _power, np.power, ulps=2),
    "__and__": Case(bit_and, BITS, 2, bit_and),
    "__or__": Case(bit_or, BITS, 2, bit_or),
    "__xor__": Case(bit_xor, BITS, 2, bit_xor),
    "__lshift__": Case(shift_left, INTEGERS, 2, lambda a, b: a << _shift(b)),
    "__rshift__": Case(shift_right, INTEGERS, 2, lambda a, b: a >> _shift(b)),
    "__lt__": _comparison(less),
    "__le__": _comparison(less_equal),
    "__gt__": _comparison(greater),
    "__ge__": _comparison(greater_equal),
    "__eq__": _comparison(equal),
    "__ne__": _comparison(not_equal),
    "__neg__": Case(negative, NUMBERS, 1, negative, negative),
    "__pos__": Case(positive, STORED, 1, positive, positive),
    "__invert__": Case(inverted, BITS, 1, lambda a: not a if isinstance(a, bool) else ~a),
    "__abs__": Case(magnitude, COMPUTED, 1, abs, np.abs),
}

# --- functions of every element -------------------------------------------------------------------


def chosen(a, b):
    return tw.where(a == b, a, b)


def clamped(x, low, high):
    return tw.clamp(x, low, high)


def _of_floats(function, real, ulps=2.0):
    return function, Case(function, FLOATS, 1, None, real, ulps=ulps)


def _up(a, b):
    return -(-a // b)


def _exact_sum(a, b, c):
    """`a * b + c` without a rounding on the way."""
    if not (isfinite(a) and isfinite(b) and isfinite(c)):
        return float(c) if isfinite(a) and isfinite(b) else float(a) * float(b) + float(c)
    a, b, c = float(a), float(b), float(c)
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return a * b + c  # the sign that the zero has
    try:
        return float(total)
    except OverflowError:
        return inf if total > 0 else -inf


def _logistic(x):
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def _held(x, low, high):
    return min(max(x, low), high)


ELEMENTWISE = dict(
    [
        _of_floats(tw.exp, np.exp),
        _of_floats(tw.exp2, np.exp2),
        _of_floats(tw.log, np.log),
        _of_floats(tw.log2, np.log2),
        _of_floats(tw.sqrt, np.sqrt, 0),
        _of_floats(tw.rsqrt, lambda x: 1 / np.sqrt(x)),
        _of_floats(tw.sin, np.sin),
        _of_floats(tw.cos, np.cos),
        _of_floats(tw.tan, np.tan, 4),
        _of_floats(tw.sinh, np.sinh),
        _of_floats(tw.cosh, np.cosh),
        _of_floats(tw.tanh, np.tanh),
        _of_floats(tw.ceil, np.ceil, 0),
        _of_floats(tw.floor, np.floor, 0),
    ]
)
ELEMENTWISE |= dict(
    [
        _of_floats(tw.erf, np.vectorize(erf)),
        _of_floats(tw.log1p, np.log1p),
        _of_floats(tw.expm1, np.expm1),
        _of_floats(tw.sigmoid, _logistic, 3),
        _of_floats(tw.round, np.rint, 0),
    ]
)
ELEMENTWISE |= {
    tw.isnan: Case(tw.isnan, FLOATS, 1, None, np.isnan, gives=bool_),
    tw.isinf: Case(tw.isinf, FLOATS, 1, None, np.isinf, gives=bool_),
    tw.isfinite: Case(tw.isfinite, FLOATS, 1, None, np.isfinite, gives=bool_),
    tw.abs: Case(tw.abs, COMPUTED, 1, abs, np.abs),
    tw.add: Case(tw.add, NUMBERS, 2, add, add),
    tw.subtract: Case(tw.subtract, NUMBERS, 2, subtract, subtract),
    tw.multiply: Case(tw.multiply, NUMBERS, 2, multiply, multiply),
    tw.divide: Case(tw.divide, FLOATS, 2, None, divide),
    tw.minimum: Case(tw.minimum, COMPUTED, 2, min, np.fmin, has_open_zero=True),
    tw.maximum: Case(tw.maximum, COMPUTED, 2, max, np.fmax, has_open_zero=True),
    tw.pow: OPERATORS["__pow__"],
    tw.atan2: Case(tw.atan2, FLOATS, 2, None, np.arctan2, ulps=4),
    tw.mulhi: Case(tw.mulhi, INTEGERS, 2),  # the meaning depends on the width: see the test
    tw.cdiv: Case(tw.cdiv, INTEGERS, 2, _up, is_defined=_by_another_than_zero),
    tw.fma: Case(tw.fma, FLOATS, 3, None, np.vectorize(_exact_sum), ulps=0.5001),
    tw.clamp: Case(
        clamped, COMPUTED, 3, _held, lambda x, a, b: np.fmin(np.fmax(x, a), b), has_open_zero=True
    ),
    tw.where: Case(
        chosen, COMPUTED, 2, lambda a, b: b, lambda a, b: np.where(a == b, a, b)
    ),
}  # fmt: skip

# --- functions along an axis ----------------------------------------------------------------------


@dataclass(frozen=True)
class AlongRows:
    """A function of the rows of a matrix; `meaning` takes and gives a Python list or number."""

    call: Callable
    takes: tuple[type[DType], ...]
    meaning: Callable
    gives: type[DType] | None = None
    keeps_axis: bool = False


def added(x, axis):
    return tw.reduce(x, lambda a, b: a + b, 0, axis)


def running(x, axis):
    return tw.scan(x, lambda a, b: a + b, 0, axis)


def _product(row):
    total = 1
    for one in row:
        total *= one
    return total


def _runs(meaning):
    return lambda row: [meaning(row[: n + 1]) for n in range(len(row))]


def _place_of(extreme):
    return lambda row: row.index(extreme(row))


ALONG_ROWS = {
    tw.sum: AlongRows(tw.sum, NUMBERS, sum),
    tw.mean: AlongRows(tw.mean, FLOATS, lambda row: sum(row) / len(row)),
    tw.prod: AlongRows(tw.prod, NUMBERS, _product),
    tw.max: AlongRows(tw.max, NUMBERS, max),
    tw.min: AlongRows(tw.min, NUMBERS, min),
    tw.any: AlongRows(tw.any, COMPUTED, any, bool_),
    tw.all: AlongRows(tw.all, COMPUTED, all, bool_),
    tw.argmax: AlongRows(tw.argmax, COMPUTED, _place_of(max), i32),
    tw.argmin: AlongRows(tw.argmin, COMPUTED, _place_of(min), i32),
    tw.cumsum: AlongRows(tw.cumsum, NUMBERS, _runs(sum), keeps_axis=True),
    tw.cumprod: AlongRows(tw.cumprod, NUMBERS, _runs(_product), keeps_axis=True),
    tw.reduce: AlongRows(added, NUMBERS, sum),
    tw.scan: AlongRows(running, NUMBERS, _runs(sum), keeps_axis=True),
}

# Functions whose meaning is no matter of elements, and the tests of each over its dtypes.
ELSEWHERE = {
    tw.zeros: "test_language_every_dtype",
    tw.ones: "test_language_every_dtype",
    tw.full: "test_language_every_dtype",
    tw.arange: "test_language_every_dtype",
    tw.cat: "test_language_every_dtype",
    tw.extract: "test_language_every_dtype",
    tw.insert: "test_language_every_dtype",
    tw.join: "test_language_every_dtype",
    tw.split: "test_language_every_dtype",
    tw.sort: "test_language_sorting",
    tw.argsort: "test_language_sorting",
    tw.top_k: "test_language_sorting",
    tw.take_along_axis: "test_language_sorting",
    tw.bitcast: "test_language_every_dtype",
    tw.pack: "test_language_every_dtype",
    tw.unpack: "test_language_every_dtype",
    tw.rand: "test_language_random_numbers",
    tw.rand4x: "test_language_random_numbers",
    tw.mma: "test_language_matrices",
    tw.mma_scaled: "test_language_matrices",
    tw.block_id: "test_language_functions",
    tw.num_blocks: "test_language_functions",
    tw.next_power_of_2: "test_language_constants",
    tw.require: "test_language_parameters",
    tw.static_assert: "test_language_pieces",
    tw.static_range: "test_language_aggregates",
}

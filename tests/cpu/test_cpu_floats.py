"""Float ops against float64, exact fractions and the rules of Tile IR, for every format."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpu_programs import evaluate
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.backends.cpu import floats
from tilewright.dtypes import Element
from tilewright.ir.attributes import Ordering, Predicate, Rounding
from tilewright.ir.ops.elementwise import (
    AbsF,
    AddF,
    Atan2,
    Ceil,
    CmpF,
    Cos,
    Cosh,
    DivF,
    Exp,
    Exp2,
    Floor,
    Fma,
    Log,
    Log2,
    MaxF,
    MinF,
    MulF,
    NegF,
    Pow,
    RemF,
    Rsqrt,
    Select,
    Sin,
    Sinh,
    Sqrt,
    SubF,
    Tan,
    Tanh,
)

Array = np.ndarray[Any, Any]

FORMATS = [Element.F16, Element.BF16, Element.F32, Element.F64]
EPSILON = {Element.F16: 2**-11, Element.BF16: 2**-8, Element.F32: 2**-24, Element.F64: 2**-53}
COUNT = 64
EDGES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5]


def numbers(element: Element, seed: int, positive: bool = False) -> Array:
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(COUNT) * 3
    if positive:
        return (np.abs(found) + 0.01).astype(element.numpy)
    rng.shuffle(edges := list(EDGES))
    found[: len(edges)] = edges
    return found.astype(element.numpy)


def same(found: Array, expected: Array) -> None:
    """Equal, bit by bit but for which NaN it is."""
    width = f"u{found.dtype.itemsize}"
    nans = np.isnan(found.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(
        np.where(nans, 0, found.view(width)), np.where(nans, 0, expected.view(width))
    )


def check(op: Callable[..., Any], element: Element, expected: Array, *operands: Array) -> None:
    for found in evaluate(op, element, *((element, array) for array in operands)):
        same(found, expected)


# --- the four operations round once ------------------------------------------------------------


@pytest.mark.parametrize("element", FORMATS, ids=repr)
@pytest.mark.parametrize(
    ("op", "exact"), [(AddF, np.add), (SubF, np.subtract), (MulF, np.multiply), (DivF, np.divide)]
)
def test_arithmetic_rounds_once(element, op, exact):
    x, y = numbers(element, 1), numbers(element, 2)
    with np.errstate(all="ignore"):
        wide = exact(x.astype(np.float64), y.astype(np.float64))
        expected = floats.nearest(wide, element.numpy)
    check(lambda a, b: op(lhs=a, rhs=b), element, expected, x, y)


@pytest.mark.parametrize("element", FORMATS, ids=repr)
@pytest.mark.parametrize(
    ("op", "exact"),
    [(AbsF, np.abs), (NegF, np.negative), (Ceil, np.ceil), (Floor, np.floor), (Sqrt, np.sqrt)],
)
def test_exact_functions_of_one_number(element, op, exact):
    x = numbers(element, 3)
    with np.errstate(all="ignore"):
        expected = exact(x.astype(np.float64)).astype(element.numpy)
    check(lambda a: op(source=a), element, expected, x)


@pytest.mark.parametrize("element", FORMATS, ids=repr)
@pytest.mark.parametrize(
    ("op", "exact"),
    [
        (Cos, np.cos),
        (Cosh, np.cosh),
        (Exp, np.exp),
        (Exp2, np.exp2),
        (Log, np.log),
        (Log2, np.log2),
        (Rsqrt, lambda x: 1 / np.sqrt(x)),
        (Sin, np.sin),
        (Sinh, np.sinh),
        (Tan, np.tan),
        (Tanh, np.tanh),
    ],
)
def test_mathematics_is_close_to_float64(element, op, exact):
    x = numbers(element, 4, positive=True)
    expected = exact(x.astype(np.float64))
    for found in evaluate(lambda a: op(source=a), element, (element, x)):
        np.testing.assert_allclose(
            found.astype(np.float64), expected, rtol=4 * EPSILON[element], atol=EPSILON[element]
        )


@pytest.mark.parametrize("element", FORMATS, ids=repr)
@pytest.mark.parametrize(
    ("build", "exact"),
    [
        (lambda a, b: Pow(source=a, exponent=b), np.power),
        (lambda a, b: Atan2(x=a, y=b), np.arctan2),
        (lambda a, b: RemF(lhs=a, rhs=b), np.fmod),
    ],
)
def test_functions_of_two_numbers(element, build, exact):
    x, y = numbers(element, 5, positive=True), numbers(element, 6, positive=True)
    expected = exact(x.astype(np.float64), y.astype(np.float64))
    for found in evaluate(build, element, (element, x), (element, y)):
        np.testing.assert_allclose(
            found.astype(np.float64), expected, rtol=16 * EPSILON[element], atol=EPSILON[element]
        )


def test_the_remainder_has_the_sign_of_the_dividend():
    x = np.array([5.5, -5.5, 5.5, -5.5], np.float32)
    y = np.array([2, 2, -2, -2], np.float32)
    expected = np.array([1.5, -1.5, 1.5, -1.5], np.float32)
    check(lambda a, b: RemF(lhs=a, rhs=b), Element.F32, expected, x, y)


# --- NaN and signed zeros ------------------------------------------------------------------------


def extremum(x: float, y: float, greatest: bool, propagate: bool) -> float:
    """The rule in words: NaN loses or wins, and -0 is less than +0."""
    if math.isnan(x) or math.isnan(y):
        return math.nan if propagate or math.isnan(x) == math.isnan(y) else max(x, y, key=_number)
    if x == y == 0:
        signs = (math.copysign(1, x), math.copysign(1, y))
        return math.copysign(0.0, max(signs) if greatest else min(signs))
    return max(x, y) if greatest else min(x, y)


def _number(x: float) -> bool:
    return not math.isnan(x)


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("element", FORMATS, ids=repr)
@pytest.mark.parametrize(("op", "greatest"), [(MaxF, True), (MinF, False)])
def test_extrema_know_nan_and_signed_zeros(element, op, greatest, propagate):
    pairs = [(x, y) for x in EDGES for y in EDGES]
    x, y = (np.array(side).astype(element.numpy) for side in zip(*pairs, strict=True))
    expected = np.array([extremum(a, b, greatest, propagate) for a, b in pairs])

    def build(a, b):
        return op(lhs=a, rhs=b, propagate_nan=propagate)

    check(build, element, expected.astype(element.numpy), x, y)


COMPARE = {
    Predicate.EQUAL: np.equal,
    Predicate.NOT_EQUAL: np.not_equal,
    Predicate.LESS_THAN: np.less,
    Predicate.LESS_THAN_OR_EQUAL: np.less_equal,
    Predicate.GREATER_THAN: np.greater,
    Predicate.GREATER_THAN_OR_EQUAL: np.greater_equal,
}


@pytest.mark.parametrize("ordering", list(Ordering))
@pytest.mark.parametrize("predicate", list(Predicate))
@pytest.mark.parametrize("element", FORMATS, ids=repr)
def test_comparison_with_nan_is_false_when_ordered_and_true_when_not(element, predicate, ordering):
    pairs = [(x, y) for x in EDGES for y in EDGES]
    x, y = (np.array(side).astype(element.numpy) for side in zip(*pairs, strict=True))
    a, b = x.astype(np.float64), y.astype(np.float64)
    unordered = np.isnan(a) | np.isnan(b)
    expected = np.where(unordered, ordering is Ordering.UNORDERED, COMPARE[predicate](a, b))

    def build(p, q):
        return CmpF(lhs=p, rhs=q, comparison_predicate=predicate, comparison_ordering=ordering)

    for found in evaluate(build, Element.I1, (element, x), (element, y)):
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("element", [*FORMATS, Element.I32], ids=repr)
def test_select_takes_one_or_the_other(element):
    choice = (np.arange(COUNT) % 3 == 0).astype(np.uint8)
    x, y = (np.arange(COUNT) * n for n in (1, -2))
    x, y = x.astype(element.numpy), y.astype(element.numpy)

    def build(c, a, b):
        return Select(cond=c, val_if_true=a, val_if_false=b)

    operands = (Element.I1, choice), (element, x), (element, y)
    for found in evaluate(build, element, *operands):
        same(found, np.where(choice, x, y))


# --- rounding ------------------------------------------------------------------------------------


def nearest_fraction(exact: Fraction, dtype: Any, mode: Rounding) -> float:
    """An exact number in a format, by trying the neighbours of a first guess."""
    guess = np.asarray(float(exact)).astype(dtype)
    below = np.nextafter(guess, dtype(-np.inf))
    above = np.nextafter(guess, dtype(np.inf))
    near = sorted(Fraction(float(n)) for n in (below, guess, above) if np.isfinite(n))
    if mode is Rounding.NEGATIVE_INF or (mode is Rounding.ZERO and exact > 0):
        return float(max(n for n in near if n <= exact))
    if mode in (Rounding.POSITIVE_INF, Rounding.ZERO):
        return float(min(n for n in near if n >= exact))
    return float(min(near, key=lambda n: abs(n - exact)))


DIRECTED = [Rounding.ZERO, Rounding.NEGATIVE_INF, Rounding.POSITIVE_INF]
EXACT = {
    AddF: lambda x, y: x + y,
    SubF: lambda x, y: x - y,
    MulF: lambda x, y: x * y,
    DivF: lambda x, y: x / y,
}


@pytest.mark.parametrize("mode", DIRECTED)
@pytest.mark.parametrize("element", FORMATS, ids=repr)
@pytest.mark.parametrize("op", list(EXACT))
def test_directed_rounding_is_exact(element, op, mode):
    x, y = numbers(element, 7, positive=True), numbers(element, 8, positive=True)
    x[::2] = -x[::2]
    exact = [EXACT[op](Fraction(float(a)), Fraction(float(b))) for a, b in zip(x, y, strict=True)]
    kind = element.numpy.type
    expected = np.array([nearest_fraction(n, kind, mode) for n in exact]).astype(kind)
    check(lambda a, b: op(lhs=a, rhs=b, rounding_mode=mode), element, expected, x, y)


@pytest.mark.parametrize("mode", DIRECTED)
def test_directed_root(mode):
    x = numbers(Element.F32, 9, positive=True)
    for found in evaluate(
        lambda a: Sqrt(source=a, rounding_mode=mode), Element.F32, (Element.F32, x)
    ):
        for root, number in zip(found, x, strict=True):
            exact, square = Fraction(float(number)), Fraction(float(root)) ** 2
            above = Fraction(float(np.nextafter(root, np.float32(np.inf)))) ** 2
            below = Fraction(float(np.nextafter(root, np.float32(0)))) ** 2
            if mode is Rounding.POSITIVE_INF:
                assert below < exact <= square
            else:
                assert square <= exact < above


def test_overflow_under_directed_rounding_stops_at_the_largest_number():
    x = np.array([3e38, -3e38], np.float32)
    largest = np.finfo(np.float32).max
    for mode, expected in (
        (Rounding.ZERO, [largest, -largest]),
        (Rounding.NEGATIVE_INF, [largest, -np.inf]),
        (Rounding.POSITIVE_INF, [np.inf, -largest]),
    ):
        check(
            lambda a, b, mode=mode: AddF(lhs=a, rhs=b, rounding_mode=mode),
            Element.F32,
            np.array(expected, np.float32),
            x,
            x,
        )


def test_flushing_turns_denormals_into_zeros_of_their_sign():
    tiny = np.array([1e-40, -1e-40, 1.0, 2e-38], np.float32)
    other = np.array([1.0, 1.0, 1e-40, -1.9e-38], np.float32)
    zero, flushed = np.float32(0), np.array([0, -0.0, 1, 2e-38], np.float32)
    # The last sum is denormal though both operands are not.
    expected = np.array([1, 1, 1, 0], np.float32)

    def build(a, b):
        return AddF(lhs=a, rhs=b, flush_to_zero=True)

    check(build, Element.F32, expected, tiny, other)
    same(floats.flushed(tiny), flushed)
    assert floats.flushed(zero) == 0


# --- fused multiply and add ------------------------------------------------------------------


@pytest.mark.parametrize("element", FORMATS, ids=repr)
def test_fma_rounds_once(element):
    x, y, z = (numbers(element, seed, positive=True) for seed in (10, 11, 12))
    z[::2] = -(x[::2] * y[::2])  # what is left is the error of the product
    kind = element.numpy.type
    expected = np.array(
        [
            nearest_fraction(
                Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)),
                kind,
                Rounding.NEAREST_EVEN,
            )
            for a, b, c in zip(x, y, z, strict=True)
        ]
    ).astype(kind)
    check(lambda a, b, c: Fma(lhs=a, rhs=b, acc=c), element, expected, x, y, z)


SINGLE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=300)
@given(SINGLE, SINGLE, SINGLE)
def test_fma_of_f32_is_the_exact_result_rounded_once(x, y, z):
    with np.errstate(all="ignore"):
        found = floats.fused(*(np.array([n], np.float32) for n in (x, y, z)))[0]
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if not np.isfinite(found):
        assert abs(exact) >= Fraction(float(np.finfo(np.float32).max))
        return
    error = abs(Fraction(float(found)) - exact)
    for neighbour in (np.inf, -np.inf):
        other = np.nextafter(found, np.float32(neighbour))
        if np.isfinite(other):
            assert error <= abs(Fraction(float(other)) - exact)


def test_fma_of_f32_is_right_where_f64_lies_halfway():
    # 1 + 2**-24 is halfway between two numbers of f32; 2**-60 decides, and f64 cannot see it.
    x = np.array([1.0, 1.0], np.float32)
    y = np.array([2.0**-24, 2.0**-24], np.float32)
    one = floats.fused(x, y, np.array([1.0, 1.0], np.float32))
    assert one.tolist() == [1.0, 1.0]
    tie = floats.fused(
        np.array([1 + 2.0**-12], np.float32),
        np.array([1 + 2.0**-12], np.float32),
        np.array([2.0**-60], np.float32),
    )
    exact = (1 + Fraction(1, 2**12)) ** 2 + Fraction(1, 2**60)
    assert tie[0] == np.float32(nearest_fraction(exact, np.float32, Rounding.NEAREST_EVEN))


@settings(max_examples=300)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_f64_reaches_bf16_with_one_rounding(x):
    with np.errstate(all="ignore"):
        found = floats.nearest(np.array([x]), np.dtype(ml_dtypes.bfloat16))[0]
    if np.isfinite(found):
        error = abs(Fraction(float(found)) - Fraction(x))
        for neighbour in (np.inf, -np.inf):
            other = np.nextafter(found, ml_dtypes.bfloat16(neighbour))
            if np.isfinite(other):
                assert error <= abs(Fraction(float(other)) - Fraction(x))

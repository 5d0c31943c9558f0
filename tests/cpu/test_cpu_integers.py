"""Integer ops against Python's own integers, as tiles and as scalars, for every width."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cpu_programs import Program, apply, apply_to_scalars, evaluate, run
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tilewright.backends.cpu import integers, scalars
from tilewright.backends.cpu.faults import Fault
from tilewright.backends.cpu.scalars import limits
from tilewright.dtypes import Element
from tilewright.errors import UndefinedBehaviourError
from tilewright.ir.attributes import Overflow, Predicate, Rounding, Signedness
from tilewright.ir.ops.elementwise import (
    AbsI,
    AddI,
    AndI,
    CmpI,
    DivI,
    MaxI,
    MinI,
    MulHiI,
    MulI,
    NegI,
    OrI,
    RemI,
    ShLI,
    ShRI,
    SubI,
    XOrI,
)

WIDTHS = [Element.I8, Element.I16, Element.I32, Element.I64]
SIGNS = [Signedness.SIGNED, Signedness.UNSIGNED]
COUNT = 64


def numbers(element: Element, seed: int, count: int = COUNT) -> np.ndarray[Any, Any]:
    """Random bits, with the ends of the range and what is around zero in front."""
    low, high = limits(element.bits, True)
    rng = np.random.default_rng(seed)
    edges = [low, low + 1, -1, 0, 1, 2, high - 1, high]
    rng.shuffle(edges)
    rest = rng.integers(low, high, count - len(edges), endpoint=True)
    return np.array([*edges, *rest], np.int64).astype(element.numpy)


def read(number: Any, bits: int, sign: Signedness) -> int:
    return int(number) if sign is Signedness.SIGNED else int(number) % (1 << bits)


def wrapped(exact: int, bits: int) -> int:
    half = 1 << bits - 1
    return (exact + half) % (2 * half) - half


def check(
    op: Callable[..., Any], element: Element, exact: Callable[..., int], *operands: Any
) -> None:
    """Tile and scalars give the exact result, wrapped."""
    expected = [
        wrapped(exact(*(int(n) for n in row)), element.bits) for row in zip(*operands, strict=True)
    ]
    for found in evaluate(op, element, *((element, array) for array in operands)):
        assert found.tolist() == expected


@pytest.mark.parametrize("element", WIDTHS, ids=repr)
@pytest.mark.parametrize(
    ("op", "exact"),
    [
        (AddI, operator.add),
        (SubI, operator.sub),
        (MulI, operator.mul),
        (AndI, operator.and_),
        (OrI, operator.or_),
        (XOrI, operator.xor),
    ],
)
def test_binary_arithmetic_wraps(element, op, exact):
    x, y = numbers(element, 1), numbers(element, 2)
    check(lambda a, b: op(lhs=a, rhs=b), element, exact, x, y)


@pytest.mark.parametrize("element", WIDTHS, ids=repr)
def test_negation_and_magnitude_wrap_at_the_least_integer(element):
    x = numbers(element, 3)
    check(lambda a: NegI(source=a), element, operator.neg, x)
    check(lambda a: AbsI(source=a), element, abs, x)


@pytest.mark.parametrize("element", WIDTHS, ids=repr)
def test_high_half_of_the_unsigned_product(element):
    bits = element.bits

    def exact(x: int, y: int) -> int:
        return (x % (1 << bits)) * (y % (1 << bits)) >> bits

    check(lambda a, b: MulHiI(x=a, y=b), element, exact, numbers(element, 4), numbers(element, 5))


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("element", WIDTHS, ids=repr)
@pytest.mark.parametrize(("op", "exact"), [(MaxI, max), (MinI, min)])
def test_extrema_read_their_bits(element, op, exact, sign):
    bits = element.bits

    def expected(x: int, y: int) -> int:
        return exact(x, y, key=lambda n: read(n, bits, sign))

    def build(a, b):
        return op(lhs=a, rhs=b, signedness=sign)

    check(build, element, expected, numbers(element, 6), numbers(element, 7))


COMPARE = {
    Predicate.EQUAL: operator.eq,
    Predicate.NOT_EQUAL: operator.ne,
    Predicate.LESS_THAN: operator.lt,
    Predicate.LESS_THAN_OR_EQUAL: operator.le,
    Predicate.GREATER_THAN: operator.gt,
    Predicate.GREATER_THAN_OR_EQUAL: operator.ge,
}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("predicate", list(Predicate))
@pytest.mark.parametrize("element", [Element.I8, Element.I64], ids=repr)
def test_comparison_reads_its_bits(element, predicate, sign):
    x, y = numbers(element, 8), numbers(element, 9)
    y[::5] = x[::5]
    expected = [
        COMPARE[predicate](read(a, element.bits, sign), read(b, element.bits, sign))
        for a, b in zip(x, y, strict=True)
    ]

    def build(a, b):
        return CmpI(lhs=a, rhs=b, comparison_predicate=predicate, signedness=sign)

    for found in evaluate(build, Element.I1, (element, x), (element, y)):
        assert found.tolist() == expected


# --- division ------------------------------------------------------------------------------


def quotient(x: int, y: int, rounding: Rounding) -> int:
    if rounding is Rounding.NEGATIVE_INF:
        return x // y
    if rounding is Rounding.POSITIVE_INF:
        return -(-x // y)
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


ROUNDINGS = [Rounding.ZERO, Rounding.NEGATIVE_INF, Rounding.POSITIVE_INF]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("element", WIDTHS, ids=repr)
def test_signed_division_rounds_as_told(element, rounding):
    x, y = numbers(element, 10), numbers(element, 11)
    y[y == 0] = 3
    x[(x == limits(element.bits, True)[0]) & (y == -1)] = 7

    def build(a, b):
        return DivI(lhs=a, rhs=b, rounding=rounding)

    check(build, element, lambda a, b: quotient(a, b, rounding), x, y)


@pytest.mark.parametrize("element", WIDTHS, ids=repr)
def test_unsigned_division_and_remainder(element):
    x, y = numbers(element, 12), numbers(element, 13)
    y[y == 0] = 3
    modulus = 1 << element.bits
    unsigned = Signedness.UNSIGNED
    divide = DivI, lambda a, b: (a % modulus) // (b % modulus)
    remain = RemI, lambda a, b: (a % modulus) % (b % modulus)
    for op, exact in (divide, remain):
        check(lambda a, b, op=op: op(lhs=a, rhs=b, signedness=unsigned), element, exact, x, y)


@pytest.mark.parametrize("element", WIDTHS, ids=repr)
def test_signed_remainder_has_the_sign_of_the_dividend(element):
    x, y = numbers(element, 14), numbers(element, 15)
    y[y == 0] = 3
    x[(x == limits(element.bits, True)[0]) & (y == -1)] = 7

    def exact(a: int, b: int) -> int:
        return a - b * quotient(a, b, Rounding.ZERO)

    check(lambda a, b: RemI(lhs=a, rhs=b), element, exact, x, y)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("divisor", [1, 2, 7, 128])
def test_a_known_divisor_needs_no_check_and_divides_alike(divisor, rounding):
    x = numbers(Element.I32, 16)
    program = Program()
    source, out, rest = (program.tensor(Element.I32, 1) for _ in range(3))
    zero = program.b.index(0)
    tile = program.load(program.partition(source, (COUNT,)), zero)
    by = program.b.constant(divisor, Element.I32, (COUNT,))
    pieces = (
        (DivI(lhs=tile, rhs=by, rounding=rounding), out),
        (RemI(lhs=tile, rhs=by), rest),
    )
    for op, target in pieces:
        program.store(program.add(op), program.partition(target, (COUNT,)), zero)
    kernel = program.finish()
    assert "require_quotient" not in kernel.source
    quotients, remainders = np.zeros_like(x), np.zeros_like(x)
    run(kernel, (1, 1, 1), x, quotients, remainders)
    assert quotients.tolist() == [quotient(int(a), divisor, rounding) for a in x]
    assert remainders.tolist() == [
        int(a) - divisor * quotient(int(a), divisor, Rounding.ZERO) for a in x
    ]


INT32 = st.integers(-(2**31), 2**31 - 1)


@settings(max_examples=200)
@given(INT32, INT32, st.sampled_from(ROUNDINGS))
def test_scalar_and_array_division_agree_with_big_integers(x, y, rounding):
    assume(y != 0)
    low, high = limits(32, True)
    exact = quotient(x, y, rounding)
    arrays = np.int32(x), np.int32(y)
    if not low <= exact <= high:
        with pytest.raises(Fault, match="overflows"):
            scalars.DIVIDE[rounding](0, low, high, x, y)
        with pytest.raises(Fault, match="overflows"):
            integers.require_quotient(0, *arrays)
        return
    assert scalars.DIVIDE[rounding](0, low, high, x, y) == exact
    integers.require_quotient(0, *arrays)
    with np.errstate(all="ignore"):
        assert integers.DIVIDE[rounding](*arrays) == exact
    # Floor division and its modulo belong together, as in Python.
    if rounding is Rounding.NEGATIVE_INF:
        assert x - exact * y == x % y


# --- shifts --------------------------------------------------------------------------------


@pytest.mark.parametrize("element", WIDTHS, ids=repr)
def test_shifts_within_the_width(element):
    bits = element.bits
    x = numbers(element, 17)
    counts = (np.arange(COUNT) % bits).astype(element.numpy)
    check(lambda a, b: ShLI(lhs=a, rhs=b), element, operator.lshift, x, counts)
    check(lambda a, b: ShRI(lhs=a, rhs=b), element, operator.rshift, x, counts)

    def unsigned(a: int, b: int) -> int:
        return (a % (1 << bits)) >> b

    def build(a, b):
        return ShRI(lhs=a, rhs=b, signedness=Signedness.UNSIGNED)

    check(build, element, unsigned, x, counts)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(-(2**15), 2**15 - 1), st.integers(-3, 20))
def test_a_shift_is_right_or_reported(x, count):
    arrays = np.array([x], np.int16), np.array([count], np.int16)
    if 0 <= count < 16:
        integers.require_count(0, *arrays)
        assert scalars.shift_count(0, 16, count) == count
        assert (arrays[0] << arrays[1])[0] == wrapped(x << count, 16)
    else:
        with pytest.raises(Fault, match=f"shifts by {count}, and the width is 16"):
            integers.require_count(0, *arrays)
        with pytest.raises(Fault, match="the width is 16"):
            scalars.shift_count(0, 16, count)


# --- promises ------------------------------------------------------------------------------


@pytest.mark.parametrize("element", WIDTHS, ids=repr)
@pytest.mark.parametrize(
    ("op", "exact"), [(AddI, operator.add), (SubI, operator.sub), (MulI, operator.mul)]
)
@pytest.mark.parametrize("overflow", [Overflow.NSW, Overflow.NUW, Overflow.NW])
def test_a_promise_not_to_wrap_is_held_or_reported(element, op, exact, overflow):
    low, high = limits(element.bits, True)
    signs = {Overflow.NSW: [True], Overflow.NUW: [False], Overflow.NW: [True, False]}[overflow]

    def build(a, b):
        return op(lhs=a, rhs=b, overflow=overflow)

    tiles = apply(build, [element] * 2, element, (2,))
    one_by_one = apply_to_scalars(build, [element] * 2, element)
    for x, y in ((3, 2), (high, 1), (low, 1), (-1, 1), (high, high), (2, 3), (-5, -7)):
        fits = True
        for signed in signs:
            sign = Signedness.SIGNED if signed else Signedness.UNSIGNED
            result = exact(read(x, element.bits, sign), read(y, element.bits, sign))
            bottom, top = limits(element.bits, signed)
            fits = fits and bottom <= result <= top
        left, right = (np.array([1, n]).astype(element.numpy) for n in (x, y))
        out = np.zeros(2, element.numpy)
        for kernel, blocks in ((tiles, 1), (one_by_one, 2)):
            if fits:
                run(kernel, (blocks, 1, 1), left, right, out)
                assert out[1] == wrapped(exact(x, y), element.bits)
            else:
                with pytest.raises(UndefinedBehaviourError, match="wraps, and promises not to"):
                    run(kernel, (blocks, 1, 1), left, right, out)

"""Values from outside a kernel: numbers of NumPy, members of enums, partial functions, lambdas."""

import enum
import functools

import ml_dtypes
import numpy as np
import pytest
from running import run

import tilewright as tw
from tilewright import Const, Mut, Ref, bool_, f32, f64, i8, i32, i64
from tilewright.dims import B, N

FIVE, SIX, YES = np.int32(5), np.uint8(6), np.bool_(True)
HALF, QUARTER, PRECISE = np.float32(0.5), ml_dtypes.bfloat16(0.25), np.float64(2.5)
WIDE, EIGHT, ZERO = np.int64(2**40), np.int64(8), np.int8(0)


class Mode(enum.IntEnum):
    FAST = 0
    SLOW = 2


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


class Name(enum.StrEnum):
    RELU = "relu"


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


class Odd(int):
    """A number that is something else to an operator."""

    def __mul__(self, other):
        raise ValueError("never asked")

    __rmul__ = __add__ = __radd__ = __mul__


SIDE, MODE, ODD = Side.LEFT, Mode.SLOW, Odd(3)


def poly(a, b, t, *, c=0):
    return t * a + b + c


twice_plus_three = functools.partial(poly, 2, 3)
twice = functools.partial(poly, 2, c=10)
both = functools.partial(twice_plus_three, c=7)
row_sum = functools.partial(tw.sum, axis=0)

plus_one = lambda t: t + 1  # noqa: E731
plus_two, times_ten = lambda t: t + 2, lambda t: t * 10
STEPS = (lambda t: t + 1, lambda t: t * 100, lambda t, k=3: t * k)
curried = lambda a: lambda t: t * a  # noqa: E731
tripled = curried(3)
# fmt: off
several_lines = (lambda t:
                 t + 1, lambda t: t + 5)
# fmt: on


def ones(kernel, dtype=i32, **constants):
    return run(kernel, ((4,), dtype), 4, **constants).tolist()


def test_numbers_of_numpy_are_numbers_without_a_dtype():
    @tw.kernel
    def integers(z: Mut[i32, B]) -> None:
        z.store(tw.ones((B,), i32) * FIVE + SIX + YES)

    @tw.kernel
    def floats(z: Mut[f32, B]) -> None:
        z.store(tw.ones((B,), f32) * HALF + QUARTER + PRECISE + FIVE)

    @tw.kernel
    def wide(z: Mut[i64, B]) -> None:
        z.store(tw.ones((B,), i64) * WIDE)

    @tw.kernel
    def shapes(z: Mut[i32, B]) -> None:
        z.store(tw.sum(tw.ones((EIGHT, B), i32), axis=ZERO))

    assert ones(integers) == [12] * 4
    assert ones(floats, f32) == [8.25] * 4
    assert ones(wide, i64) == [2**40] * 4
    assert ones(shapes) == [8] * 4


def test_a_number_of_numpy_that_changes_is_seen():
    global FIVE
    before = FIVE

    @tw.kernel
    def filled(z: Mut[i32, B]) -> None:
        z.store(tw.full((B,), FIVE, i32))

    try:
        assert ones(filled) == [5] * 4
        FIVE = np.int32(6)
        assert ones(filled) == [6] * 4
    finally:
        FIVE = before


def test_a_subclass_of_int_is_the_number_that_it_is():
    @tw.kernel
    def odd(z: Mut[i32, B]) -> None:
        z.store(tw.full((B,), ODD * 2 + 1, i32) * ODD)

    assert ones(odd) == [21] * 4


def test_members_of_enums_are_constants():
    @tw.kernel
    def chosen(z: Mut[i32, B]) -> None:
        t = tw.zeros((B,), i32)
        if SIDE is Side.LEFT:
            t = t + 1
        if SIDE == Side.RIGHT:
            t = t + 10
        if MODE is not Mode.FAST and Mode.FAST is Mode.FAST:
            t = t + 100
        if Name.RELU == "relu" and Side.LEFT.value == "left" and Mode.SLOW.name == "SLOW":
            t = t + 1000
        if Access.READ | Access.WRITE == 3:
            t = t + 10000
        z.store(t + MODE)

    assert ones(chosen) == [11103] * 4


def test_members_of_enums_as_arguments_of_constants():
    @tw.kernel
    def filled(z: Mut[i32, B], *, MODE: Const[int]) -> None:
        z.store(tw.full((B,), 7 if Mode.SLOW == MODE else 8, i32))

    assert ones(filled, MODE=int(Mode.SLOW)) == [7] * 4
    assert ones(filled, MODE=int(Mode.FAST)) == [8] * 4


def test_partial_functions_have_some_arguments():
    @tw.kernel
    def called(z: Mut[i32, B]) -> None:
        t = tw.ones((B,), i32)
        z.store(twice_plus_three(t) * 1000 + twice(4, t) + both(t) + tw.full((B,), row_sum(t), i32))

    assert ones(called) == [5000 + 16 + 12 + 4] * 4


def test_a_partial_function_can_combine():
    def mixed(k, a, b):
        return a + b * k

    doubling = functools.partial(mixed, 1)

    @tw.kernel
    def called(z: Mut[i32, B]) -> None:
        z.store(tw.full((B,), tw.reduce(tw.ones((B,), i32), doubling, identity=0), i32))

    assert ones(called) == [4] * 4


def test_a_partial_function_that_changes_is_seen():
    changing = functools.partial(poly, 2, 3, c=1)

    @tw.kernel
    def called(z: Mut[i32, B]) -> None:
        z.store(changing(tw.ones((B,), i32)))

    assert ones(called) == [6] * 4
    changing.keywords["c"] = 2
    assert ones(called) == [7] * 4


def test_lambdas_of_a_module_are_inlined_also_several_of_a_line():
    @tw.kernel
    def called(z: Mut[i32, B]) -> None:
        t = tw.ones((B,), i32)
        z.store(
            plus_one(t) * 1000000 + plus_two(t) * 100000 + times_ten(t) * 1000
            + STEPS[0](t) + STEPS[1](t) + STEPS[2](t) + tripled(t)
            + several_lines[0](t) + several_lines[1](t)
        )  # fmt: skip

    assert ones(called) == [2000000 + 300000 + 10000 + 2 + 100 + 3 + 3 + 2 + 6] * 4


def test_functions_of_one_line_may_call_each_other():
    inner, outer = lambda t: t + 1, lambda t: inner(t) * 10

    @tw.kernel
    def called(z: Mut[i32, B]) -> None:
        z.store(outer(tw.ones((B,), i32)))

    assert ones(called) == [20] * 4


def test_functions_with_one_text_may_call_each_other():
    def plus(f, n):
        return lambda t: f(t) + n

    chain = plus(plus(plus(lambda t: t, 1), 10), 100)

    @tw.kernel
    def called(z: Mut[i32, B]) -> None:
        z.store(chain(tw.ones((B,), i32)))

    assert ones(called) == [112] * 4


@pytest.mark.parametrize(
    ("dtype", "numbers", "wanted"),
    [
        (i32, (1, 0), [0, 0, 1, 1]),
        (f32, (1, 0), [0.0, 0.0, 1.0, 1.0]),
        (i8, (-128, 127), [127, 127, -128, -128]),
        (f64, (0.1, 0), [0.0, 0.0, 0.1, 0.1]),
        (bool_, (True, False), [False, False, True, True]),
    ],
)
def test_where_of_two_numbers_takes_the_dtype_of_the_output(dtype, numbers, wanted):
    yes, no = numbers

    @tw.kernel
    def chosen(z: Mut[dtype, B]) -> None:
        z.store(tw.where(tw.arange(B) > 1, yes, no))

    assert ones(chosen, dtype) == wanted


def test_where_of_two_numbers_takes_the_dtype_of_the_tile_that_it_meets():
    @tw.kernel
    def met(z: Mut[f64, B], x: Ref[f64, N]) -> None:
        mask = tw.arange(B) > 1
        t = x.load_like(z)
        weights = tw.where(mask, 0.1, 2) if tw.sum(t) > 0 else t
        z.store(weights + tw.where(mask, 1, 0) * t + tw.where(mask, 1, 0).astype(f64) * 0.5)

    got = run(met, ((4,), f64), 4, np.full(4, 3.0))
    assert got.tolist() == [2.0, 2.0, 0.1 + 3.0 + 0.5, 0.1 + 3.0 + 0.5]


def test_where_of_two_numbers_alone_has_the_dtype_of_a_literal():
    @tw.kernel
    def counted(z: Mut[i32, B]) -> None:
        mask = tw.arange(B) > 1
        z.store(tw.full((B,), tw.sum(tw.where(mask, 1, 0)), i32) + tw.where(mask, 1, 0) * 2)

    @tw.kernel
    def mixed(z: Mut[f32, B]) -> None:
        z.store((tw.where(tw.arange(B) > 1, 1, 0) + 1) * tw.ones((B,), f32))

    assert ones(counted) == [2, 2, 4, 4]
    with pytest.raises(tw.CompileError, match=r"`\*` mixes i32 and f32"):
        ones(mixed, f32)

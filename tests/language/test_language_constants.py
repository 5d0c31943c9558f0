"""What a kernel is compiled for: strings, functions, and arithmetic while it is compiled."""

import math
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import pytest
from running import run

import tilewright as tw
from tilewright import Const, Mut, Ref, Tile, f32, i32
from tilewright.dims import B, N, T

ONES = np.ones(8, np.float32)


@tw.kernel
def by_name(z: Mut[T, B], x: Ref[T, N], *, MODE: Const[str] = "double") -> None:
    t = x.load_like(z)
    if MODE == "double":
        t = t + t
    elif MODE in ("square", "product") or MODE.startswith("sq"):
        t = (t + 2) * (t + 2)
    z.store(t)


@pytest.mark.parametrize(
    ("mode", "wanted"), [("double", 2), ("square", 9), ("sq2", 9), ("nothing", 1), ("", 1)]
)
def test_a_string_chooses_code(mode, wanted):
    assert (run(by_name, ((8,), f32), 8, ONES, MODE=mode) == wanted).all()


def test_a_string_has_a_default():
    assert (run(by_name, ((8,), f32), 8, ONES) == 2).all()


def test_another_type_is_refused():
    with pytest.raises(
        tw.LaunchError, match="`MODE` of kernel `by_name` is a constant of type str, not 3"
    ):
        run(by_name, ((8,), f32), 8, ONES, MODE=3)


def plus_three(t: Tile[f32]) -> Tile[f32]:
    return t + 3


def times_four(t: Tile[f32]) -> Tile[f32]:
    return t * 4


@tw.kernel
def by_function(
    z: Mut[f32, B], x: Ref[f32, N], *, ACT: Const[Callable[[Any], Any]] = plus_three
) -> None:
    z.store(ACT(x.load_like(z)))


def test_functions_are_constants():
    assert (run(by_function, ((8,), f32), 8, ONES) == 4).all()
    assert (run(by_function, ((8,), f32), 8, ONES, ACT=times_four) == 4).all()
    assert (run(by_function, ((8,), f32), 8, 2 * ONES, ACT=times_four) == 8).all()
    np.testing.assert_allclose(run(by_function, ((8,), f32), 8, ONES, ACT=tw.exp), math.e, 1e-6)


def test_a_function_that_changes_is_compiled_again():
    by = 2.0

    def scaled(t):
        return t * by

    assert (run(by_function, ((8,), f32), 8, ONES, ACT=scaled) == 2).all()
    by = 5.0
    assert (run(by_function, ((8,), f32), 8, ONES, ACT=scaled) == 5).all()


def test_each_of_two_functions_with_one_name_is_itself():
    def made(number):
        def scaled(t):
            return t * number

        return scaled

    for number in (3.0, 7.0, 3.0):
        assert (run(by_function, ((8,), f32), 8, ONES, ACT=made(number)) == number).all()


def test_what_is_no_function_is_refused():
    with pytest.raises(
        tw.LaunchError, match="`ACT` of kernel `by_function` is a constant of type function, not 3"
    ):
        run(by_function, ((8,), f32), 8, ONES, ACT=3)
    with pytest.raises(
        tw.CompileError, match="cannot use `ACT` from outside: it is not a plain Python function"
    ):
        run(by_function, ((8,), f32), 8, ONES, ACT=sorted)


class Mode(Enum):
    PLAIN = "plain"
    TWICE = "twice"

    def __repr__(self) -> str:
        return "a mode"  # a key that is made of this would not tell them apart


class Level(IntEnum):
    LOW = 1
    HIGH = 3


@tw.kernel
def by_member(
    z: Mut[f32, B],
    x: Ref[f32, N],
    *,
    MODE: Const[Mode] = Mode.PLAIN,
    LEVEL: Const[Level] = Level.LOW,
) -> None:
    t = x.load_like(z) * LEVEL
    z.store(t + t if MODE is Mode.TWICE or MODE == Mode.TWICE else t)


def test_members_of_enums_are_constants():
    assert (run(by_member, ((8,), f32), 8, ONES) == 1).all()
    assert (run(by_member, ((8,), f32), 8, ONES, MODE=Mode.TWICE) == 2).all()
    assert (run(by_member, ((8,), f32), 8, ONES, MODE=Mode.TWICE, LEVEL=Level.HIGH) == 6).all()
    with pytest.raises(tw.LaunchError, match="is a constant of type Mode, not 'twice'"):
        run(by_member, ((8,), f32), 8, ONES, MODE="twice")


def test_other_types_of_constants_are_refused():
    with pytest.raises(tw.CompileError, match="Const takes int, bool, float, str, an enum"):

        @tw.kernel
        def wrong(z: Mut[f32, B], *, TABLE: Const[dict]) -> None:  # type: ignore[type-arg]
            z.store(z.load())


# --- arithmetic -----------------------------------------------------------------------------------


def computed(n, word):
    """What Python and a kernel compute alike; `n` and `word` are constants of the kernel."""
    quotient, rest = divmod(n, 7)
    return (
        n.bit_length(), n.bit_count(), quotient, rest, pow(n, 2), pow(3, n, 5), round(n / 3),
        round(2.5), abs(-n), min(n, 5), max(n, 5), len(word), int(n / 2), int(float(n)),
        math.isqrt(n), math.gcd(n, 12), int(math.log2(64)), math.ceil(n / 4), math.floor(n / 4),
        tw.cdiv(n, 4), tw.next_power_of_2(n), int(word == "abc"), int(word.upper() == "ABC"),
        int(2.0.is_integer()), int(math.sqrt(n) > 3), 1 if word in ("abc", "x") else 0,
    )  # fmt: skip


@pytest.mark.parametrize("n", [1, 7, 8, 100])
def test_constants_are_computed_as_python_does(n):
    @tw.kernel
    def stored(z: Mut[i32, B], *, NUMBER: Const[int], WORD: Const[str]) -> None:
        lanes = tw.arange(B)
        t = tw.zeros(B, i32)
        numbers = computed(NUMBER, WORD)
        for k in tw.static_range(len(numbers)):
            t = tw.where(lanes == k, numbers[k], t)
        z.store(t)

    for word in ("abc", "other"):
        wanted = computed(n, word)
        got = run(stored, ((32,), i32), 32, NUMBER=n, WORD=word)
        assert got.tolist()[: len(wanted)] == [*wanted]


def test_constants_choose_shapes():
    @tw.kernel
    def padded(z: Mut[f32, B], x: Ref[f32, N], *, WIDTH: Const[int]) -> None:
        tile = x.partition(tw.next_power_of_2(WIDTH))[0]
        tw.static_assert(tw.log2(tile.shape[0]) == 3)
        z.store(tw.full(B, tw.sum(tile).item(), f32))

    assert (run(padded, ((4,), f32), 4, np.ones(5, np.float32), WIDTH=5) == 5).all()


def test_operators_of_values_have_their_functions_too():
    @tw.kernel
    def divided(z: Mut[i32, B], x: Ref[i32, N], n: i32) -> None:
        quotient, rest = divmod(x.load_like(z), n)
        z.store(quotient * 100 + rest + pow(n, 2))

    x = np.arange(-4, 4, dtype=np.int32)
    got = run(divided, ((8,), i32), 8, x, 3)
    np.testing.assert_array_equal(got, x // 3 * 100 + x % 3 + 9)


def root(t):
    return math.sqrt(t)


def nearest(t):
    return round(t)


def below_zero(t):
    return t * math.log2(-1.0)


def by_zero(t):
    return t * divmod(3, 0)[0]


def too_long(t):
    return t * pow(10, 10**9)


def of_a_tile(t):
    return t * tw.next_power_of_2(t)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (root, "`math.sqrt`: it computes constants.*on tiles and scalars use `tw.sqrt`"),
        (nearest, "`round`: it computes constants.*on tiles and scalars use `tw.round`"),
        (below_zero, "`log2`: (math domain error|expected a positive input)"),
        (by_zero, "`divmod`: integer division or modulo by zero"),
        (too_long, "the result would have thousands of digits"),
        (of_a_tile, "the argument of next_power_of_2 must be known"),
    ],
)
def test_what_cannot_be_computed_is_refused(function, message):
    with pytest.raises(tw.CompileError, match=f"(?s){message}"):
        run(by_function, ((8,), f32), 8, ONES, ACT=function)


@pytest.mark.parametrize(("a", "b"), [(0, 4), (7, 2), (-7, 2), (7, -2), (2**70, 3)])
def test_cdiv_on_the_host(a, b):
    assert tw.cdiv(a, b) == -(-a // b)
    assert tw.cdiv(np.int64(7), 2) == 4


def test_next_power_of_2_on_the_host():
    assert [tw.next_power_of_2(n) for n in (-3, 0, 1, 2, 3, 4, 5, 1000, 2**40 + 1)] == [
        1, 1, 1, 2, 4, 4, 8, 1024, 2**41,
    ]  # fmt: skip
    with pytest.raises(TypeError):
        tw.next_power_of_2(1.5)

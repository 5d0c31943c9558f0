"""Numbers that are two things: each is converted once, and the one that is checked is passed.

A `Liar` is a subclass of `int` whose methods all speak of another number than Python has stored in
it. A launch takes the number that is stored, wherever it is given, or refuses the object.
"""

from __future__ import annotations

import enum
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import tilewright as tw
from tilewright import Const, Mapped, Mut, Ref, bool_, f32, f64, i8, i32, i64
from tilewright.dims import BM, BN, B, N
from tilewright.kernels import sum as sum_of


def refuse(text, error=tw.LaunchError):
    return pytest.raises(error, match=re.escape(text))


class Liar(int):
    """An integer that says, whenever it is asked, that it is another."""

    said = 0

    def __int__(self):
        return self.said

    __index__ = __trunc__ = __round__ = __floor__ = __ceil__ = __neg__ = __abs__ = __int__

    def __float__(self):
        return float(self.said)

    def __eq__(self, other):
        return other == self.said

    def __ne__(self, other):
        return other != self.said

    def __lt__(self, other):
        return self.said < other

    def __le__(self, other):
        return self.said <= other

    def __gt__(self, other):
        return self.said > other

    def __ge__(self, other):
        return self.said >= other

    def __hash__(self):
        return hash(self.said)

    def __bool__(self):
        return bool(self.said)

    def __mod__(self, other):
        return self.said

    __rmod__ = __mul__ = __rmul__ = __add__ = __radd__ = __sub__ = __rsub__ = __mod__
    __floordiv__ = __rfloordiv__ = __and__ = __or__ = __invert__ = __mod__


class LyingFloat(float):
    def __float__(self):
        return 99.0

    __int__ = __float__

    def __eq__(self, other):
        return other == 99.0

    def __hash__(self):
        return hash(99.0)


class Member(enum.IntEnum):
    FOUR = 4


def liar(number, said=0):
    return type("Liar", (Liar,), {"said": said})(number)


@tw.kernel
def pick(z: Mut[f32, B], x: Ref[f32, N], i: i32) -> None:
    z.store(x.partition(B)[i])


@tw.kernel
def spread(z: Mut[f32, B], by: f32) -> None:
    z.store(tw.full((B,), by, f32))


@tw.kernel
def constant(z: Mut[i32, B], *, n: Const[int]) -> None:
    z.store(tw.full((B,), n, i32))


@tw.kernel
def half(z: Mut[f32, B], *, n: Const[float]) -> None:
    z.store(tw.full((B,), n, f32))


@tw.kernel
def flag(z: Mut[i8, B], on: bool_) -> None:
    if on:
        z.store(tw.ones((B,), i8))
    else:
        z.store(tw.zeros((B,), i8))


@tw.kernel
def walk(z: Mapped[i32, BM, BN]) -> None:
    for at in z.indices():
        z.store(tw.ones((BM, BN), i32), at)


@tw.kernel
def mark(z: Mut[i32, B]) -> None:
    z.store(tw.ones((B,), i32))


@pytest.fixture
def x():
    return tw.arange(16, f32)


def picked(x, number):
    z = tw.zeros((4,), f32)
    pick(z.partition(4), x, number).sync()
    return z.numpy()[0]


# --- scalars --------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [0, 1, 3, 99, -1, 1 << 40])
def test_the_number_that_is_stored_is_checked_and_passed(x, said):
    for _ in range(4):  # cold, planned, bound
        assert picked(x, 2) == 8
        assert picked(x, liar(2, said)) == 8
        assert picked(x, said % 4) == 4 * (said % 4)
        for outside in (4, -1, 1 << 30):
            with refuse("`x`, axis 0: index"):
                picked(x, liar(outside, 2))
        with refuse("is i32: 1099511627776 is outside"):
            picked(x, liar(1 << 40, 2))


@pytest.mark.parametrize(
    "number", [2, np.int8(2), np.int64(2), np.uint16(2), liar(2), enum.IntEnum("E", {"A": 2}).A]
)
def test_integers(x, number):
    for _ in range(4):
        assert picked(x, number) == 8


NO_INTEGERS = [
    2.0, np.float32(2), True, np.bool_(1), None, "2", b"2", 2j, Decimal(2), Fraction(2), [2], (2,),
    np.timedelta64(2, "s"), np.timedelta64(2, "ns"), np.datetime64(2, "ns"),
    np.datetime64("NaT", "s"),
    np.array(2), np.array([2]), np.str_("2"), np.void(b"\2\0\0\0"), float("nan"), float("inf"),
    object(), int, LyingFloat(2), np.complex64(2), range(3), slice(2), ..., NotImplemented,
]  # fmt: skip


@pytest.mark.parametrize("number", NO_INTEGERS, ids=lambda number: type(number).__name__)
def test_what_is_no_integer(x, number):
    for _ in range(3):
        with refuse("`i` of kernel `pick` is a scalar of i32, not "):
            picked(x, number)
        assert picked(x, 1) == 4


def test_tensors_are_no_integers(x):
    torch = pytest.importorskip("torch", reason="needs torch")
    for number in (torch.tensor(2), torch.tensor([2]), torch.tensor(2.0, requires_grad=True), x):
        with refuse("`i` of kernel `pick` is a scalar of i32, not "):
            picked(x, number)


@pytest.mark.parametrize(
    "number", [1 << 31, -(1 << 31) - 1, 1 << 63, 1 << 64, 10**30, 10**5000], ids=int.bit_length
)
def test_integers_that_no_dtype_has(x, number):
    with refuse("`i` of kernel `pick` is i32: "):
        picked(x, number)
    with refuse("`i` of kernel `pick` is i32: "):
        picked(x, liar(number, 2))


def spread_out(number):
    z = tw.zeros((4,), f32)
    spread(z.partition(4), number).sync()
    return z.numpy()[0]


def test_floats():
    for _ in range(4):
        assert spread_out(LyingFloat(2.5)) == spread_out(2.5) == spread_out(np.float64(2.5)) == 2.5
        assert spread_out(liar(3, 7)) == spread_out(np.longdouble(3)) == spread_out(3) == 3
        assert np.isnan(spread_out(float("nan")))
        assert spread_out(-np.inf) == -np.inf
        for number in (10**400, -(10**5000), 1e39):
            with refuse("`by` of kernel `spread` is f32: "):
                spread_out(number)
        for number in (Decimal(2), Fraction(1, 2), 2j, np.timedelta64(2, "s"), True, "2"):
            with refuse("`by` of kernel `spread` is a scalar of f32, not "):
                spread_out(number)


WIDE = np.longdouble("1e4000")  # infinite as a float of Python


@pytest.mark.skipif(not np.isfinite(WIDE), reason="np.longdouble is np.float64 on this machine")
def test_floats_wider_than_those_of_python():
    @tw.kernel
    def spread_wide(z: Mut[f64, B]) -> None:
        z.store(tw.full((B,), WIDE, f64))

    for _ in range(3):
        assert spread_out(np.longdouble("2.5")) == 2.5
        assert spread_out(np.longdouble("-inf")) == -np.inf
        assert tw.full((4,), np.longdouble("-inf"), f64).numpy()[0] == -np.inf
        for number in (WIDE, -WIDE):
            with refuse("is outside -3.40282e+38 to 3.40282e+38"):
                spread_out(number)
            with refuse("`n` of kernel `half` is a constant of type float, not np.longdouble("):
                half(tw.zeros((4,), f32).partition(4), n=number)
            with refuse("+4000') is no f64"):
                tw.full((4,), number, f64)
    with refuse("has more digits than any dtype can hold", tw.CompileError):
        spread_wide(tw.zeros((4,), f64).partition(4))


def test_truth_values():
    z = tw.zeros((4,), i8)
    for number, expected in ((True, 1), (np.bool_(1), 1), (np.False_, 0)):
        flag(z.partition(4), number).sync()
        assert z.numpy()[0] == expected
    for number in (1, liar(1), np.array(True), "True"):
        with refuse("`on` of kernel `flag` is a scalar of bool, not "):
            flag(z.partition(4), number)


# --- constants ------------------------------------------------------------------------------------


def test_constants():
    z, w = tw.zeros((4,), i32), tw.zeros((4,), f32)
    for given in (7, liar(7, 3), np.int16(7), np.array(7)):
        for other in (3, given):
            constant(z.partition(4), n=other).sync()
            assert z.numpy()[0] == (3 if other == 3 and type(other) is int else 7)
    for given in (2.5, LyingFloat(2.5), np.float32(2.5)):
        for _ in range(3):
            half(w.partition(4), n=given).sync()
            assert w.numpy()[0] == 2.5
    for given in (1.0, True, "1", None, np.timedelta64(1, "s"), Decimal(1), [1], object()):
        with refuse("`n` of kernel `constant` is a constant of type int, not "):
            constant(z.partition(4), n=given)
    for given in (10**400, "1", Decimal(1), np.timedelta64(1, "s"), True):
        with refuse("`n` of kernel `half` is a constant of type float, not "):
            half(w.partition(4), n=given)


# --- shapes, tiles, grids -------------------------------------------------------------------------


def test_shapes():
    for make in (tw.zeros, tw.empty, lambda s, d: tw.full(s, 1, d), tw.rand):
        assert make((liar(4, 9), Member.FOUR), f32).shape == (4, 4)
        assert [type(extent) for extent in make((liar(4, 9), 4), f32).shape] == [int, int]
        with refuse("has a negative extent"):
            make((liar(-4, 4),), f32)
        with refuse("an axis can have at most 2147483647"):
            make((liar(1 << 40, 4),), f32)
    assert tw.arange(liar(4, 9)).shape == (4,)
    x = tw.zeros((4, 4), f32)
    assert x.reshape(liar(2, 4), 8).shape == (2, 8)
    assert x[liar(3, 0)].offset == 12
    assert x[liar(1, 9) : liar(3, 0)].shape == (2, 4)
    with pytest.raises(IndexError, match="index 4 is outside axis 0"):
        x[liar(4, 0)]
    assert x.permute(liar(1, 0), liar(0, 1)).shape == (4, 4)


@pytest.mark.parametrize("said", [1, 4, 8, 1 << 20])
def test_tiles(said):
    z = tw.zeros((16,), i32)
    for _ in range(3):
        cut = z.partition(liar(4, said))
        assert (cut.tile, cut.grid, type(cut.tile[0])) == ((4,), (4,), int)
        assert z.partition(said).tile == (said,)
        mark(cut).sync()
    assert z.numpy().tolist() == [1] * 16
    with refuse("axis 0 of the tile must be a positive integer"):
        z.partition(liar(-4, said))
    with refuse("axis 0 of the tile must be a positive integer"):
        z.partition(liar(0, said))
    assert tw.zeros((4, 4), i32).partition(2, 4, order=(liar(1, 0), liar(0, 1))).grid == (1, 2)


def test_walks():
    z = tw.zeros((16, 16), i32)
    walked = z.partition(4, 4).persistent(blocks=liar(3, 0), group=(liar(2, 1), liar(1, 2)))
    assert (walked.max_blocks, walked.group) == (3, (2, 1))
    assert {type(one) for one in (walked.max_blocks, *walked.group)} == {int}
    walk(walked).sync()
    assert z.numpy().all()
    for wrong in (liar(0, 3), liar(-1, 3), 1.0, "3", True):
        with refuse("blocks must be a positive integer"):
            z.partition(4, 4).persistent(blocks=wrong)
        with refuse("group must be a positive integer"):
            z.partition(4, 4).persistent(group=wrong)
    with refuse("both say which tiles come first"):
        z.partition(4, 4, order=(1, 0)).persistent(group=(liar(2, 1), 1))


def test_grids():
    z = tw.zeros((16,), i32)
    cut = z.partition(4, prefix=True)
    mark.grid(liar(2, 4))(cut).sync()
    assert z.numpy().tolist() == [1] * 8 + [0] * 8
    with refuse("each of which needs a piece"):
        mark.grid(liar(5, 2))(cut)
    with refuse("numbers of blocks are integers, not negative"):
        mark.grid(liar(-1, 2))(cut)


def test_values_of_new_tensors():
    assert tw.full((2,), liar(7, 3), i32).numpy().tolist() == [7, 7]
    for value in ("x", None, 2j, np.timedelta64(1, "s"), Decimal(1), [1, 2], object(), 300, 1.5):
        with refuse(" is no i8"):
            tw.full((2,), value, i8)
    for _ in range(2):
        with refuse(" is no i64"):
            tw.full((2,), 10**5000, i64)


def test_axes_of_functions_of_the_library():
    x = tw.ones((2, 8), f32)
    for _ in range(4):
        assert sum_of(x, axis=liar(1, 0)).sync().shape == (2,)
        assert sum_of(x, axis=0).sync().shape == (8,)
        with refuse("a tensor of shape (2, 8) has"):
            sum_of(x, axis=liar(2, 0))


class Unshowable:
    def __repr__(self):
        raise RuntimeError("not today")

    __index__ = __float__ = __int__ = __bool__ = __len__ = __iter__ = __array__ = __repr__


def test_objects_that_raise_whatever_they_are_asked(x):
    bad = Unshowable()
    z = tw.zeros((16,), f32)
    for use in (
        lambda: picked(x, bad),
        lambda: constant(tw.zeros((4,), i32).partition(4), n=bad),
        lambda: z.partition(bad),
        lambda: z.partition(4, order=bad),
        lambda: z.partition(4, order=(bad,)),
        lambda: z.partition(4, prefix=bad),
        lambda: z.partition(4, segments=bad),
        lambda: tw.partition(bad, 4),
        lambda: tw.zeros(bad),
        lambda: tw.zeros((bad,)),
        lambda: tw.zeros((4,), bad),
        lambda: tw.full((4,), bad),
        lambda: tw.full((4,), 1, device=bad),
        lambda: tw.arange(bad),
        lambda: tw.linspace(bad, 1, 4),
        lambda: tw.rand((4,), seed=bad),
        lambda: tw.fill(z, bad),
        lambda: tw.copy(z, bad),
        lambda: tw.from_dlpack(bad),
        lambda: z.partition(4).persistent(blocks=bad),
        lambda: z.partition(4).persistent(group=bad),
        lambda: pick.grid(bad),
        lambda: pick(bad, bad, bad),
        lambda: z.reshape(bad),
        lambda: z.permute(bad),
        lambda: sum_of(bad),
        lambda: sum_of(z, axis=bad),
    ):
        with pytest.raises((tw.LaunchError, TypeError)) as caught:
            use()
        assert "internal" not in str(caught.value)

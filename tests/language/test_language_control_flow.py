"""`if`, `for`, `and`/`or` and what they hand on."""

import numpy as np
import pytest
from running import assert_same, floats, run

import tilewright as tw
from tilewright import Const, Mut, Ref, f16, f32, i32
from tilewright.dims import BM, BN, B, M, N, T


def scalar(kernel, *arguments, dtype=i32, **constants):
    """The one value that a kernel of scalars computes."""
    got = run(kernel, ((4,), dtype), 4, *arguments, **constants)
    assert (got == got[0]).all()
    return got[0]


# --- if -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [-5, 0, 3, 10, 99])
def test_if_elif_else(n):
    @tw.kernel
    def graded(z: Mut[i32, B], n: i32) -> None:
        if n < 0:
            grade, extra = -1, n
        elif n == 0:
            grade, extra = 0, 0
        elif n < 10:
            grade, extra = 1, n
            grade += 4
        else:
            grade, extra = 2, 5
        z.store(tw.full((B,), grade * 1000 + extra, i32))

    cases = ((n < 0, (-1, n)), (n == 0, (0, 0)), (n < 10, (5, n)), (True, (2, 5)))
    grade, extra = next(values for holds, values in cases if holds)
    assert scalar(graded, n) == grade * 1000 + extra


@pytest.mark.parametrize("n", [0, 1])
def test_a_branch_changes_tiles_and_stores(n):
    @tw.kernel
    def branched(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        t = x.load_like(z)
        if n:
            t = t * 2
            z.store(t)
        else:
            z.store(t + 1)

    wanted = floats(f32) * 2 if n else floats(f32) + 1
    assert_same(run(branched, ((64,), f32), 32, floats(f32), n), wanted)


def test_a_condition_known_now_leaves_only_one_branch():
    @tw.kernel
    def folded(z: Mut[T, B], x: Ref[T, N], *, DOUBLE: Const[bool] = False) -> None:
        if DOUBLE and z.dtype == f32:
            t = x.load_like(z) * 2
        elif z.dtype != f32:
            t = x.load_like(z) - 1
        else:
            t = x.load_like(z)
            t = t.astype(f16).astype(f32)
        z.store(t)

    halves = np.arange(64, dtype=np.float32) / 2
    assert_same(run(folded, ((64,), f32), 32, halves), halves)
    assert_same(run(folded, ((64,), f32), 32, floats(f32), DOUBLE=True), floats(f32) * 2)
    assert_same(run(folded, ((64,), f16), 32, floats(f16), DOUBLE=True), floats(f16) - 1)


@pytest.mark.parametrize("n", [1, 3])
def test_conditional_expressions(n):
    @tw.kernel
    def chosen(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        factor = 2.0 if n > 2 else 0.5
        t = x.load_like(z) if n > 2 else tw.zeros((B,), f32)
        z.store(t * factor + (n if n > 2 else 7).astype(f32) + (1 if B > 8 else 2))

    wanted = floats(f32) * 2 + 4 if n > 2 else np.full(64, 8, np.float32)
    assert_same(run(chosen, ((64,), f32), 32, floats(f32), n), wanted)


def test_literals_in_both_branches_become_one_value():
    @tw.kernel
    def chosen(z: Mut[f32, B], n: i32) -> None:
        if n > 0:
            a, b = 1, True
        else:
            a, b = 2.5, False
        z.store(tw.full((B,), a, f32) + (1.0 if b else 10.0))

    assert scalar(chosen, 1, dtype=f32) == 2
    assert scalar(chosen, 0, dtype=f32) == 12.5


# --- for ------------------------------------------------------------------------------------------

RANGES = [(5,), (2, 6), (6, 2), (0,), (1, 10, 3), (9, -1, -2), (3, 4, -1), (10, 0, -3), (-3, 3)]


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_ranges_of_constants(bounds):
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]

    @tw.kernel
    def counted(z: Mut[i32, B]) -> None:
        total = 0
        for i in range(start, stop, step):
            total = total * 3 + i
        z.store(tw.full((B,), total, i32))

    wanted = 0
    for i in range(*bounds):
        wanted = wanted * 3 + i
    assert scalar(counted) == wanted


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (3, 3), (5, 2), (-4, 4), (7, -2)])
def test_ranges_of_launch_values_up_and_down(start, stop):
    @tw.kernel
    def counted(z: Mut[i32, B], start: i32, stop: i32) -> None:
        up, down, turns = 0, 0, 0
        for i in range(start, stop):
            up = up * 3 + i
        for i in range(start, stop, -2):
            down = down * 3 + i
            turns += 1
        z.store(tw.where(tw.arange(B) == 0, up, tw.where(tw.arange(B) == 1, down, turns)))

    wanted_up = wanted_down = 0
    for i in range(start, stop):
        wanted_up = wanted_up * 3 + i
    for i in range(start, stop, -2):
        wanted_down = wanted_down * 3 + i
    turns = len(range(start, stop, -2))
    got = run(counted, ((4,), i32), 4, start, stop)
    np.testing.assert_array_equal(got, [wanted_up, wanted_down, turns, turns])


def test_nested_loops_carry_values():
    @tw.kernel
    def summed(z: Mut[f32, BM, BN], x: Ref[f32, M, N]) -> None:
        xs = x.partition(BM, BN)
        total, visits = tw.zeros((BM, BN), f32), 0
        for i in range(xs.num_tiles(0)):
            row = tw.zeros((BM, BN), f32)
            for j in range(xs.num_tiles(1)):
                row += xs[i, j]
                visits += 1
            total += row * (i + 1).astype(f32)
        z.store(total + visits.astype(f32))

    x = np.arange(8 * 12, dtype=np.float32).reshape(8, 12)
    tiles = x.reshape(2, 4, 3, 4).transpose(0, 2, 1, 3)
    wanted = tiles[0].sum(0) + 2 * tiles[1].sum(0) + 6
    assert_same(run(summed, ((4, 4), f32), (4, 4), x), wanted)


def test_a_carried_literal_takes_the_dtype_it_meets():
    @tw.kernel
    def summed(z: Mut[T, B], x: Ref[T, N]) -> None:
        total, largest, half = 0, 0, 0
        for i in range(x.partition(1).num_tiles(0)):
            value = x.partition(1)[i].item()
            total = total + value
            largest = max(largest, value)
            half = half + 0.5
        z.store(tw.full((B,), total * 10 + largest, z.dtype) + half.astype(z.dtype))

    x = np.array([1, 4, 2, 1], np.float16)
    assert scalar(summed, x, dtype=f16) == 80 + 4 + 2
    assert scalar(summed, x.astype(np.float32), dtype=f32) == 80 + 4 + 2
    assert scalar(summed, x.astype(np.int32), dtype=i32) == 80 + 4 + 2


def test_swapping_carried_values():
    @tw.kernel
    def fibonacci(z: Mut[i32, B], n: i32) -> None:
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        z.store(tw.full((B,), a, i32))

    assert [scalar(fibonacci, n) for n in range(8)] == [0, 1, 1, 2, 3, 5, 8, 13]


def test_a_loop_may_set_names_of_its_own():
    @tw.kernel
    def local(z: Mut[i32, B], n: i32) -> None:
        total = 0
        for i in range(n):
            square = i * i
            total += square
        square = total + 1
        z.store(tw.full((B,), square, i32))

    assert scalar(local, 4) == 1 + 4 + 9 + 1


def test_if_inside_for_inside_if():
    @tw.kernel
    def woven(z: Mut[i32, B], n: i32) -> None:
        total = 0
        if n > 0:
            for i in range(n):
                if i % 3 == 0:
                    total += i
                elif i % 3 == 1:
                    total += 100
        else:
            total = -1
        z.store(tw.full((B,), total, i32))

    def wanted(n):
        return sum(i if i % 3 == 0 else 100 for i in range(n) if i % 3 < 2) if n > 0 else -1

    assert [scalar(woven, n) for n in (0, 1, 7)] == [wanted(n) for n in (0, 1, 7)]


# --- and, or, chains ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [-1, 0, 1, 5])
def test_logic_on_scalars(n):
    @tw.kernel
    def logical(z: Mut[i32, B], n: i32) -> None:
        bits = 0
        if n > 0 and n < 3:
            bits += 1
        if n < 0 or n > 3:
            bits += 2
        if not n:
            bits += 4
        if 0 <= n < 5:
            bits += 8
        if (n > 0 or B == 4) and n != 5:
            bits += 16
        z.store(tw.full((B,), bits, i32))

    wanted = (n > 0 and n < 3) + 2 * (n < 0 or n > 3) + 4 * (not n) + 8 * (0 <= n < 5)
    assert scalar(logical, n) == wanted + 16 * (n != 5)


def test_constants_decide_and_or_as_in_python():
    @tw.kernel
    def decided(z: Mut[i32, B], *, GROUP: Const[int] = 0) -> None:
        z.store(tw.full((B,), (GROUP or 7) + (GROUP and 100), i32))

    assert scalar(decided) == 7
    assert scalar(decided, GROUP=3) == 103


@tw.kernel(deny_checks=True)
def guarded(z: Mut[i32, B], ids: Ref[i32, M], x: Ref[i32, N]) -> None:
    i = ids.partition(1)[z.index[0]].item()
    xs = x.partition(1)
    value = 0
    if i >= 0 and i < xs.num_tiles(0) and xs[i].item() > 5:
        value = xs[i].item()
    other = xs[i].item() if 0 <= i < xs.num_tiles(0) else -1
    last = 1 if i < 0 or i >= xs.num_tiles(0) or xs[i].item() == 9 else 0
    chain = 1 if 0 <= i < xs.num_tiles(0) and 0 < xs[i].item() < 8 else 0
    z.store(tw.full((B,), value * 1000 + other * 10 + last * 2 + chain, i32))


def test_the_left_side_guards_the_right():
    """Under deny_checks, so that what guards is also what proves."""
    ids = np.array([0, 1, 2, -1, 3, 1000], np.int32)
    x = np.array([7, 3, 9], np.int32)
    got = run(guarded, ((6,), i32), 1, ids, x)
    wanted = []
    for i in ids:
        inside = 0 <= i < 3
        value = x[i] if inside else 0
        other = x[i] if inside else -1
        last = not inside or x[i] == 9
        chain = inside and 0 < x[i] < 8
        wanted.append((value if value > 5 else 0) * 1000 + other * 10 + last * 2 + chain)
    np.testing.assert_array_equal(got, wanted)


def test_a_chain_does_not_compute_what_follows_a_false_comparison():
    @tw.kernel
    def chained(z: Mut[i32, B], ids: Ref[i32, M], x: Ref[i32, N]) -> None:
        i = ids.partition(1)[0].item()
        found = 1 if -1 < i < x.partition(1)[i].item() else 0
        z.store(tw.full((B,), found, i32))

    x = np.array([5, 0], np.int32)
    assert scalar(chained, np.array([-7], np.int32), x) == 0
    assert scalar(chained, np.array([0], np.int32), x) == 1

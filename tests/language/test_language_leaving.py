"""`while`, `break`, `continue` and `return`, against Python's own.

A function of scalars is called by Python and inlined into a kernel; both must agree.
"""

import numpy as np
import pytest
from running import agrees, run

import tilewright as tw
from tilewright import Mapped, Mut, Ref, f32, i32
from tilewright.dims import B, N

# --- while ----------------------------------------------------------------------------------------


def collatz(n):
    steps = 0
    n = max(n, 1)
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def first_power(n):
    power = 1
    while True:
        power = power * 2
        if power > n:
            break
    return power


def set_inside(n):
    i = 0
    while True:
        square = i * i
        i += 1
        if square >= n:
            break
    return square + i


def never_runs(n):
    total = n
    while False:
        total = total + 1
    return total


def two_conditions(n):
    a, b = 0, n
    while a < 10 and b > 0:
        a, b = a + 1, b - 2
    return a * 100 + b


def nested_whiles(n):
    total, i = 0, 0
    while i < n:
        j = 0
        while j < i:
            total += i * j
            j += 1
        i += 1
    return total


@pytest.mark.parametrize(
    "function", [collatz, first_power, set_inside, never_runs, two_conditions, nested_whiles]
)
def test_while(function):
    agrees(function)


# --- break and continue ---------------------------------------------------------------------------


def breaks(n):
    total = 0
    for i in range(8):
        if i >= n:
            break
        total += i + 1
    return total


def continues(n):
    total = 0
    for i in range(8):
        if i % 3 == n % 3:
            continue
        total += i * 10 + 1
    return total


def both_arms_leave(n):
    total = 0
    for i in range(10):
        total += 1
        if i > n:
            total += 100
            break
        else:  # noqa: RET508
            total += 10
            continue
    return total


def breaks_at_once(n):
    total = n
    for i in range(5):
        total += i + 1
        break
    return total


def down_with_break(n):
    last = -1
    for i in range(9, -1, -2):
        last = i
        if i < n:
            break
    return last


def nested_breaks(n):
    total = 0
    for i in range(5):
        for j in range(5):
            if i * j > n:
                break
            if (i + j) % 2 == 0:
                continue
            total += i * 10 + j
        if total > 60:
            break
    return total


def while_in_for(n):
    total = 0
    for i in range(4):
        j = n
        while j > i:
            j -= 2
            if j == 3:
                continue
            if j < -1:
                break
            total += j
        total = total * 2
    return total


def deep(n):
    total = 0
    for i in range(12):
        if i > 2:
            if i % 2 == 0:
                total += 1
                if i > n:
                    total += 1000
                    break
                total += 3
            else:
                if i == 7:
                    continue
            total += 7
        total += i
    return total


@pytest.mark.parametrize(
    "function",
    [breaks, continues, both_arms_leave, breaks_at_once, down_with_break, nested_breaks,
     while_in_for, deep],
)  # fmt: skip
def test_break_and_continue(function):
    agrees(function)


# --- in the kernel --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_a_kernel_returns_early(n):  # noqa: C901
    @tw.kernel
    def early(z: Mut[i32, B], n: i32) -> None:
        if z.index[0] >= n:
            return
        z.store(tw.full((B,), z.index[0], i32))
        for i in range(4):
            if i == n:
                return
            while True:
                if i == z.index[0]:
                    return
                break
        z.store(tw.full((B,), 50, i32))

    def wanted(block):
        if block >= n:
            return 77
        for i in range(4):
            if i in (n, block):
                return block
        return 50

    got = run(early, ((16,), i32), 4, n)
    np.testing.assert_array_equal(got, np.repeat([wanted(block) for block in range(4)], 4))


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_leaving_a_walk(rows):
    @tw.kernel
    def some(z: Mapped[i32, B], stop: i32) -> None:
        seen = 0
        for at in z.indices():
            (i,) = at
            if i % 2 == 1:
                continue
            if i > stop:
                break
            seen += 1
            z.store(tw.full((B,), seen, i32), at)

    z = tw.zeros((rows,), i32)
    some(z.partition(1).persistent(blocks=3), 9).sync()
    wanted = np.zeros(rows, np.int32)
    for block in range(3):
        seen = 0
        for i in range(block, rows, 3):
            if i % 2 == 1:
                continue
            if i > 9:
                break
            seen += 1
            wanted[i] = seen
    np.testing.assert_array_equal(z.numpy(), wanted)


def test_a_guard_that_leaves_proves_what_follows():
    @tw.kernel(deny_checks=True)
    def shifted(z: Mut[f32, B], x: Ref[f32, N], n: i32) -> None:
        xs = x.partition(B)
        total = tw.zeros((B,), f32)
        for i in range(n):
            if i >= xs.num_tiles(0):
                break
            total = total + xs[i]
        i = n
        while True:
            i -= 1
            if i < 0:
                break
            if i >= xs.num_tiles(0):
                continue
            total = total + xs[i]
        z.store(total)
        if n < 0 or n >= xs.num_tiles(0):
            return
        z.store(total + xs[n])

    x = np.arange(10, dtype=np.float32)
    for n in (-1, 0, 1, 3, 9):
        got = run(shifted, ((4,), f32), 4, x, n)
        padded = np.pad(x, (0, 2)).reshape(3, 4)
        wanted = 2 * padded[: max(n, 0)].sum(0) + (padded[n] if 0 <= n < 3 else 0)
        np.testing.assert_array_equal(got, wanted)

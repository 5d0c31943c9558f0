"""`return` from the middle of a helper, against Python's own."""

import importlib.util
from typing import Any

import numpy as np
import pytest
from running import agrees, run

import tilewright as tw
from tilewright import Mut, Ref, f32, i32
from tilewright.dims import B, N


def guard(n):
    if n < 0:
        return -1
    return n * 2


def ladder(n):
    if n < 0:
        return -1
    elif n < 3:  # noqa: RET505
        if n == 1:
            return 11
        n = n + 100
    else:
        if n > 20:
            return 21
    return n + 1


def from_a_loop(n):
    for i in range(10):
        if i * i > n:
            return i
    return -7


def from_nested_loops(n):
    count = 0
    for i in range(5):
        for j in range(5):
            count += 1
            if i * j == n:
                return i * 100 + j * 10
            if j > i:
                break
        count += 100
    return count


def only_returns(n):
    i = 0
    while True:
        if i > n:
            return i
        i += 1


def returns_in_a_loop_of_returns(n):
    for i in range(3):
        while True:
            n += 1
            if n % 7 == 0:
                return n + i
            if n % 2 == 0:
                break
    return n


def from_partly_left_branches(n):
    x = 0
    if n > 0:
        if n > 4:
            return 5
        x = 1
        for i in range(n):
            if i == 2:
                return 70
            x += i
    else:
        x = 2
    x = x * 10
    if n == 1:
        return x
    return x + 3


def always_in_the_loop(n):
    for i in range(1, 3):
        return i + n
    return 0


def of_tuples(n):
    a, b = pair(n)
    return a * 1000 + b


def pair(n):
    for i in range(6):
        if i > n:
            return i, n + 1
        if i == 4:
            return 0, 2
    return 7, n


def nothing(n):
    effect(n)
    return n


def effect(n):
    if n < 2:
        return
    n = n + 1


@pytest.mark.parametrize(
    "function",
    [guard, ladder, from_a_loop, from_nested_loops, only_returns, returns_in_a_loop_of_returns,
     from_partly_left_branches, always_in_the_loop, of_tuples, nothing],
)  # fmt: skip
def test_return_of_a_helper(function):
    agrees(function)


# --- functions inside functions -------------------------------------------------------------------


def nested_functions(n):
    offset = 3

    def shifted(k, *, by):
        t = k + by
        if t > offset:
            return t * 2
        for i in range(k):
            if i > 2:
                return i
        return offset

    def twice(k):
        return shifted(shifted(k, by=1), by=offset)

    offset = 5
    double = lambda k: twice(k) + offset  # noqa: E731
    return double(n) + shifted(n, by=0)


def function_of_a_branch(n):
    def chosen(k):
        return k + 1

    total = 0
    for i in range(n):

        def local(k):
            total = k * 2
            return total + i  # noqa: B023

        total = (total + local(i) + chosen(total)) % 1000
    return total


@pytest.mark.parametrize("function", [nested_functions, function_of_a_branch])
def test_functions_inside_functions(function):
    agrees(function)


def summed(t: tw.Tile[f32], p: tw.Partition[f32], *more: tw.Tile[f32], scale: float = 2) -> Any:
    """A helper with types, defaults and keywords, for partitions of any rank."""
    for axis in tw.static_range(len(t.shape)):
        t = t + p.num_tiles(axis).astype(f32) * scale
    for one in more:
        t = t + one
    return t


def test_a_typed_helper():
    @tw.kernel
    def typed(z: Mut[f32, B], x: Ref[f32, N]) -> None:
        t = x.load_like(z)
        z.store(summed(t, x.partition(B), t, t) + summed(t, scale=0, p=x.partition(B)))

    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(run(typed, ((8,), f32), 4, x), x * 4 + 4)


def test_a_long_row_of_returns(tmp_path):
    rows = "".join(f"    if n == {i}:\n        return {i * i}\n" for i in range(200))
    path = tmp_path / "row_of_returns.py"
    path.write_text(f"def row(n):\n{rows}    return n\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    agrees(module.row, (-1, 0, 31, 33, 34, 70, 199, 200))


def tile_or_zeros(xs, i):
    if i < 0:
        return tw.zeros((4,), f32)
    if i > 100:
        if i < 200:
            return tw.ones((4,), f32)
        i = i - 200
    if i >= xs.num_tiles(0) or i < 0:
        return tw.zeros((4,), f32)
    return xs[i]


def test_a_guard_of_a_helper_proves_what_follows():
    @tw.kernel(deny_checks=True)
    def guarded(z: Mut[f32, B], x: Ref[f32, N], i: i32) -> None:
        z.store(tile_or_zeros(x.partition(B), i))

    x = np.arange(10, dtype=np.float32)
    tiles = np.pad(x, (0, 2)).reshape(3, 4)
    for i in (-1, 0, 2, 3, 150, 201, 203, 500):
        place = i - 200 if i >= 200 else i
        wanted = tiles[place] if 0 <= place < 3 else np.full(4, 100 < i < 200, np.float32)
        np.testing.assert_array_equal(run(guarded, ((4,), f32), 4, x, i), wanted)

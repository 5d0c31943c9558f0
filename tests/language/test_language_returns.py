"""`return` from the middle of a helper, against Python's own."""

import pytest
from running import agrees


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

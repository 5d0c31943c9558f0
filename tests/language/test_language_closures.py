"""Functions made by functions hold values, which leave branches and loops with them.

Each function is run by Python as well, which says what is right.
"""

import pytest
from running import agrees, run

import tilewright as tw
from tilewright import Mut, i32
from tilewright.dims import B


def times(by):
    return lambda t: t * by


def curried(a):
    return lambda b: lambda c: a * 100 + b * 10 + c


def pair(a):
    def first(t):
        return t + a

    def second(t):
        return first(t) * a

    return first, second


def composed(f, g):
    return lambda x: f(g(x))


def from_a_branch(n):
    if n > 2:
        f = times(n * 3)
    else:
        return -1
    return f(7)


def from_both_branches(n):
    if n > 2:
        f, g = pair(n)
    else:
        f, g = pair(n * 2)
    return f(1) + g(1) * 1000


def chosen(n):
    f = times(n) if n > 2 else times(n * 10)
    return f(3)


def composed_in_branches(n):
    h = composed(times(n), times(3)) if n > 2 else composed(times(4), times(n))
    return h(2)


def composed_of_composed(n):
    f = composed(composed(times(n), times(3)), composed(times(2), composed(times(5), times(n))))
    return f(1)


def composed_in_turns(n):
    f = times(1)
    for i in (2, 3, n, 5):
        f = composed(f, times(i))
    return f(n)


def _wrapped(f, by):
    def inner(t):
        return f(t) + by

    return inner


def wrapped_again_and_again(n):
    f = times(n)
    for i in (1, 20, 300):
        f = _wrapped(f, i)
    return f(n)


def curried_in_a_branch(n):
    f = curried(n) if n > 1 else curried(3)
    g = f(n + 1)
    if n > 5:
        g = f(7)
    return g(2)


def _searched(n):
    while True:
        n = n + 1
        doubled = n * 2
        if n % 7 == 0:
            return lambda t: t * doubled


def from_an_endless_loop(n):
    return _searched(n)(3)


def _found(n):
    for i in range(n):
        if i % 3 == 1:
            return times(i)
        if i % 3 == 2:
            return times(i * 100)
    return times(5)


def from_a_loop_or_behind_it(n):
    return _found(n)(3)


def handed_on_by_a_loop(n):
    f = times(1)
    for i in range(n):
        if i > 1:
            f = times(i)
    return f(3)


def replaced_inside_a_loop(n):
    total = n
    f = times(1)
    for i in range(3):
        f = composed(times(i), times(2))
        total = total + f(3)
    return total


def _late(n):
    f = lambda t: t * n  # noqa: E731
    if n > 3:
        n = n * 100
    return f


def names_are_those_of_the_return(n):
    return _late(n)(2)


def names_of_an_open_function_are_those_of_the_call(n):
    k = 5

    def made(a):
        return lambda t: t * a + k

    g = made(n) if n > 3 else made(2)
    k = n + 7
    return g(10)


FUNCTIONS = (
    from_a_branch,
    from_both_branches,
    chosen,
    composed_in_branches,
    composed_of_composed,
    composed_in_turns,
    wrapped_again_and_again,
    curried_in_a_branch,
    from_an_endless_loop,
    from_a_loop_or_behind_it,
    handed_on_by_a_loop,
    replaced_inside_a_loop,
    names_are_those_of_the_return,
    names_of_an_open_function_are_those_of_the_call,
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_function_does_what_python_does(function):
    agrees(function)


def test_a_function_that_one_branch_makes_where_the_other_returns():
    @tw.kernel
    def branch(z: Mut[i32, B], n: i32) -> None:
        if n > 2:
            f = times(n * 3)
        else:
            return
        z.store(f(tw.ones((B,), i32)))

    assert run(branch, ((4,), i32), 4, 5).tolist() == [15] * 4
    assert run(branch, ((4,), i32), 4, 1).tolist() == [77] * 4


def test_a_function_that_calls_itself_is_refused_wherever_it_was_made():
    def made(n):
        def count(x):
            return count(x) + n

        return count

    @tw.kernel
    def recursive(z: Mut[i32, B], n: i32) -> None:
        z.store(tw.full((B,), made(n)(1), i32))

    with pytest.raises(tw.CompileError, match="`count` calls itself"):
        run(recursive, ((4,), i32), 4, 5)


def test_a_function_that_makes_itself_anew_at_every_call_is_refused():
    @tw.kernel
    def endless(z: Mut[i32, B], n: i32) -> None:
        again = lambda f: lambda x: f(f)(x) + f(f)(x - 1)  # noqa: E731
        z.store(tw.full((B,), again(again)(n), i32))

    with pytest.raises(tw.CompileError, match="`lambda` calls itself"):
        run(endless, ((4,), i32), 4, 5)

"""The prover never proves what some launch contradicts, and proves what kernels need."""

from itertools import product as combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_terms import EXTENT, LEAVES, OTHER, SCALAR, Concrete, J, K, samples

from tilewright.analysis.arithmetic import known, least, quotient, remainder
from tilewright.analysis.intervals import I32
from tilewright.analysis.proofs import Scope
from tilewright.analysis.terms import Linear, Origin, Variable, number
from tilewright.ir.launch_terms import Extent, ScalarArgument, TileCount


def every_setting():
    """Small launches, with every value of `k` (over tiles of two) and of `j` (from -2 to k)."""
    for extent, other, scalar in combinations(range(8), (0, 1, 5, 8), (-3, 0, 1, 2, 7)):
        for k in range(-(-extent // 2)):
            for j in range(-2, k + 1):
                yield {EXTENT: extent, OTHER: other, SCALAR: scalar, "k": k, "j": j}


SETTINGS = [Concrete(setting) for setting in every_setting()]
SAMPLES = samples([*LEAVES, K, K, J])


@given(SAMPLES, st.lists(SAMPLES, max_size=2))
@settings(max_examples=150)
def test_nothing_is_proved_that_a_launch_contradicts(sample, conditions):
    scope = Scope()
    scope.add(*(condition.term for condition in conditions))
    found = [
        numbers.of(sample.term).low
        for numbers in SETTINGS
        if all(numbers.of(condition.term).low >= 0 for condition in conditions)
    ]
    if found:
        assert not scope.proves(sample.term - min(found) - 1)


def variable(name: str, low: Linear, high: Linear, serial: int) -> Linear:
    return Linear.of(Variable(serial, name, Origin.LOOP, I32.interval, (low,), (high,)))


X, Y, N = known(Extent("x", 0)), known(Extent("y", 0)), known(ScalarArgument("n"))
X64, X128 = known(TileCount("x", 0, 64)), known(TileCount("x", 0, 128))
Y64 = known(TileCount("y", 0, 64))
ZERO = number(0)
k = variable("k", ZERO, X64 - 1, 0)


@pytest.mark.parametrize(
    "goal",
    [
        k,
        X64 - 1 - k,
        X64 - X128,  # fewer tiles where tiles are larger
        X - X64,
        X64.times(64) - X,
        X - X64.times(64) + 63,
        X64 - quotient(X, number(64)),
        X - 1 - k.times(64),  # every tile begins inside
        least((k, N)) - least((N, number(0))),
        number(7) - remainder(N, number(8)),
        k - remainder(k, number(8)),
        quotient(k, number(2)),
        X64 - 1 - quotient(k, number(2)),
    ],
)
def test_proved_on_every_launch(goal):
    assert Scope().proves(goal)
    assert not Scope().proves(-goal - 1)


@pytest.mark.parametrize(
    "goal",
    [
        k - remainder(k, number(8)) - 1,
        X64 - 2 - k,
        X128 - X64,
        quotient(X, number(64)) - X64,
        N,
        Y64 - X64,
        X64.times(64) - X - 1,
    ],
)
def test_not_proved_without_a_reason(goal):
    assert not Scope().proves(goal)


@pytest.mark.parametrize(
    ("facts", "goal"),
    [
        ([Y - X], Y64 - X64),
        ([-remainder(X, number(64))], quotient(X, number(64)) - X64),
        ([-remainder(X, number(128))], X - X128.times(128)),
        ([-remainder(X, number(128))], X64 - X128.times(2)),
        ([N - 1], N - 1 - remainder(X, N)),
        ([N - 1], X - quotient(X, N)),
        ([N - k, X64 - 1 - N], X64 - 1 - N),
    ],
)
def test_facts_prove_what_they_imply_and_no_more(facts, goal):
    scope = Scope()
    assert not scope.proves(goal)
    scope.add(*facts)
    assert scope.proves(goal)


def test_a_divisor_of_the_wrong_size_proves_nothing():
    scope = Scope()
    scope.add(-remainder(X, number(32)))
    assert not scope.proves(quotient(X, number(64)) - X64)


def test_inner_scopes_know_what_outer_ones_do_and_not_the_other_way():
    outer = Scope()
    outer.add(N - 1)
    inner = Scope(outer, guarded=True, looped=True)
    inner.add(X - 9)
    assert inner.proves(N - 1)
    assert not outer.proves(X - 9)
    assert inner.is_guarded
    assert inner.is_in_loop
    assert not outer.is_guarded
    assert inner.facts == (X - 9, N - 1)


def test_contradictions_are_seen():
    scope = Scope()
    scope.add(k - X64)
    assert scope.is_unreachable()
    assert not Scope(None).is_unreachable()
    plain = Scope()
    plain.add(number(-1))
    assert plain.is_surely_unreachable


def test_a_hard_question_is_given_up_in_bounded_time():
    scope = Scope()
    many = [known(ScalarArgument(f"s{i}")) for i in range(12)]
    scope.add(*(a - b for a in many for b in many if a != b))
    assert not scope.proves(many[0] - many[1] - 1)
    assert scope.proves(many[0] - many[1])

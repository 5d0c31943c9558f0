"""Terms mean what the arithmetic they were built from means, and equal values get equal terms."""

import pickle
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st
from random_terms import EXTENT, LEAVES, SETTINGS, Concrete, samples

from tilewright.analysis.arithmetic import (
    greatest,
    held,
    known,
    least,
    product,
    quotient,
    remainder,
    unheld,
)
from tilewright.analysis.formulas import FALSE, OPAQUE, AllOf, AnyOf, compare
from tilewright.analysis.intervals import I32, Interval, MachineType
from tilewright.analysis.terms import Known, Linear, Origin, Variable, number
from tilewright.ir.attributes import Predicate
from tilewright.ir.launch_terms import Blocks, Extent, ScalarArgument, Stride, TileCount

x = known(EXTENT)
n = known(ScalarArgument("n"))
ROWS = known(TileCount("x", 0, 64))


@given(samples(LEAVES), SETTINGS)
@settings(max_examples=300)
def test_a_term_has_the_value_of_the_arithmetic_it_was_built_from(sample, setting):
    value = sample.meaning(setting)
    assert Concrete(setting).of(sample.term) == Interval(value, value)
    assert sample.term.range.low <= value <= sample.term.range.high


@given(samples(LEAVES), samples(LEAVES), SETTINGS, st.sampled_from(Predicate))
@settings(max_examples=200)
def test_a_condition_as_python_is_true_where_it_is_true(left, right, setting, predicate):
    formula = compare(predicate, left.term, right.term)
    formula = AnyOf((AllOf((formula, formula)), FALSE))
    numbers = Concrete(setting)

    def text_of(term):
        (found,) = {numbers.known(known(term).atom).low}
        return str(found)

    text = formula.as_python(text_of)
    plain = all(isinstance(atom, Known) for term in formula.terms() for atom in term.coefficients)
    assert (text is not None) == plain
    if text is not None:
        assert eval(text) is formula.truth(numbers)
    assert OPAQUE.as_python(text_of) is None


def test_choices_keep_their_order_which_is_no_part_of_their_meaning():
    """Proofs are bounded, so what they find must not depend on the hashes of a process."""
    pairs = [(x, n), (n, x), (ROWS, x), (n, ROWS)]
    for pair in pairs:
        for extremum in (least, greatest):
            atom = extremum(pair).atom
            assert getattr(atom, "choices", None) == pair
            assert extremum(pair) == extremum(reversed(pair))
            assert hash(extremum(pair)) == hash(extremum(reversed(pair)))
        assert product(*pair) == product(*reversed(pair))


def test_equal_sums_are_equal_terms():
    assert x + 1 + n - 1 == n + x
    assert hash(x + n) == hash(n + x)
    assert (x + n) - n == x
    assert x - x == number(0)
    assert x + 1 != x
    assert x != "x"
    assert product(x + 1, n) == product(n, x) + n


def test_launch_terms_have_the_range_of_their_kind():
    top = 2**31 - 1
    assert x.range == Interval(0, top)
    assert known(TileCount("x", 0, 128)).range == Interval(0, top // 128 + 1)
    assert known(Blocks()).range == Interval(1, top)
    assert known(Stride("x", 0)).range == I32.interval
    assert known(ScalarArgument("b"), MachineType(8)).range == Interval(-128, 127)


def test_both_ways_to_round_up_are_the_tile_count():
    assert -quotient(-x, number(64)) == ROWS
    assert quotient(x + 63, number(64)) == ROWS
    assert quotient(x + 62, number(64)) != ROWS
    assert -quotient(-ROWS, number(2)) == known(TileCount("x", 0, 128))


def test_division_takes_out_what_divides():
    assert quotient(x.times(64) + 5, number(64)) == x
    assert remainder(x.times(64) + 5, number(64)) == number(5)
    assert quotient(quotient(x, number(4)), number(16)) == quotient(x, number(64))
    assert quotient(x, number(-2)) == quotient(-x, number(2))
    assert quotient(n, n) == number(1)
    assert remainder(n, n) == number(0)
    assert str(remainder(x, number(64))) == "x.shape[0] % 64"


def test_extremes_keep_only_what_can_decide():
    assert least((x, x + 1)) == x
    assert greatest((x, x + 1)) == x + 1
    assert least((x, number(-1))) == number(-1)
    assert least((least((x, n)), x)) == least((n, x))


def test_sums_are_followed_through_wraps_and_nothing_else_is():
    sum_ = held(n + 1, I32)
    assert sum_ != n + 1
    assert held(unheld(sum_, 32) - 1, I32) == n
    assert unheld(sum_, 64) == sum_
    assert held(number(2**31), I32) == number(-(2**31))
    assert held(x, I32) == x


def test_terms_read_like_the_kernel():
    k = Linear.of(Variable(0, "k", Origin.LOOP, I32.interval))
    assert str(k.times(2) - 3) == "2*k - 3"
    assert str(-k) == "-k"
    assert str(ROWS - 1) == "ceil(x.shape[0] / 64) - 1"
    assert str(quotient(k, n)) == "(k) // n"
    assert str(least((k, n))) == "min(k, n)"
    assert str(number(0)) == "0"


def test_terms_travel_between_processes():
    """Hashes of text differ there, so a kept hash must not travel."""
    term = least((x + 1, product(n, n)))
    again = (
        "import pickle, sys\n"
        "term = pickle.loads(sys.stdin.buffer.read())\n"
        "same = type(term)(term.constant, dict(term.coefficients))\n"
        "assert {term: 1}[same] == 1\n"
    )
    sent = pickle.dumps(term)
    subprocess.run([sys.executable, "-c", again], input=sent, check=True)
    assert pickle.loads(sent) == term
    assert Extent("x", 0) in {getattr(atom, "term", None) for atom in term.atoms()}

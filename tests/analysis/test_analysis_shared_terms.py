"""Terms share their parts: what asks a term something visits each part once.

Each term here stands for a tree of some 2**36 parts.
"""

from itertools import pairwise

from tilewright.analysis.arithmetic import greatest, known, least, quotient, remainder
from tilewright.analysis.formulas import OPAQUE, AtLeastZero, Formula, all_of, any_of
from tilewright.analysis.intervals import Interval
from tilewright.analysis.terms import Linear, Origin, TermIntervals, Variable, number
from tilewright.check.corners import is_exact
from tilewright.check.launch import IndexInRange
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.launch_terms import ScalarArgument

STEPS = 36  # a term is followed up to a height of 40
MANY = 300
n, m = known(ScalarArgument("n")), known(ScalarArgument("m"))


def doubled(start: Linear, steps: int = STEPS) -> Linear:
    """A term that names the one before it twice, at every step."""
    for step in range(steps):
        start = quotient(start, number(3 + step % 5)) - remainder(start, number(5 + step % 3))
    return start


def chosen(start: Variable, steps: int = STEPS) -> Variable:
    """A variable whose ends are two terms of the one before it, at every step."""
    wide = Interval(-(2**31), 2**31 - 1)
    for serial in range(steps):
        term = Linear.of(start)
        start = Variable(
            serial + 1, "", Origin.JOIN, wide, (least((term, m)),), (greatest((term, n)),)
        )
    return start


def test_a_term_is_asked_about_its_atoms_once():
    term = doubled(n)
    assert len([*term.atoms()]) == 2 * STEPS + 1
    assert term.is_launch_known
    assert term.is_evaluable
    first = Variable(0, "i", Origin.LOOP, Interval(0, 9), (number(0),), (number(9),))
    last = Linear.of(chosen(first))
    assert len([*last.variables()]) == STEPS + 1
    assert last.is_evaluable
    assert not last.is_launch_known


def test_equal_terms_that_share_nothing_with_each_other_are_compared_step_by_step():
    one, other = doubled(n), doubled(known(ScalarArgument("n")))
    assert one == other
    assert one != other + 1
    assert one - other == number(0)


def test_the_text_of_a_term_stays_short():
    assert str(doubled(n, 2)) == "(n // 3 - n % 5) // 4 - (n // 3 - n % 5) % 6"
    assert "…" in str(doubled(n))
    assert len(str(doubled(n))) < 500


def test_a_repeated_variable_is_found_behind_shared_parts():
    loop = Variable(0, "i", Origin.LOOP, Interval(0, 9), (number(0),), (number(9),))
    once = quotient(Linear.of(loop), number(3))
    assert is_exact(once)
    assert not is_exact(doubled(Linear.of(loop)))
    assert not doubled(n).repeats_variables, "what the launch knows does not vary"


def test_a_launch_evaluates_shared_parts_once():
    check = IndexInRange(None, False, (), CheckSite("x", 0, "tile"), doubled(n), m, (doubled(n),))
    assert check.holds({ScalarArgument("n"): 0, ScalarArgument("m"): 4})
    assert not check.holds({ScalarArgument("n"): -7, ScalarArgument("m"): 4})


def test_premises_that_lead_from_one_to_the_next_are_followed_some_of_the_way():
    links = [known(ScalarArgument(f"a{i}")) for i in range(2)]
    wide = Interval(-(2**31), 2**31 - 1)
    row = [Linear.of(Variable(i, "", Origin.JOIN, wide)) for i in range(MANY)]
    rises = tuple(after - before - 1 for before, after in pairwise(row))
    check = IndexInRange(
        None, True, (row[0] - links[0], *rises), CheckSite("x", 0, "tile"), row[5], links[1],
        (row[5],),
    )  # fmt: skip
    environment = {ScalarArgument("a0"): 1, ScalarArgument("a1"): 4}
    assert check.holds(environment)
    far = IndexInRange(
        None, True, (row[0] - links[0], *rises), CheckSite("x", 0, "tile"), row[-1], links[1],
        (row[-1],),
    )  # fmt: skip
    assert not far.holds(environment), "true, and too far away to be seen"


def test_a_row_of_choices_says_nothing_in_the_end_and_a_row_of_conditions_keeps_its_first():
    positive = [AtLeastZero(n - i) for i in range(MANY)]
    row: Formula = positive[0]
    for part in positive[1:]:
        row = all_of(row, part)
    assert row.facts()[:3] == (n, n - 1, n - 2)
    assert len(row.facts()) < MANY
    assert not row.negated().facts()
    assert row.truth(TermIntervals()) is None
    choice: Formula = positive[0]
    for part in positive[1:]:
        choice = any_of(all_of(choice, part), all_of(choice.negated(), OPAQUE))
    assert choice.size < MANY
    assert not choice.facts()
    assert not choice.is_launch_known


def test_many_choices_nest():
    terms = [known(ScalarArgument(f"a{i}")) for i in range(MANY)]
    found = terms[0]
    for term in terms[1:]:
        found = least((found, term))
    assert len([*found.atoms()]) < MANY * 2
    assert found.height < 30

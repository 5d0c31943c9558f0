"""Kernels whose checks fail on every launch, beside neighbours that are fine."""

from __future__ import annotations

import pytest
from kernel_sketch import Sketch
from settling import TOP, launch, only_proved, outcomes, settle

from tilewright.check.ledger import Rung
from tilewright.check.violations import (
    IndexOutOfRange,
    RequireNeverHolds,
    RequireNotLaunchKnown,
    ZeroDivisor,
)
from tilewright.ir.check_sites import CheckSite


def test_constant_past_the_end():
    sketch = Sketch()
    sketch.check(4, 4)
    (violation,) = settle(sketch).violations
    assert violation == IndexOutOfRange(
        violation.location, CheckSite("x", 0, 64), "4", "4", is_negative=False
    )
    assert str(violation.location).startswith("kernel.py:")


def test_constant_inside_is_proved():
    sketch = Sketch()
    sketch.check(3, 4)
    settled = settle(sketch)
    assert only_proved(settled)
    assert settled.ledger.entries[0].reason == "3 is one of 4"


@pytest.mark.parametrize("index", [-1, -TOP - 1])
def test_constant_below_zero(index):
    sketch = Sketch()
    sketch.check(index, sketch.tiles("x"))
    (violation,) = settle(sketch).violations
    assert isinstance(violation, IndexOutOfRange)
    assert violation.is_negative
    assert violation.index == str(index)


def test_a_loop_that_starts_below_zero():
    sketch = Sketch()
    with sketch.loop(-2, 4) as j:
        sketch.check(j, sketch.tiles("x"))
    (violation,) = settle(sketch).violations
    assert isinstance(violation, IndexOutOfRange)
    assert (violation.index, violation.is_negative) == ("-2", True)


def test_a_loop_that_goes_one_too_far():
    sketch = Sketch()
    tiles = sketch.tiles("x", 1)
    with sketch.loop(0, sketch.math("+", tiles, 1)) as k:
        sketch.check(k, tiles)
    (violation,) = settle(sketch).violations
    assert isinstance(violation, IndexOutOfRange)
    assert violation.index == violation.count == "ceil(x.shape[1] / 64)"


def test_a_bad_end_of_a_loop_that_may_be_empty_waits_for_the_launch():
    sketch = Sketch()
    with sketch.loop(-2, sketch.scalar("n")) as j:
        sketch.check(j, sketch.tiles("x"))
    settled = settle(sketch)
    assert not settled.violations
    (check,) = settled.launch_checks
    assert check.holds(launch(x0=64, n=-2))
    assert not check.holds(launch(x0=64, n=-1))


def test_a_bad_end_that_a_guard_leaves_out_is_no_violation():
    sketch = Sketch()
    with sketch.loop(-2, 4) as j, sketch.when(sketch.compare(j, ">=", 0)):
        sketch.check(j, 4)
    assert only_proved(settle(sketch))


def test_code_that_never_runs_cannot_be_wrong():
    sketch = Sketch()
    with sketch.loop(0, 0):
        sketch.check(-1, 4)
    n = sketch.scalar("n")
    with sketch.when(sketch.compare(n, "<", 3)), sketch.when(sketch.compare(n, ">", 7)):
        sketch.check(-1, 4)
    assert not settle(sketch).violations


def test_an_owned_axis_with_a_static_grid():
    sketch = Sketch()
    pieces = 256 // 64
    with sketch.loop(0, pieces) as part:
        sketch.check(part, pieces, "z", 1)
        sketch.check(sketch.math("+", part, 4), pieces, "z", 1)
    settled = settle(sketch)
    assert outcomes(settled) == [Rung.PROVED]
    assert len(settled.violations) == 1


def test_division_by_zero():
    sketch = Sketch()
    sketch.divide("//", sketch.scalar("n"), 0)
    assert isinstance(settle(sketch).violations[0], ZeroDivisor)


def test_requiring_what_no_launch_knows():
    sketch = Sketch()
    sketch.require(sketch.compare(sketch.loaded("flag"), ">", 0), "flag > 0")
    settled = settle(sketch)
    assert settled.violations == (
        RequireNotLaunchKnown(
            settled.violations[0].location, "flag > 0", "flag", "read from memory"
        ),
    )
    assert not settled.launch_checks


def test_requiring_the_impossible_and_the_obvious():
    sketch = Sketch()
    sketch.require(sketch.compare(sketch.extent("x"), "<", 0), "M < 0")
    sketch.require(sketch.compare(sketch.extent("x"), ">=", 0), "M >= 0")
    settled = settle(sketch)
    assert [type(violation) for violation in settled.violations] == [RequireNeverHolds]
    assert not settled.launch_checks


def test_requiring_several_things_at_once():
    sketch = Sketch()
    n = sketch.scalar("n")
    both = sketch.math("and", sketch.compare(n, ">=", 0), sketch.compare(n, "<", sketch.tiles("x")))
    sketch.require(both, "0 <= n < M")
    sketch.check(n, sketch.tiles("x"))
    settled = settle(sketch)
    assert outcomes(settled) == [Rung.PROVED]
    (check,) = settled.launch_checks
    assert [check.holds(launch(n=n, x0=64)) for n in (-1, 0, 1)] == [False, True, False]

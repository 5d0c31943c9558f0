"""Kernels with nothing left to check, neither in the kernel nor at launch."""

from __future__ import annotations

import pytest
from kernel_sketch import Sketch
from settling import TOP, launch, only_proved, outcomes, settle, tied_gemm

from tilewright.check.ledger import Counts, Rung
from tilewright.dtypes import Element, i64, u32
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.launch_terms import Extent
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Break, Continue, For, Return
from tilewright.ir.ops.elementwise import AndI, CmpI, ExtI, TruncI, XOrI
from tilewright.ir.ops.internal import BoundsCheck
from tilewright.ir.ops.shape import Constant
from tilewright.ir.types import scalar


def test_persistent_gemm():
    settled = settle(tied_gemm())
    assert only_proved(settled)
    assert settled.ledger.counts == Counts(4, 0, 0, 0)
    assert [entry.reason for entry in settled.ledger.entries] == [
        "`i` walks the tiles of z along axis 0",
        "`k` counts the tiles of x along axis 1",
        "`k` counts the tiles of x along axis 1",
        "`j` walks the tiles of z along axis 1",
    ]


def test_gemm_with_no_ties_is_left_to_three_launch_checks():
    sketch = Sketch()
    depth = sketch.tiles("x", 1)
    grid = sketch.tiles("z", 0), sketch.tiles("z", 1)
    with sketch.walk(*grid) as (i, j), sketch.loop(0, depth) as k:
        sketch.check(i, sketch.tiles("x", 0), "x", 0)
        sketch.check(k, depth, "x", 1)
        sketch.check(k, sketch.tiles("y", 0), "y", 0)
        sketch.check(j, sketch.tiles("y", 1), "y", 1)
    settled = settle(sketch)
    assert settled.ledger.counts == Counts(1, 3, 0, 0)
    assert not any(check.guarded for check in settled.launch_checks)
    fits = launch(z0=128, z1=128, x0=128, x1=100, y0=100, y1=128)
    assert all(check.holds(fits) for check in settled.launch_checks)
    short = {**fits, Extent("y", 0): 64}
    (failed,) = [check for check in settled.launch_checks if not check.holds(short)]
    assert failed.explain(short) == (
        f"{failed.location}: `y`, axis 0: the index `k` goes from 0 to 1, but the axis has 1 tile, "
        "0 to 0 (ceil(x.shape[1] / 64) = 2, ceil(y.shape[0] / 64) = 1)"
    )


def test_no_launch_check_of_a_loop_that_never_runs():
    sketch = Sketch()
    with sketch.loop(0, sketch.tiles("x", 1)) as k:
        sketch.check(k, sketch.tiles("y", 0), "y", 0)
        sketch.check(0, sketch.tiles("v", 0), "v", 0)
    settled = settle(sketch)
    empty = launch(x1=0, y0=0, v0=0)
    assert all(check.holds(empty) for check in settled.launch_checks)
    assert not any(check.holds({**empty, Extent("x", 1): 1}) for check in settled.launch_checks)


def test_block_index_over_the_same_axis():
    sketch = Sketch()
    rows = sketch.tiles("z", 0)
    i, j = sketch.block_index(rows, sketch.tiles("z", 1))
    sketch.check(i, rows, "x", 0)
    sketch.check(j, sketch.tiles("z", 1), "x", 1)
    settled = settle(sketch)
    assert only_proved(settled)
    assert settled.ledger.entries[0].reason == (
        "`i` is the block's place among the tiles of z along axis 0"
    )


def test_block_index_over_another_axis_is_left_to_the_launch():
    """`load_like` of an input with fewer tiles than the grid: refused at every such launch."""
    sketch = Sketch()
    (i,) = sketch.block_index(sketch.tiles("z"))
    sketch.check(i, sketch.tiles("x"), "x")
    (check,) = settle(sketch).launch_checks
    assert check.holds(launch(z0=128, x0=65))
    for _ in range(2):
        assert not check.holds(launch(z0=129, x0=128))
    assert check.holds(launch(z0=0, x0=0))


def test_adding_and_taking_away_gives_the_same_index_even_if_it_wraps_between():
    sketch = Sketch()
    rows = sketch.tiles("z")
    (i,) = sketch.block_index(rows)
    sketch.check(sketch.math("-", sketch.math("+", i, TOP), TOP), rows)
    assert only_proved(settle(sketch))


def test_a_branch_that_gives_the_same_index_either_way():
    sketch = Sketch()
    rows = sketch.tiles("z")
    (i,) = sketch.block_index(rows)
    chosen = sketch.either(sketch.compare(sketch.loaded(), ">", 0), i, i)
    sketch.check(chosen, rows)
    assert only_proved(settle(sketch))


def test_loops_with_steps_and_later_starts():
    sketch = Sketch()
    tiles = sketch.tiles("x")
    with sketch.loop(0, tiles, 3) as k:
        sketch.check(k, tiles)
    with sketch.loop(5, tiles) as k:
        sketch.check(k, tiles)
        sketch.check(sketch.math("-", k, 5), tiles)
    with sketch.loop(sketch.math("max", sketch.scalar("n"), 0), tiles) as k:
        sketch.check(k, tiles)
    assert only_proved(settle(sketch))


def test_clipped_indices():
    sketch = Sketch()
    tiles = sketch.tiles("x")
    with sketch.when(sketch.compare(tiles, ">", 0)):
        last = sketch.math("-", tiles, 1)
        clipped = sketch.math("max", sketch.math("min", sketch.loaded(), last), 0)
        sketch.check(clipped, tiles)
    assert only_proved(settle(sketch))


def test_a_larger_tile_of_the_same_axis():
    sketch = Sketch()
    with sketch.loop(0, sketch.tiles("x", 0, 128)) as k:
        sketch.check(k, sketch.tiles("x", 0, 64))
    assert only_proved(settle(sketch))


def test_guards():
    sketch = Sketch()
    tiles = sketch.tiles("x")
    device = sketch.loaded()
    inside = sketch.math("and", sketch.compare(device, ">=", 0), sketch.compare(device, "<", tiles))
    with sketch.when(inside):
        sketch.check(device, tiles)
    with sketch.loop(0, tiles) as k, sketch.when(sketch.compare(k, ">", 0)):
        sketch.check(sketch.math("-", k, 1), tiles)
    with sketch.loop(0, tiles) as k, sketch.when(sketch.compare(k, "!=", 0)):
        sketch.check(sketch.math("-", k, 1), tiles)
    settled = settle(sketch)
    assert only_proved(settled)
    assert "under the conditions around it" in settled.ledger.entries[0].reason


@pytest.mark.parametrize("leaving", [Return, Continue, Break])
def test_leaving_early_is_a_guard(leaving):
    sketch = Sketch()
    tiles = sketch.tiles("x")
    with sketch.loop(0, sketch.scalar("n")) as k:
        sketch.leave_when(sketch.compare(k, ">=", tiles), leaving())
        sketch.check(k, tiles)
    assert only_proved(settle(sketch))


def test_a_guard_holds_for_what_it_is_about_and_no_longer():
    sketch = Sketch()
    tiles, device, other = sketch.tiles("x"), sketch.loaded(), sketch.loaded()
    with sketch.when(
        sketch.math("and", sketch.compare(device, ">=", 0), sketch.compare(device, "<", tiles))
    ):
        sketch.check(other, tiles)
    sketch.check(device, tiles)
    assert outcomes(settle(sketch)) == [Rung.HOISTED, Rung.HOISTED]


def test_the_other_branch_knows_the_opposite():
    sketch = Sketch()
    tiles = sketch.tiles("x")
    device = sketch.loaded()
    low = sketch.compare(device, "<", 0)
    outside = sketch.math("or", low, sketch.compare(device, ">=", tiles))
    sketch.leave_when(outside, Return())
    sketch.check(device, tiles)
    assert only_proved(settle(sketch))


def test_values_that_a_loop_carries_inside_their_limits():
    sketch = Sketch()
    with sketch.carrying_loop(0, sketch.tiles("x"), [0]) as (_, (slot,), carry):
        sketch.check(slot, 4, "buffer")
        carry(sketch.divide("%", sketch.math("+", slot, 1), 4))
    sketch.check(sketch.last.results[0], 4, "buffer")
    assert only_proved(settle(sketch))


def test_a_while_loop_with_its_own_counter():
    sketch = Sketch()
    tiles = sketch.tiles("x")
    with sketch.endless([0]) as ((i,), carry, _):
        sketch.leave_when(sketch.compare(i, ">=", tiles), Break())
        sketch.check(i, tiles)
        carry(sketch.math("+", i, 1))
    assert only_proved(settle(sketch))


def test_requirements_are_facts_everywhere():
    sketch = Sketch()
    depth = sketch.extent("x", 1)
    with sketch.loop(0, sketch.tiles("x", 1)) as k:
        sketch.check(k, sketch.divide("//", depth, 64), "y")
    sketch.require(sketch.compare(sketch.divide("%", depth, 64), "==", 0), "K % 64 == 0")
    settled = settle(sketch)
    assert set(outcomes(settled)) == {Rung.PROVED}
    (check,) = settled.launch_checks
    assert check.holds(launch(x1=128))
    assert not check.holds(launch(x1=130))
    assert check.explain(launch(x1=130)) == (
        f"{check.location}: the kernel requires `K % 64 == 0` (x.shape[1] = 130)"
    )


def test_required_equality_ties_two_axes():
    sketch = Sketch()
    sketch.require(sketch.compare(sketch.extent("x"), "==", sketch.extent("y")))
    with sketch.loop(0, sketch.tiles("x")) as k:
        sketch.check(k, sketch.tiles("y"), "y")
    assert outcomes(settle(sketch)) == [Rung.PROVED]


def test_an_unsigned_index_is_never_negative_and_a_reinterpreted_one_may_be():
    sketch = Sketch()
    count = sketch.add(ExtI(source=sketch.tiles("x"), to=scalar(Element.I64), dtype=i64)).result
    row = sketch.loaded()
    row.dtype = u32
    signed = Signedness.UNSIGNED
    wide = sketch.add(ExtI(source=row, to=scalar(Element.I64), signedness=signed, dtype=i64)).result
    below = sketch.add(CmpI(lhs=wide, rhs=count, comparison_predicate=Predicate.LESS_THAN)).result
    with sketch.when(below):
        site = CheckSite("x", 0, 64)
        checked = sketch.add(BoundsCheck(index=wide, count=count, site=site)).result
        narrow = sketch.add(TruncI(source=checked, to=scalar(Element.I32))).result
        sketch.check(narrow, sketch.tiles("x"))
    assert only_proved(settle(sketch))

    signed_row = sketch = Sketch()
    row = signed_row.loaded()
    with sketch.when(sketch.compare(row, "<", sketch.tiles("x"))):
        sketch.check(row, sketch.tiles("x"))
    assert outcomes(settle(sketch)) == [Rung.HOISTED]


def test_masked_bits_and_negated_conditions():
    sketch = Sketch()
    row = sketch.loaded()
    sketch.check(sketch.add(AndI(lhs=row, rhs=sketch.value(7))).result, 8)
    true = sketch.add(Constant(value=1, to=scalar(Element.I1))).result
    outside = sketch.math(
        "or", sketch.compare(row, "<", 0), sketch.compare(row, ">=", sketch.tiles("x"))
    )
    with sketch.when(sketch.add(XOrI(lhs=outside, rhs=true)).result):
        sketch.check(row, sketch.tiles("x"))
    assert only_proved(settle(sketch))


def test_a_step_that_may_not_be_positive_gives_no_range():
    sketch = Sketch()
    with sketch.loop(0, 4, sketch.scalar("n")) as k:
        sketch.check(k, 4)
    assert outcomes(settle(sketch)) == [Rung.IN_PLACE]


def test_an_unsigned_loop_from_below_zero_gives_no_range():
    sketch = Sketch()
    body = Block((Value(scalar(Element.I32)),))
    with sketch.builder.inside(body):
        sketch.check(body.args[0], 4)
        sketch.add(Continue())
    low, high, step = sketch.scalar("n"), sketch.value(4), sketch.value(1)
    sketch.add(For(lower_bound=low, upper_bound=high, step=step, unsigned_cmp=True, body=body))
    assert outcomes(settle(sketch)) == [Rung.IN_PLACE]

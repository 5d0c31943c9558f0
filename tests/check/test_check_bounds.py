"""The ladder, one kernel for each case: what is proved, refused, left to the launch or kept."""

from __future__ import annotations

import time

import pytest
from kernel_sketch import Sketch

from tilewright.check.bounds import Settled, settle_checks, settle_checks_in_kernel
from tilewright.check.ledger import Counts, Outcome
from tilewright.check.violations import (
    IndexOutOfRange,
    RequireNeverHolds,
    RequireNotLaunchKnown,
    ZeroDivisor,
)
from tilewright.dtypes import Element, i64, u32
from tilewright.ir.attributes import Predicate, Signedness
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Extent, ScalarArgument
from tilewright.ir.op import Block, Value
from tilewright.ir.ops.control import Break, Continue, For, Return, Yield
from tilewright.ir.ops.elementwise import AndI, CmpI, ExtI, TruncI, XOrI
from tilewright.ir.ops.internal import BoundsCheck, CheckSite, DivisorCheck
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape
from tilewright.ir.types import TileType, scalar

TOP = 2**31 - 1


def settle(sketch: Sketch) -> Settled:
    return settle_checks(sketch.function())


def outcomes(settled: Settled) -> list[Outcome]:
    return [entry.outcome for entry in settled.ledger.entries]


def only_proved(settled: Settled) -> bool:
    return (
        set(outcomes(settled)) == {Outcome.PROVED}
        and not settled.launch_checks
        and not settled.violations
        and not [op for op in settled.function.walk() if isinstance(op, BoundsCheck)]
    )


def launch(**numbers: int) -> dict:
    """`x0=5` is an extent, `n=5` a scalar."""
    return {
        Extent(name[0], int(name[1])) if len(name) == 2 else ScalarArgument(name): value
        for name, value in numbers.items()
    }


# --- refused when compiled ------------------------------------------------------------------------


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
    assert outcomes(settled) == [Outcome.PROVED]
    assert len(settled.violations) == 1


def test_division_by_zero():
    sketch = Sketch()
    sketch.divide("//", sketch.scalar("n"), 0)
    assert isinstance(settle(sketch).violations[0], ZeroDivisor)


# --- accepted with nothing left in the kernel -----------------------------------------------------


def tied_gemm() -> Sketch:
    """Dims that the signature ties are one term: M is z's and x's, N z's and y's, K x's and y's."""
    sketch = Sketch()
    rows, columns, depth = sketch.tiles("z", 0), sketch.tiles("z", 1), sketch.tiles("x", 1, 32)
    with sketch.walk(rows, columns) as (i, j), sketch.loop(0, depth) as k:
        for index, count, subject, axis in (
            (i, rows, "x", 0),
            (k, depth, "x", 1),
            (k, depth, "y", 0),
            (j, columns, "y", 1),
        ):
            sketch.check(index, count, subject, axis)
    return sketch


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
    assert outcomes(settle(sketch)) == [Outcome.HOISTED, Outcome.HOISTED]


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
    assert set(outcomes(settled)) == {Outcome.PROVED}
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
    assert outcomes(settle(sketch)) == [Outcome.PROVED]


# --- left to the launch ---------------------------------------------------------------------------


def test_a_constant_in_an_axis_of_unknown_extent():
    sketch = Sketch()
    sketch.check(0, sketch.tiles("x"))
    sketch.check(3, sketch.tiles("x"))
    settled = settle(sketch)
    assert [entry.reason for entry in settled.ledger.entries] == [
        "at launch: `ceil(x.shape[0] / 64)` must not be zero",
        "at launch: 3 must lie in [0, ceil(x.shape[0] / 64))",
    ]
    zero, three = settled.launch_checks
    assert zero.holds(launch(x0=1))
    assert not zero.holds(launch(x0=0))
    assert zero.explain(launch(x0=0)).endswith(
        "`x`, axis 0: index 0, but the axis is empty (ceil(x.shape[0] / 64) = 0)"
    )
    assert three.holds(launch(x0=193))
    assert not three.holds(launch(x0=192))


def test_a_scalar_argument_is_checked_on_both_sides():
    sketch = Sketch()
    sketch.check(sketch.scalar("n"), sketch.tiles("x"))
    (check,) = settle(sketch).launch_checks
    assert [check.holds(launch(x0=128, n=n)) for n in (-1, 0, 1, 2)] == [False, True, True, False]
    assert check.terms == {ScalarArgument("n"), next(iter(check.terms - {ScalarArgument("n")}))}


def test_an_affine_index_that_may_wrap():
    """`2 * pid + 1`: proved never, decided with the numbers of the launch, wrap included."""
    sketch = Sketch()
    (i,) = sketch.block_index(sketch.extent("z"))
    sketch.check(sketch.math("+", sketch.math("*", i, 2), 1), sketch.extent("x"))
    settled = settle(sketch)
    assert outcomes(settled) == [Outcome.LAUNCH]
    (check,) = settled.launch_checks
    assert not check.guarded
    assert check.holds(launch(z0=8, x0=16))
    assert not check.holds(launch(z0=8, x0=15))
    assert not check.holds(launch(z0=2**30 + 1, x0=TOP))


def test_grouped_heads():
    sketch = Sketch()
    (head,) = sketch.block_index(sketch.extent("q"))
    group = sketch.divide("//", sketch.extent("q"), sketch.extent("k"))
    sketch.check(sketch.divide("//", head, group), sketch.extent("k"), "k")
    settled = settle(sketch)
    assert settled.ledger.counts == Counts(0, 3, 0, 0)
    assert all(check.holds(launch(q0=32, k0=8)) for check in settled.launch_checks)
    assert not all(check.holds(launch(q0=33, k0=8)) for check in settled.launch_checks)
    assert not all(check.holds(launch(q0=33, k0=0)) for check in settled.launch_checks)


def test_a_guarded_access_does_not_refuse_the_launch_but_asks_for_the_other_variant():
    sketch = Sketch()
    tiles, wanted = sketch.tiles("x"), sketch.compare(sketch.loaded(), ">", 0)
    with sketch.loop(0, sketch.tiles("y")) as k, sketch.when(wanted):
        sketch.check(k, tiles)
    function = sketch.function()
    settled = settle_checks(function)
    assert outcomes(settled) == [Outcome.LAUNCH]
    assert settled.launch_checks[0].guarded
    variant = settle_checks_in_kernel(function)
    assert outcomes(variant) == [Outcome.IN_PLACE]
    assert len(kept(variant)) == 1
    (check,) = variant.launch_checks
    assert not check.holds(launch(x0=0, y0=64))
    assert check.explain(launch(x0=0, y0=64)).endswith(
        "`x`, axis 0: an index is checked in the kernel, but the axis is empty "
        "(ceil(x.shape[0] / 64) = 0)"
    )


def test_a_guard_that_the_launch_decides():
    sketch = Sketch()
    with sketch.when(sketch.compare(sketch.scalar("n"), ">", 0)):
        sketch.check(sketch.scalar("n"), 4)
    (check,) = settle(sketch).launch_checks
    assert [check.holds(launch(n=n)) for n in (-5, 0, 3, 4)] == [True, True, True, False]


def test_joined_indices_are_compared_as_a_whole():
    sketch = Sketch()
    (i,) = sketch.block_index(sketch.tiles("z"))
    chosen = sketch.either(sketch.compare(sketch.loaded(), ">", 0), i, 7)
    sketch.check(chosen, sketch.tiles("x"))
    (check,) = settle(sketch).launch_checks
    assert check.guarded
    assert check.holds(launch(z0=64, x0=8 * 64))
    assert not check.holds(launch(z0=64, x0=7 * 64))


def test_one_launch_check_for_the_same_question():
    sketch = Sketch()
    for _ in range(3):
        sketch.check(0, sketch.tiles("x"))
    settled = settle(sketch)
    assert len(settled.launch_checks) == 1
    assert settled.ledger.counts.launch == 3


def test_a_divisor_known_at_launch():
    sketch = Sketch()
    sketch.divide("//", sketch.extent("x"), sketch.scalar("n"))
    settled = settle(sketch)
    (check,) = settled.launch_checks
    assert check.holds(launch(n=-3))
    assert not check.holds(launch(n=0))
    assert check.explain(launch(n=0)).endswith("the divisor `n` is zero (n = 0)")
    assert settled.ledger.entries[0].axis is None


# --- kept in the kernel ---------------------------------------------------------------------------


def kept(settled: Settled) -> list:
    return [op for op in settled.function.walk() if isinstance(op, BoundsCheck | DivisorCheck)]


def test_an_index_from_memory():
    sketch = Sketch()
    sketch.check(sketch.loaded("row"), sketch.tiles("x"))
    settled = settle(sketch)
    assert outcomes(settled) == [Outcome.HOISTED]
    assert settled.ledger.entries[0].reason == "the index is read from memory"
    assert len(kept(settled)) == 1
    (empty,) = settled.launch_checks
    assert empty.holds(launch(x0=1))
    assert not empty.holds(launch(x0=0))


def test_an_index_computed_from_memory():
    sketch = Sketch()
    sketch.check(sketch.math("+", sketch.loaded("row"), 1), 8)
    (entry,) = settle(sketch).ledger.entries
    assert entry.reason == "`row` is read from memory"


def test_an_element_of_a_loaded_tile():
    sketch = Sketch()
    tile = sketch.loaded()
    tile.type = TileType(Element.I32, (1,))
    element = sketch.add(Reshape(source=tile, to=scalar(Element.I32))).result
    with sketch.loop(0, 4):
        sketch.check(element, 8)
    settled = settle(sketch)
    assert outcomes(settled) == [Outcome.IN_PLACE]
    assert settled.ledger.entries[0].reason == "the index is read from memory"


def test_a_counter_that_the_body_changes():
    sketch = Sketch()
    tiles = sketch.tiles("x")
    with sketch.carrying_loop(0, tiles, [0]) as (_, (index,), carry):
        sketch.check(index, tiles)
        carry(sketch.math("+", index, 1))
    settled = settle(sketch)
    assert outcomes(settled) == [Outcome.IN_PLACE]
    assert settled.ledger.entries[0].reason == "the index is changed by a loop"


def test_an_index_replaced_in_the_loop():
    sketch = Sketch()
    rows = sketch.tiles("z")
    (i,) = sketch.block_index(rows)
    with sketch.carrying_loop(0, 4, [i]) as (_, (index,), carry):
        sketch.check(index, rows)
        carry(sketch.loaded())
    assert outcomes(settle(sketch)) == [Outcome.IN_PLACE]


def test_an_index_that_the_loop_hands_on_unchanged_is_still_itself():
    sketch = Sketch()
    rows = sketch.tiles("z")
    (i,) = sketch.block_index(rows)
    with sketch.carrying_loop(0, 4, [i]) as (_, (index,), carry):
        sketch.check(index, rows)
        carry(index)
    assert only_proved(settle(sketch))


def test_a_loop_from_the_block_index_in_steps_of_the_grid():
    sketch = Sketch()
    tiles = sketch.tiles("x")
    (i,) = sketch.block_index(sketch.scalar("blocks"))
    with sketch.loop(i, sketch.math("*", tiles, 2), sketch.scalar("blocks")) as k:
        sketch.check(k, tiles)
    assert outcomes(settle(sketch)) != [Outcome.PROVED]


def test_a_product_that_may_wrap_and_its_remainder():
    sketch = Sketch()
    (i,) = sketch.block_index(sketch.extent("z"))
    square = sketch.math("*", i, i)
    sketch.check(square, sketch.extent("x"))
    sketch.check(sketch.math("-", sketch.math("%", square, 8), 1), 8)
    settled = settle(sketch)
    assert outcomes(settled) == [Outcome.LAUNCH, Outcome.LAUNCH]
    wraps = launch(z0=65536, x0=TOP)
    assert not settled.launch_checks[0].holds(wraps)


def test_floor_division_below_zero_is_not_hidden():
    """`(i - 1) // 2` is -1 for the first block; rounding to zero would prove it inside."""
    sketch = Sketch()
    (i,) = sketch.block_index(4)
    sketch.check(sketch.math("//", sketch.math("-", i, 1), 2), 2)
    settled = settle(sketch)
    assert outcomes(settled) == [Outcome.LAUNCH]
    assert not settled.launch_checks[0].holds({})


def test_a_failed_check_proves_nothing():
    """The second access sees the index again, not the first check's good outcome."""
    sketch = Sketch()
    row = sketch.loaded()
    sketch.check(row, sketch.tiles("x"))
    sketch.check(row, sketch.tiles("x"))
    assert outcomes(settle(sketch)) == [Outcome.HOISTED, Outcome.HOISTED]


def test_a_divisor_from_memory_and_a_tile_of_divisors():
    sketch = Sketch()
    sketch.divide("//", 7, sketch.loaded())
    tile = sketch.loaded()
    tile.type = TileType(Element.I32, (8,))
    sketch.add(DivisorCheck(divisor=tile))
    settled = settle(sketch)
    assert outcomes(settled) == [Outcome.HOISTED, Outcome.HOISTED]
    assert settled.ledger.entries[1].reason == "the divisor is read from memory"


def test_a_tile_of_equal_divisors():
    sketch = Sketch()
    ones = TileType(Element.I32, (1,))
    eight = TileType(Element.I32, (8,))
    constant = sketch.add(Constant(value=3, to=eight)).result
    sketch.add(DivisorCheck(divisor=constant))
    reshaped = sketch.add(Reshape(source=sketch.scalar("n"), to=ones)).result
    sketch.add(DivisorCheck(divisor=sketch.add(Broadcast(source=reshaped, to=eight)).result))
    settled = settle(sketch)
    assert outcomes(settled) == [Outcome.PROVED, Outcome.LAUNCH]
    assert not kept(settled)


def test_a_dynamic_part_of_a_tile_is_an_index_like_any_other():
    sketch = Sketch()
    sketch.check(sketch.loaded(), 4, "tile")
    with sketch.loop(0, 4) as part:
        sketch.check(part, 4, "tile")
    settled = settle(sketch)
    assert outcomes(settled) == [Outcome.HOISTED, Outcome.PROVED]
    assert not settled.launch_checks


# --- preconditions --------------------------------------------------------------------------------


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
    assert outcomes(settled) == [Outcome.PROVED]
    (check,) = settled.launch_checks
    assert [check.holds(launch(n=n, x0=64)) for n in (-1, 0, 1)] == [False, True, False]


# --- types ----------------------------------------------------------------------------------------


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
    assert outcomes(settle(sketch)) == [Outcome.HOISTED]


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
    assert outcomes(settle(sketch)) == [Outcome.IN_PLACE]


def test_an_unsigned_loop_from_below_zero_gives_no_range():
    sketch = Sketch()
    body = Block((Value(scalar(Element.I32)),))
    with sketch.builder.inside(body):
        sketch.check(body.args[0], 4)
        sketch.add(Continue())
    low, high, step = sketch.scalar("n"), sketch.value(4), sketch.value(1)
    sketch.add(For(lower_bound=low, upper_bound=high, step=step, unsigned_cmp=True, body=body))
    assert outcomes(settle(sketch)) == [Outcome.IN_PLACE]


# --- the function that comes out ------------------------------------------------------------------


def test_settled_checks_are_gone_and_their_uses_read_the_index():
    sketch = Sketch()
    tiles, row = sketch.tiles("x"), sketch.loaded()
    with sketch.loop(0, tiles) as k:
        proved = sketch.check(k, tiles)
        kept_check = sketch.check(row, tiles)
        sum_ = sketch.math("+", proved, kept_check)
        sketch.math("+", sum_, sum_)
    function = sketch.function()
    before = list(function.walk())
    settled = settle_checks(function)
    assert list(function.walk()) == before
    loop = settled.function.body.ops[-2]
    check, first, second, _ = loop.body.ops
    assert isinstance(check, BoundsCheck)
    assert (first.lhs, first.rhs) == (k, check.result)
    assert (second.lhs, second.rhs) == (first.result, first.result)


def test_a_function_without_checks_is_left_alone():
    function = Sketch().function()
    assert settle_checks(function).function is function


def test_the_ledger_as_plain_data():
    sketch = Sketch()
    sketch.check(0, 1, "x", 2)
    ledger = settle(sketch).ledger
    assert ledger.to_json() == [
        {
            "outcome": "proved",
            "location": str(ledger.entries[0].location),
            "subject": "x",
            "axis": 2,
            "reason": "0 is one of 1",
        }
    ]
    assert not ledger.in_kernel


def test_it_is_quick_enough_for_every_call():
    function: Function = tied_gemm().function()
    settle_checks(function)
    started = time.process_time()
    for _ in range(20):
        settle_checks(function)
    assert (time.process_time() - started) / 20 < 0.005
    assert isinstance(function.body.ops[-1], Return | Yield)

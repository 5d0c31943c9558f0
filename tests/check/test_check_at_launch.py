"""Checks that the actual numbers of a launch decide."""

from __future__ import annotations

from kernel_sketch import Sketch
from settling import TOP, kept, launch, outcomes, settle

from tilewright.check.bounds import settle_checks
from tilewright.check.ledger import Counts, Rung
from tilewright.check.placement import Placement
from tilewright.ir.launch_terms import ScalarArgument
from tilewright.ir.ops.control import Break, Return


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
    assert outcomes(settled) == [Rung.LAUNCH]
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
    assert outcomes(settled) == [Rung.LAUNCH]
    assert settled.launch_checks[0].guarded
    variant = settle_checks(function, Placement.GUARDED_IN_KERNEL)
    assert outcomes(variant) == [Rung.IN_PLACE]
    (check,) = kept(variant)
    assert check.skips  # where the axis is empty, which the launch does not ask
    assert variant.launch_checks == ()


def test_an_access_that_every_block_makes_needs_an_axis_that_is_not_empty():
    sketch = Sketch()
    sketch.check(sketch.loaded(), sketch.tiles("x"))
    function = sketch.function()
    for placement in Placement:
        settled = settle_checks(function, placement)
        (check,) = settled.launch_checks
        assert not check.guarded
        assert not check.holds(launch(x0=0))
        assert check.explain(launch(x0=0)).endswith(
            "`x`, axis 0: an index is checked in the kernel, but the axis is empty "
            "(ceil(x.shape[0] / 64) = 0)"
        )
        assert not any(one.skips for one in kept(settled))


def test_an_empty_axis_behind_a_guard_asks_for_the_other_variant():
    sketch = Sketch()
    with sketch.when(sketch.compare(sketch.loaded(), ">", 0)):
        sketch.check(sketch.loaded(), sketch.tiles("x"))
    function = sketch.function()
    (check,) = settle_checks(function).launch_checks
    assert check.guarded
    assert [check.holds(launch(x0=n)) for n in (0, 1)] == [False, True]
    assert [one.skips for one in kept(settle_checks(function))] == [False]
    for placement in (Placement.GUARDED_IN_KERNEL, Placement.ALL_IN_KERNEL):
        variant = settle_checks(function, placement)
        assert variant.launch_checks == ()
        assert [one.skips for one in kept(variant)] == [True]


def test_a_guard_that_the_launch_decides():
    sketch = Sketch()
    with sketch.when(sketch.compare(sketch.scalar("n"), ">", 0)):
        sketch.check(sketch.scalar("n"), 4)
    (check,) = settle(sketch).launch_checks
    assert [check.holds(launch(n=n)) for n in (-5, 0, 3, 4)] == [True, True, True, False]


def test_a_guard_that_the_launch_decides_in_part():
    sketch = Sketch()
    extent, n = sketch.extent("y"), sketch.scalar("n")
    with sketch.loop(0, extent) as k, sketch.when(sketch.compare(k, ">=", n)):
        sketch.check(sketch.math("-", k, 3), extent)
    (check,) = settle(sketch).launch_checks
    assert [check.holds(launch(y0=9, n=n)) for n in (2, 3, 9)] == [False, True, True]
    assert check.explain(launch(y0=9, n=2)).endswith(
        "the index `k - 3` goes from -1 to 5, but the axis has 9 tiles, 0 to 8 (y.shape[0] = 9)"
    )


def test_a_guard_on_two_counters_that_the_launch_cannot_decide():
    sketch = Sketch()
    tiles = sketch.tiles("x", 0, 64)
    with sketch.loop(0, tiles, name="k") as k, sketch.loop(0, tiles, name="j") as j:
        far = sketch.compare(sketch.math("+", k, j), ">=", 3)
        with sketch.when(far):
            sketch.check(sketch.math("-", k, 1), 8)
    (check,) = settle(sketch).launch_checks
    assert check.guarded
    assert not check.holds(launch(x0=4 * 64))
    assert check.holds(launch(x0=3 * 64))  # k + j >= 3 leaves no k below one
    assert check.holds(launch(x0=2 * 64))  # k + j is never that large


def test_both_ends_of_a_loop_between_scalars():
    sketch = Sketch()
    with sketch.loop(sketch.scalar("low"), sketch.scalar("high")) as k:
        sketch.check(k, 4)
    (check,) = settle(sketch).launch_checks
    ranges = [(0, 4), (-1, 4), (0, 5), (-3, -3), (7, 2)]
    found = [check.holds(launch(low=low, high=high)) for low, high in ranges]
    assert found == [True, False, False, True, True]


def test_code_that_an_earlier_iteration_may_leave_counts_as_guarded():
    sketch = Sketch()
    with sketch.loop(0, sketch.tiles("y")) as k:
        sketch.check(k, sketch.tiles("x"))
        sketch.check(sketch.math("-", k, 1), sketch.tiles("y"))
        sketch.leave_when(sketch.compare(sketch.loaded(), ">", 0), Break())
    settled = settle(sketch)
    assert [check.guarded for check in settled.launch_checks] == [True, True]
    assert not settled.violations


def test_code_behind_a_return_counts_as_guarded():
    for leaves in (True, False):
        sketch = Sketch()
        with sketch.loop(0, 4):
            if leaves:
                sketch.leave_when(sketch.compare(sketch.loaded(), ">", 0), Return())
        sketch.check(0, sketch.tiles("x"))
        sketch.leave_when(sketch.compare(sketch.loaded(), ">", 0), Return())
        sketch.check(0, sketch.tiles("y"))
        settled = settle(sketch)
        assert [check.guarded for check in settled.launch_checks] == [leaves, True]


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

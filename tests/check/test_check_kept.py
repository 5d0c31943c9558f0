"""Checks that must stay in the kernel, and the function that comes out."""

from __future__ import annotations

import time

from kernel_sketch import Sketch
from settling import TOP, kept, launch, only_proved, outcomes, settle, tied_gemm

from tilewright.check.bounds import settle_checks
from tilewright.check.ledger import Rung
from tilewright.dtypes import Element
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck
from tilewright.ir.ops.shape import Broadcast, Constant, Reshape
from tilewright.ir.types import TileType, scalar


def test_an_index_from_memory():
    sketch = Sketch()
    sketch.check(sketch.loaded("row"), sketch.tiles("x"))
    settled = settle(sketch)
    assert outcomes(settled) == [Rung.HOISTED]
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
    assert outcomes(settled) == [Rung.HOISTED]  # no turn changes it
    assert settled.ledger.entries[0].reason == "the index is read from memory"


def test_a_counter_that_the_body_changes():
    sketch = Sketch()
    tiles = sketch.tiles("x")
    with sketch.carrying_loop(0, tiles, [0]) as (_, (index,), carry):
        sketch.check(index, tiles)
        carry(sketch.math("+", index, 1))
    settled = settle(sketch)
    assert outcomes(settled) == [Rung.IN_PLACE]
    assert settled.ledger.entries[0].reason == "the index is changed by a loop"


def test_an_index_replaced_in_the_loop():
    sketch = Sketch()
    rows = sketch.tiles("z")
    (i,) = sketch.block_index(rows)
    with sketch.carrying_loop(0, 4, [i]) as (_, (index,), carry):
        sketch.check(index, rows)
        carry(sketch.loaded())
    assert outcomes(settle(sketch)) == [Rung.IN_PLACE]


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
    assert outcomes(settle(sketch)) != [Rung.PROVED]


def test_a_product_that_may_wrap_and_its_remainder():
    sketch = Sketch()
    (i,) = sketch.block_index(sketch.extent("z"))
    square = sketch.math("*", i, i)
    sketch.check(square, sketch.extent("x"))
    sketch.check(sketch.math("-", sketch.math("%", square, 8), 1), 8)
    settled = settle(sketch)
    assert outcomes(settled) == [Rung.LAUNCH, Rung.LAUNCH]
    wraps = launch(z0=65536, x0=TOP)
    assert not settled.launch_checks[0].holds(wraps)


def test_floor_division_below_zero_is_not_hidden():
    """`(i - 1) // 2` is -1 for the first block; rounding to zero would prove it inside."""
    sketch = Sketch()
    (i,) = sketch.block_index(4)
    sketch.check(sketch.math("//", sketch.math("-", i, 1), 2), 2)
    settled = settle(sketch)
    assert outcomes(settled) == [Rung.LAUNCH]
    assert not settled.launch_checks[0].holds({})


def test_a_failed_check_proves_nothing():
    """The second access sees the index again, not the first check's good outcome."""
    sketch = Sketch()
    row = sketch.loaded()
    sketch.check(row, sketch.tiles("x"))
    sketch.check(row, sketch.tiles("x"))
    assert outcomes(settle(sketch)) == [Rung.HOISTED, Rung.HOISTED]


def test_a_divisor_from_memory_and_a_tile_of_divisors():
    sketch = Sketch()
    sketch.divide("//", 7, sketch.loaded())
    tile = sketch.loaded()
    tile.type = TileType(Element.I32, (8,))
    sketch.add(DivisorCheck(divisor=tile))
    settled = settle(sketch)
    assert outcomes(settled) == [Rung.HOISTED, Rung.HOISTED]
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
    assert outcomes(settled) == [Rung.PROVED, Rung.LAUNCH]
    assert not kept(settled)


def test_a_dynamic_part_of_a_tile_is_an_index_like_any_other():
    sketch = Sketch()
    sketch.check(sketch.loaded(), 4, "tile")
    with sketch.loop(0, 4) as part:
        sketch.check(part, 4, "tile")
    settled = settle(sketch)
    assert outcomes(settled) == [Rung.HOISTED, Rung.PROVED]
    assert not settled.launch_checks


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
    function = tied_gemm().function()

    def seconds() -> float:
        started = time.process_time()
        settle_checks(function)
        return time.process_time() - started

    assert min(seconds() for _ in range(20)) < 0.005

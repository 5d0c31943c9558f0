"""Checks left in a kernel: clamped loads, skipped stores, and one report in every form."""

from itertools import product

import numpy as np
import pytest
from block_interpreter import Undefined, World, run
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import I32, Sample, mnemonics, only

from tilewright.dtypes import Element, u32
from tilewright.ir.attributes import Predicate
from tilewright.ir.check_sites import CheckSite, DivisorSite
from tilewright.ir.launch_terms import Extent, ScalarArgument
from tilewright.ir.ops.control import Break, Return
from tilewright.ir.ops.elementwise import CmpI
from tilewright.ir.ops.internal import (
    BoundsCheck,
    DivisorCheck,
    FloorDiv,
    LaunchValue,
    RecordFailure,
    Require,
)
from tilewright.ir.types import TileType, scalar
from tilewright.passes.audit_slice import audit_slice
from tilewright.passes.drop_dead_code import drop_dead_code
from tilewright.passes.place_checks import has_residual_checks, place_checks
from tilewright.passes.report_form import ReportForm
from tilewright.source import Location, SourceFile, Span

REPORTING = [ReportForm.IN_PLACE, ReportForm.AT_END, ReportForm.AUDIT]
COUNT = 3  # tiles of every tensor


def world(**scalars):
    terms = {Extent(name, axis): 4 * COUNT for name in ("x", "z", "ids") for axis in range(2)}
    terms.update({ScalarArgument(name): value for name, value in scalars.items()})
    tiles = {("x", (i,)): 100 + i for i in range(COUNT)}
    return World(terms, tiles=tiles, counts=dict.fromkeys(("x", "z", "ids"), (COUNT,)))


def outcome(placed, place):
    """What the kernel leaves in memory, and the reports of whichever kernel reports."""
    run(placed.function, place)
    reports = place.records
    if placed.audit is not None:
        assert not reports
        audited = World(place.terms, tiles=dict(place.tiles), counts=place.counts)
        before = dict(audited.tiles)
        reports = run(placed.audit, audited).records
        assert audited.tiles == before
    return place.tiles, reports


def checked_load():
    s = Sample()
    x, z = s.view("x"), s.view("z")
    s.store(s.load(x, s.check(s.scalar("i"), s.count("x"))), z, s.index(0))
    return s.done()


def checked_store():
    s = Sample()
    z = s.view("z")
    s.store(s.tile(7), z, s.check(s.scalar("i"), s.count("z"), is_store=True))
    return s.done()


def as_number(tile):
    return int(np.asarray(tile).reshape(-1)[0])


@pytest.mark.parametrize("form", ReportForm)
@pytest.mark.parametrize("index", [-(2**31), -5, -1, 0, 1, COUNT - 1, COUNT, 9, 2**31 - 1])
def test_a_load_reads_the_nearest_valid_tile(form, index):
    tiles, reports = outcome(place_checks(checked_load(), form), world(i=index))
    nearest = min(max(index, 0), COUNT - 1)
    assert as_number(tiles["z", (0,)]) == 100 + nearest
    is_reported = form is not ReportForm.NONE and index != nearest
    assert reports == ([(0, index, COUNT)] if is_reported else [])


@pytest.mark.parametrize("form", ReportForm)
@pytest.mark.parametrize("index", [-(2**31), -1, 0, COUNT - 1, COUNT, 2**31 - 1])
def test_a_store_outside_is_skipped(form, index):
    tiles, reports = outcome(place_checks(checked_store(), form), world(i=index))
    is_inside = 0 <= index < COUNT
    stored = {key for key in tiles if key[0] == "z"}
    assert stored == ({("z", (index,))} if is_inside else set())
    assert bool(reports) is (form is not ReportForm.NONE and not is_inside)


def test_the_unchecked_neighbour_is_undefined():
    s = Sample()
    s.store(s.load(s.view("x"), s.scalar("i")), s.view("z"), s.index(0))
    with pytest.raises(Undefined):
        run(s.done(), world(i=COUNT))


def test_a_store_through_arithmetic_on_checked_indices_is_skipped_by_all_of_them():
    s = Sample()
    z = s.view("z")
    i = s.check(s.scalar("i"), s.index(2), is_store=True)
    j = s.check(s.scalar("j"), s.index(2), is_store=True)
    s.store(s.tile(7), z, s.sum(i, j))
    placed = place_checks(s.done(), ReportForm.NONE)
    for i, j in product((-1, 0, 1, 2), repeat=2):
        tiles, _ = outcome(placed, world(i=i, j=j))
        stored = [key for key in tiles if key[0] == "z"]
        assert stored == ([("z", (i + j,))] if {i, j} <= {0, 1} else [])


def test_a_load_is_clamped_and_not_put_into_a_branch():
    assert "if" not in mnemonics(place_checks(checked_load(), ReportForm.NONE).function)
    assert "if" not in mnemonics(place_checks(checked_load(), ReportForm.AUDIT).function)
    assert "if" in mnemonics(place_checks(checked_store(), ReportForm.NONE).function)


@pytest.mark.parametrize("form", REPORTING)
def test_unsigned_and_wide_indices(form):
    def function(dtype, to):
        s = Sample()
        index = s.add(LaunchValue(term=ScalarArgument("i"), to=to, dtype=dtype)).result
        checked = BoundsCheck(
            index=index, count=s.count("x"), site=CheckSite("x", 0, 4), dtype=dtype
        )
        s.store(s.load(s.view("x"), s.add(checked).result), s.view("z"), s.index(0))
        return place_checks(s.done(), form)

    unsigned = function(u32, I32)
    tiles, reports = outcome(unsigned, world(i=-1))  # the bits of 2^32 - 1
    assert as_number(tiles["z", (0,)]) == 100 + COUNT - 1
    assert reports == [(0, -1, COUNT)]

    wide = function(None, scalar(Element.I64))
    for index, nearest in ((2**40, COUNT - 1), (-(2**40), 0)):
        tiles, reports = outcome(wide, world(i=index))
        assert as_number(tiles["z", (0,)]) == 100 + nearest
        limit = 2**31 - 1 if index > 0 else -(2**31)
        assert reports == [(0, limit, COUNT)]
    assert outcome(wide, world(i=1))[1] == []


# --- several checks and control flow --------------------------------------------------------------


def test_at_the_end_there_is_one_report_of_the_first_failure():
    s = Sample()
    x, z = s.view("x"), s.view("z")
    with s.loop(s.index(6)) as k:
        s.store(s.load(x, s.check(s.sum(k, s.scalar("i")), s.count("x"))), z, s.index(0))
    last = s.load(x, s.check(s.scalar("j"), s.count("x")))
    s.store(last, z, s.index(1))
    function = s.done()
    at_end = place_checks(function, ReportForm.AT_END)
    assert len(only(at_end.function, RecordFailure)) == 1
    assert outcome(at_end, world(i=0, j=-4))[1] == [(0, COUNT, COUNT)]
    assert outcome(at_end, world(i=-2, j=0))[1] == [(0, -2, COUNT)]
    assert outcome(at_end, world(i=-3, j=9))[1] == [(0, -3, COUNT)]
    in_place = place_checks(function, ReportForm.IN_PLACE)
    failures = outcome(in_place, world(i=0, j=-4))[1]
    assert failures == [(0, 3, COUNT), (0, 4, COUNT), (0, 5, COUNT), (1, -4, COUNT)]


def test_an_early_return_reports_what_failed_before_it():
    s = Sample()
    x, z = s.view("x"), s.view("z")
    s.store(s.load(x, s.check(s.scalar("i"), s.count("x"))), z, s.index(0))
    s.choose(s.scalar("c"), lambda: Return())
    s.store(s.load(x, s.check(s.scalar("j"), s.count("x"))), z, s.index(1))
    placed = place_checks(s.done(), ReportForm.AT_END)
    assert len(only(placed.function, RecordFailure)) == 2
    assert outcome(placed, world(i=-1, j=0, c=1))[1] == [(0, -1, COUNT)]
    assert outcome(placed, world(i=0, j=-1, c=1))[1] == []
    assert outcome(placed, world(i=0, j=-1, c=0))[1] == [(1, -1, COUNT)]


def test_a_return_before_any_check_reports_nothing():
    s = Sample()
    s.choose(s.scalar("c"), lambda: Return())
    s.store(s.load(s.view("x"), s.check(s.scalar("i"), s.count("x"))), s.view("z"), s.index(0))
    placed = place_checks(s.done(), ReportForm.AT_END)
    assert len(only(placed.function, RecordFailure)) == 1


def nested_program(loops):
    """A check under a nest of loops and branches, on the sum of a scalar and the counters."""
    s = Sample()
    x, z, count = s.view("x"), s.view("z"), s.count("x")

    def build(rest, number):
        if not rest:
            is_store = number is first
            index = s.check(number, count, is_store)
            tile = s.tile(1) if is_store else s.load(x, index)
            s.store(tile, z, index if is_store else s.index(0))
            return
        kind, *inner = rest
        if kind == "for":
            with s.loop(s.index(2)) as k:
                build(inner, s.sum(number, k))
        elif kind == "loop":
            with s.endless():
                build(inner, number)
                s.choose(s.scalar("c"), Break, Break)
        elif kind == "then":
            s.choose(s.scalar("c"), lambda: build(inner, number))
        else:
            s.choose(s.scalar("c"), lambda: None, lambda: build(inner, number))

    first = s.scalar("i")
    build(loops, first)
    return s.done()


@settings(max_examples=60, deadline=None)
@given(
    nest=st.lists(st.sampled_from(["for", "loop", "then", "else"]), max_size=4),
    index=st.integers(-3, 5),
    condition=st.integers(0, 1),
)
def test_every_form_sees_the_same_first_failure(nest, index, condition):
    function = nested_program(nest)
    seen = []
    for form in ReportForm:
        placed = place_checks(function, form)
        tiles, reports = outcome(placed, world(i=index, c=condition))
        seen.append((form, tiles, reports))
    memory = [{at: as_number(tile) for at, tile in tiles.items()} for _, tiles, _ in seen]
    assert all(tiles == memory[0] for tiles in memory)
    first = {form: reports[:1] for form, _, reports in seen}
    assert first[ReportForm.NONE] == []
    assert first[ReportForm.IN_PLACE] == first[ReportForm.AT_END] == first[ReportForm.AUDIT]


# --- divisors, requirements, sites ----------------------------------------------------------------


@pytest.mark.parametrize("form", REPORTING)
@pytest.mark.parametrize("shape", [(), (4,), (2, 2)])
def test_a_zero_divides_as_one_and_is_reported(form, shape):
    to = TileType(Element.I32, shape)
    s = Sample()
    d = s.add(LaunchValue(term=ScalarArgument("d"), to=to)).result
    safe = s.add(DivisorCheck(divisor=d)).result
    s.store(
        s.add(FloorDiv(lhs=s.constant(12, Element.I32, shape), rhs=safe)).result,
        s.view("z"),
        s.index(0),
    )
    placed = place_checks(s.done(), form)
    assert placed.sites == ((None, DivisorSite()),)

    def divided(*elements):
        divisors = np.resize(np.array(elements, dtype=object), shape)[()]
        tiles, reports = outcome(placed, world(d=divisors))
        return np.asarray(tiles["z", (0,)]).reshape(-1).tolist(), reports

    size = int(np.prod(shape))
    assert divided(3) == ([4] * size, [])
    assert divided(-3) == ([-4] * size, [])
    assert divided(0) == ([12] * size, [(0, 0, 0)])
    if size > 1:
        assert divided(2, 0) == ([6, 12] * (size // 2), [(0, 0, 0)])


def test_requirements_leave_nothing():
    s = Sample()
    condition = CmpI(lhs=s.scalar("i"), rhs=s.index(0), comparison_predicate=Predicate.EQUAL)
    s.add(Require(condition=s.add(condition).result, text="i == 0"))
    function = s.done()
    assert not has_residual_checks(function)
    placed = place_checks(function, ReportForm.AT_END)
    assert mnemonics(drop_dead_code(placed.function)) == ["return"]
    assert placed.sites == ()
    assert placed.audit is None


def test_sites_say_where_and_what():
    file = SourceFile("kernel.py", ("x",))
    here = Location(Span(file, 1, 0, 1, 1))
    s = Sample()
    count = s.count("x")
    s.loc = here
    first = s.check(s.scalar("i"), count)
    second = s.check(s.scalar("j"), count, is_store=True)
    s.store(s.load(s.view("x"), first), s.view("z"), second)
    function = s.done()
    assert has_residual_checks(function)
    for form in ReportForm:
        placed = place_checks(function, form)
        assert placed.sites == (
            (here, CheckSite("x", 0, 4)),
            (here, CheckSite("x", 0, 4, is_store=True)),
        )
        assert not has_residual_checks(placed.function)


# --- audits ---------------------------------------------------------------------------------------


def test_an_audit_computes_only_the_checked_indices():
    s = Sample()
    ids, x, z = s.view("ids", tile=1), s.view("x"), s.view("z")
    with s.loop(s.count("ids")) as k:
        wanted = s.item(s.load(ids, k))
        s.store(s.load(x, s.check(wanted, s.count("x"))), z, k)
    function = s.done()
    placed = place_checks(function, ReportForm.AUDIT)
    assert placed.audit is not None
    assert placed.audit.name == "sample_audit"
    names = mnemonics(placed.audit)
    assert names.count("load_view_tko") == 1  # of the ids, not of x
    assert "store_view_tko" not in names
    assert "record" in names
    assert "record" not in mnemonics(placed.function)
    place = world()
    place.tiles.update({("ids", (0,)): 1, ("ids", (1,)): 5, ("ids", (2,)): -1})
    tiles, reports = outcome(placed, place)
    assert reports == [(0, 5, COUNT)]
    assert [as_number(tiles["z", (k,)]) for k in range(COUNT)] == [101, 102, 100]


def test_indices_read_from_what_the_kernel_writes_cannot_be_audited():
    s = Sample()
    x, z = s.view("x", tile=1), s.view("z", tile=1)
    s.store(s.load(x, s.index(1)), z, s.index(0))
    wanted = s.item(s.load(z, s.index(0)))
    s.store(s.load(x, s.check(wanted, s.count("x"))), z, s.index(1))
    placed = place_checks(s.done(), ReportForm.AUDIT)
    assert placed.audit is None
    assert len(only(placed.function, RecordFailure)) == 1
    assert audit_slice(placed.function) is None
    assert outcome(placed, world())[1] == [(0, 101, COUNT)]

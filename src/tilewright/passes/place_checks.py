"""Lowers the remaining checks: bad operands are made harmless, and reported.

    before                                  after
    %j = bounds_check %i, %n                %last = subi %n, 1
    %t = load x[%j]                         %low = mini %i, %last signed
                                            %j = maxi %low, 0 signed
                                            %t = load x[%j]

    %j = bounds_check %i, %n (a store)      %ok = cmpi less_than %i, %n unsigned
    store %t, z[%j]                         if %ok { store %t, z[%j] }

    %d = divisor_check %b                   %zero = cmpi equal %b, 0
                                            %d = select %zero, 1, %b

A load reads the nearest valid tile; where the axis may be empty (`skips`) it runs only if there is
one, and gives zeros otherwise. A store or an insertion is skipped, a zero divides as one (and is
reported if it lies inside the tensor that it was loaded from: padding is no data). No failure leads
to undefined behaviour. A `ReportForm` selects how failures are reported. Requirements were checked
by the launch and are dropped. Runs first: its input has the front end's checks, less the settled
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from tilewright.dtypes import Element
from tilewright.ir.attributes import IntIdentity, Predicate, Signedness
from tilewright.ir.check_sites import AssertSite, CheckSite, DivisorSite, Site
from tilewright.ir.function import Function
from tilewright.ir.op import Block, Effect, Op, Value
from tilewright.ir.ops.control import If, Return, Yield
from tilewright.ir.ops.internal import (
    Assertion,
    BoundsCheck,
    DivisorCheck,
    NotEmpty,
    RecordFailure,
    Require,
)
from tilewright.ir.ops.reduction import Reduce
from tilewright.ir.ops.shape import Broadcast, Insert, Reshape
from tilewright.ir.rewrite import Rule, containing_ops, definitions, when
from tilewright.ir.types import TileType, scalar
from tilewright.passes.audit_slice import audit_slice
from tilewright.passes.carried_state import StateRewriter
from tilewright.passes.inside_elements import InsideElements
from tilewright.passes.integer_ops import Integers, element_of, is_unsigned
from tilewright.passes.report_form import ReportForm

__all__ = ["Placed", "has_residual_checks", "place_checks"]

_Check = BoundsCheck | DivisorCheck | Assertion
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class Placed:
    """A function without checks, and the data to report their failures."""

    function: Function
    audit: Function | None  # the kernel that reports, if it is another one
    sites: tuple[Site, ...]  # by site number


def has_residual_checks(function: Function) -> bool:
    """Whether a function has checks left, so that its launches need a failure record."""
    return any(isinstance(op, _Check) for op in function.walk())


def place_checks(function: Function, form: ReportForm) -> Placed:
    """Replace the checks of a function.

    A kernel whose checked indices depend on its own writes cannot be audited beforehand; it reports
    at its end instead.
    """
    checks = [op for op in function.walk() if isinstance(op, _Check)]
    numbers: dict[Op, int] = {op: number for number, op in enumerate(checks)}
    sites = tuple((op.loc, _site(op)) for op in checks)
    if not checks or form is not ReportForm.AUDIT:
        return Placed(_Placer(_REPORTERS[form], numbers).function(function), None, sites)
    reporting = _Placer(_REPORTERS[ReportForm.AT_END], numbers).function(function)
    audit = audit_slice(reporting)
    if audit is None:
        return Placed(reporting, None, sites)
    return Placed(_Placer(_silent, numbers).function(function), audit, sites)


def _site(check: _Check) -> CheckSite | DivisorSite | AssertSite:
    if isinstance(check, Assertion):
        return AssertSite(check.message)
    return check.site if isinstance(check, BoundsCheck) else DivisorSite()


class _First(Enum):
    """The first failure of a block: three numbers carried to the kernel's end."""

    SITE = auto()  # its number plus one; zero: none yet
    INDEX = auto()
    COUNT = auto()


@dataclass(frozen=True, eq=False)
class _Failure:
    """The operands of a report: i32 scalars, except the first, a truth value."""

    failed: Value
    index: Value
    count: Value
    site: int


class _Placer(StateRewriter[_First, Value]):
    def __init__(self, report: _Reporter, numbers: dict[Op, int]) -> None:
        super().__init__(_RULES)
        self.report = report
        self.numbers = numbers
        self.carrying: set[Op] = set()  # ops whose regions carry the failure
        self.guards: dict[Value, tuple[Value, ...]] = {}  # old value -> conditions of its stores
        self.skips: dict[Value, tuple[Value, ...]] = {}  # old value -> conditions of its loads

    def function(self, function: Function) -> Function:
        """The whole function; at its start there is no failure."""
        if self.report is _REPORTERS[ReportForm.AT_END]:
            self.carrying = containing_ops(function, self.numbers)
        self.inside = InsideElements(definitions(function), self.builder, self.new)
        with self.builder.inside(Block()) as top:
            self.state = dict.fromkeys(_First, self.builder.index(0))
        self.nothing = self.state[_First.SITE]
        new = super().function(function)
        new.body.ops[:0] = top.ops
        return new

    def touched(self, op: Op) -> tuple[_First, ...]:
        """Regions with checks carry the failure, if this form of report needs it."""
        return tuple(_First) if op in self.carrying else ()

    def as_value(self, cell: Value) -> Value:
        """A cell is the value."""
        return cell

    def as_cell(self, value: Value) -> Value:
        """A cell is the value."""
        return value

    def visit(self, op: Op) -> None:
        """Rebuild one op; a write at a checked index runs only if the index is valid."""
        guards, skips = _needed_by(op, self.guards), _needed_by(op, self.skips)
        if guards and op.effect is Effect.WRITE:
            self._write_if(guards, op)
        elif guards and isinstance(op, Insert):
            self._insert_if(guards, op)
        elif skips and op.effect is Effect.READ:
            self._read_if(skips, op)
        else:
            super().visit(op)
            if op.effect is Effect.NONE and not op.regions:
                for found, needed in ((self.guards, guards), (self.skips, skips)):
                    if needed:
                        found.update((v, needed + found.get(v, ())) for v in op.results)

    def _write_if(self, guards: tuple[Value, ...], op: Op) -> None:
        with when(self.builder, self._all_of(guards)):
            super().visit(op)

    def _read_if(self, skips: tuple[Value, ...], op: Op) -> None:
        """Skip a load from an empty axis, which gives zeros."""
        tile, *others = op.results
        type_ = tile.type
        assert isinstance(type_, TileType)
        assert isinstance(type_.element, Element), "a load by an index gives a tile of numbers"
        with self.builder.inside(Block()) as then_body:
            super().visit(op)
            self.builder.add(Yield(values=(self.new(tile),)))
        with self.builder.inside(Block()) as else_body:
            nothing = self.builder.constant(0, type_.element, type_.shape, tile.dtype)
            self.builder.add(Yield(values=(nothing,)))
        condition = self._all_of(skips)
        chosen = If(condition=condition, then_body=then_body, else_body=else_body, types=(type_,))
        made = self.builder.add(chosen).results[0]
        made.dtype, made.hint = tile.dtype, tile.hint
        self.replace(op, made, *(self.new(other) for other in others))

    def _insert_if(self, guards: tuple[Value, ...], op: Insert) -> None:
        """Skip an insertion at an invalid index, which leaves the tile unchanged."""
        super().visit(op)
        type_ = op.destination.type
        assert isinstance(type_, TileType)
        ones = Reshape(source=self._all_of(guards), to=TileType(Element.I1, (1,) * type_.rank))
        one = self.builder.add(ones).result
        spread = Broadcast(source=one, to=type_.with_element(Element.I1))
        condition = self.builder.add(spread).result
        inserted, before = self.new(op.result), self.new(op.destination)
        self.replace(op, Integers(self.builder).select(condition, inserted, before))

    def _all_of(self, guards: tuple[Value, ...]) -> Value:
        emit = Integers(self.builder)
        condition, *others = guards
        for other in others:
            condition = emit.both(condition, other)
        return condition


def _needed_by(op: Op, known: dict[Value, tuple[Value, ...]]) -> tuple[Value, ...]:
    """The conditions on the operands of an op."""
    if known.keys().isdisjoint(op.operands):
        return ()
    return tuple(dict.fromkeys(one for value in op.operands for one in known.get(value, ())))


def _bounds_check(placer: _Placer, op: BoundsCheck) -> None:
    emit = Integers(placer.builder)
    index = placer.new(op.index)
    count = emit.resized(placer.new(op.count), element_of(index))
    # One unsigned comparison: a negative index is a very large one, and no count is negative.
    failed = emit.compare(index, Predicate.GREATER_THAN_OR_EQUAL, count, Signedness.UNSIGNED)
    if op.site.is_store:
        ok = emit.compare(index, Predicate.LESS_THAN, count, Signedness.UNSIGNED)
        placer.guards[op.result] = (ok,)
    if op.skips:
        some = emit.compare(placer.new(op.count), Predicate.GREATER_THAN, 0)
        placer.skips[op.result] = (some,)
    site = placer.numbers[op]
    placer.report(placer, _Failure(failed, _as_i32(emit, index), _as_i32(emit, count), site))
    last = emit.subtract(count, 1)
    if is_unsigned(op.index):
        placer.replace(op, emit.least(index, last, Signedness.UNSIGNED))
    else:
        placer.replace(op, emit.greatest(emit.least(index, last), 0))


def _as_i32(emit: Integers, number: Value) -> Value:
    """A number for the report, clamped to 32 bits."""
    if element_of(number).bits > Element.I32.bits:
        if is_unsigned(number):
            number = emit.least(number, _INT32_MAX, Signedness.UNSIGNED)
        else:
            number = emit.greatest(emit.least(number, _INT32_MAX), _INT32_MIN)
    return emit.resized(number, Element.I32)


def _divisor_check(placer: _Placer, op: DivisorCheck) -> None:
    emit = Integers(placer.builder)
    divisor = placer.new(op.divisor)
    inside = placer.inside.of(op.divisor)
    counted = divisor
    if inside is not None:
        # Quotients of elements outside the tensor are never used.
        counted = emit.select(inside, divisor, emit.constant(1, divisor))
    failed = emit.compare(_least_element(placer, counted), Predicate.EQUAL, 0)
    zero = placer.builder.index(0)
    placer.report(placer, _Failure(failed, zero, zero, placer.numbers[op]))
    is_zero = emit.compare(divisor, Predicate.EQUAL, 0)
    placer.replace(op, emit.select(is_zero, 1, divisor))


def _assertion(placer: _Placer, op: Assertion) -> None:
    """Report an assertion, which has no other effect."""
    truth = _least_element(placer, placer.new(op.condition))
    failed = Integers(placer.builder).compare(truth, Predicate.EQUAL, 0)
    zero = placer.builder.index(0)
    placer.report(placer, _Failure(failed, zero, zero, placer.numbers[op]))


def _least_element(placer: _Placer, tile: Value) -> Value:
    """The least element, read as unsigned: zero if and only if some element is zero."""
    assert isinstance(tile.type, TileType)
    if tile.type.rank == 0:
        return tile
    element = element_of(tile)
    line = placer.builder.add(Reshape(source=tile, to=TileType(element, (tile.type.size,)))).result
    one, other = Value(scalar(element)), Value(scalar(element))
    with placer.builder.inside(Block((one, other))) as body:
        least = Integers(placer.builder).least(one, other, Signedness.UNSIGNED)
        placer.builder.add(Yield(values=(least,)))
    greatest = IntIdentity(element, 2**element.bits - 1)
    reduction = Reduce(sources=(line,), dim=0, identities=(greatest,), body=body)
    return placer.builder.add(reduction).totals[0]


def _drop_requirement(placer: _Placer, op: Require | NotEmpty) -> None:
    """Drop a requirement, which the launch has checked; its condition becomes dead code."""


def _end(placer: _Placer, op: Return) -> None:
    """Report the carried failure, if a check could have set it."""
    first = placer.state
    if first[_First.SITE] is not placer.nothing:
        emit = Integers(placer.builder)
        record = RecordFailure(
            failed=emit.compare(first[_First.SITE], Predicate.NOT_EQUAL, 0),
            index=first[_First.INDEX],
            count=first[_First.COUNT],
            site_number=emit.subtract(first[_First.SITE], 1),
        )
        placer.builder.add(record)
    placer.keep(op)


_RULES: dict[type[Op], Rule] = {
    Assertion: _assertion,
    BoundsCheck: _bounds_check,
    DivisorCheck: _divisor_check,
    NotEmpty: _drop_requirement,
    Require: _drop_requirement,
    Return: _end,
}


def _silent(placer: _Placer, failure: _Failure) -> None:
    """Report nothing."""


def _in_place(placer: _Placer, failure: _Failure) -> None:
    """Report at the check itself."""
    placer.builder.add(
        RecordFailure(
            failed=failure.failed,
            index=failure.index,
            count=failure.count,
            site_number=placer.builder.index(failure.site),
        )
    )


def _carry(placer: _Placer, failure: _Failure) -> None:
    """Carry a failure, unless there is an earlier one."""
    emit, first = Integers(placer.builder), placer.state
    zero = placer.nothing
    site = emit.select(failure.failed, failure.site + 1, zero)
    index, count = failure.index, failure.count
    if first[_First.SITE] is not zero:
        # Index and count have no meaning without a site, so any value will do then.
        before = emit.compare(first[_First.SITE], Predicate.NOT_EQUAL, 0)
        site = emit.select(before, first[_First.SITE], site)
        index = emit.select(before, first[_First.INDEX], index)
        count = emit.select(before, first[_First.COUNT], count)
    first.update({_First.SITE: site, _First.INDEX: index, _First.COUNT: count})


_Reporter = Callable[[_Placer, _Failure], None]
_REPORTERS: dict[ReportForm, _Reporter] = {
    ReportForm.NONE: _silent,
    ReportForm.IN_PLACE: _in_place,
    ReportForm.AT_END: _carry,
    ReportForm.AUDIT: _silent,
}

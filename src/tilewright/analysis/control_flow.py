"""Transfer of facts through `if`, loops, walks and jumps.

The condition is a fact in its branch; its negation is one after a branch that jumps (`break`,
`continue`, `return`). An induction variable lies in its range, and in the body the range is not
empty. A carried value is first assumed to stay on one side of its initial value; an assumption that
an iteration does not confirm is weakened and the body analysed again, at last with no assumption at
all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tilewright.analysis.arithmetic import greatest, least, product, quotient
from tilewright.analysis.dataflow import (
    Dataflow,
    JoinedValue,
    Jumps,
    Leaving,
    LoopFrame,
    RegionEnd,
    Rule,
    machine_type,
)
from tilewright.analysis.formulas import FALSE, TRUE, Formula, all_of, any_of
from tilewright.analysis.intervals import MachineType
from tilewright.analysis.operations import Wrapped
from tilewright.analysis.terms import Linear, Origin, number
from tilewright.dtypes import Element
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.elementwise import Select
from tilewright.ir.ops.internal import Walk
from tilewright.ir.rewrite import is_loop
from tilewright.ir.types import TileType

__all__ = ["CONTROL_RULES", "leaves_early"]


def leaves_early(block: Block) -> bool:
    """Whether an iteration of this loop body may be the last of the loop or of the block."""
    known: Jumps = {}
    return any(jumps_out_of(op, known) & {Break, Return} for op in block.ops)


def jumps_out_of(op: Op, known: Jumps) -> frozenset[type[Op]]:
    """The kinds of jumps that an op is or contains and that lead out of it.

    `known` keeps the answers for ops with regions, so that those of nested ones are found once.
    """
    if isinstance(op, Break | Continue | Return):
        return frozenset((type(op),))
    if not op.region_fields:
        return _NO_JUMPS
    found = known.get(op)
    if found is None:
        inner = (jumps_out_of(one, known) for block in op.regions for one in block.ops)
        found = _NO_JUMPS.union(*inner)
        if not isinstance(op, If):  # a break inside an inner loop leaves that loop only
            found &= {Return}
        known[op] = found
    return found


_NO_JUMPS: frozenset[type[Op]] = frozenset()


# --- branches ------------------------------------------------------------------------------------


def _branch(flow: Dataflow, op: If) -> None:
    condition = flow.formula(op.condition)
    opposite = condition.negated()
    then = flow.region(op.then_body, condition.facts())
    other = flow.region(op.else_body, opposite.facts())
    may_jump = bool(jumps_out_of(op, flow.jumps))
    if then.goes_on and other.goes_on:
        _join_branches(flow, op, condition, (then, other))
        if may_jump:
            flow.narrow(guarded=True)
    elif then.goes_on or other.goes_on:
        stays, known = (then, condition) if then.goes_on else (other, opposite)
        _take_results(flow, op, stays)
        flow.narrow(known.facts(), guarded=True)
    else:
        flow.narrow([number(-1)], guarded=True)


def _join_branches(
    flow: Dataflow, op: If, condition: Formula, exits: tuple[RegionEnd, RegionEnd]
) -> None:
    for place, value in enumerate(op.results):
        sources = [exit.values[place] for exit in exits]
        if _is_truth(value):
            then, other = (flow.formula(source) for source in sources)
            flow.formulas[value] = _choose(condition, then, other)
        elif machine_type(value) is not None:
            arms = [JoinedValue(flow.term(v), e.facts) for v, e in zip(sources, exits, strict=True)]
            flow.join(value, arms)


def _take_results(flow: Dataflow, op: If, stays: RegionEnd) -> None:
    for value, source in zip(op.results, stays.values, strict=True):
        if _is_truth(value):
            flow.formulas[value] = flow.formula(source)
        elif machine_type(value) is not None:
            flow.terms[value] = flow.term(source)


def _select(flow: Dataflow, op: Select) -> None:
    condition = flow.formula(op.cond)
    if _is_truth(op.result):
        then, other = flow.formula(op.val_if_true), flow.formula(op.val_if_false)
        flow.formulas[op.result] = _choose(condition, then, other)
    elif machine_type(op.result) is not None:
        then_arm = JoinedValue(flow.term(op.val_if_true), condition.facts())
        else_arm = JoinedValue(flow.term(op.val_if_false), condition.negated().facts())
        flow.join(op.result, (then_arm, else_arm))


def _choose(condition: Formula, then: Formula, other: Formula) -> Formula:
    """`then if condition else other`, the form in which `and` and `or` arrive.

    A known condition selects its side, which keeps a row of choices from doubling at every step.
    """
    if TRUE in (then, other):
        first, second = (condition, other) if then == TRUE else (condition.negated(), then)
        return any_of(first, second)
    if FALSE in (then, other):
        first, second = (condition, then) if other == FALSE else (condition.negated(), other)
        return all_of(first, second)
    return any_of(all_of(condition, then), all_of(condition.negated(), other))


def _is_truth(value: Value) -> bool:
    return isinstance(value.type, TileType) and value.type == TileType(Element.I1)


# --- loops ---------------------------------------------------------------------------------------


_ROUNDS = 24  # further rounds of a loop nest
_ROUNDS_EACH = 8  # more rounds for each loop of a level


class _Assumption(Enum):
    """The assumption on one side of a carried integer, from the strongest to the weakest."""

    INITIAL = auto()  # bounded by its initial value
    OPEN = auto()  # none, to find the bound that the body gives for any input
    LIMITED = auto()  # bounded by the limit found so
    NOTHING = auto()


@dataclass
class _Side:
    """The lower (`sign` 1) or upper (`sign` -1) side of a carried integer."""

    sign: int
    initial: Linear
    type: MachineType
    bounds: tuple[Linear, ...]
    stage: _Assumption = _Assumption.INITIAL

    def confirm(self, ends: Sequence[tuple[Linear, Leaving]]) -> bool:
        """Whether every iteration keeps the bound; otherwise weaken it for the next round."""
        kept = all(
            end.scope.proves((term - bound).times(self.sign))
            for bound in self.bounds
            for term, end in ends
        )
        if self.stage is _Assumption.OPEN:
            self.bounds = self._limit([term for term, _ in ends])
            self.stage = _Assumption.LIMITED if self.bounds else _Assumption.NOTHING
            return not self.bounds
        if not kept:
            self.bounds = ()
            self.stage = (
                _Assumption.OPEN if self.stage is _Assumption.INITIAL else _Assumption.NOTHING
            )
        return kept

    def _limit(self, terms: Sequence[Linear]) -> tuple[Linear, ...]:
        """A limit that the initial value and every iteration keep, if there is a finite one."""
        ranges = [term.range for term in (self.initial, *terms)]
        whole = self.type.interval
        if self.sign > 0:
            low = min(found.low for found in ranges)
            return (number(low),) if low > whole.low else ()
        high = max(found.high for found in ranges)
        return (number(high),) if high < whole.high else ()


@dataclass(frozen=True)
class _Carried:
    """One carried integer and its assumptions."""

    argument: Value
    low: _Side
    high: _Side

    def confirm(self, ends: Iterable[tuple[Linear, Leaving]]) -> bool:
        """Whether every iteration keeps the assumptions; the others are weakened."""
        found = tuple(ends)
        return all([self.low.confirm(found), self.high.confirm(found)])

    def assume_nothing(self) -> None:
        """Drop the assumptions on both sides."""
        for side in (self.low, self.high):
            side.bounds, side.stage = (), _Assumption.NOTHING

    def define(self, flow: Dataflow, value: Value) -> None:
        """Define a value with the current assumptions."""
        flow.define_fresh(value, Origin.CARRIED, self.low.bounds, self.high.bounds)


def _carry(
    flow: Dataflow, op: Op, inits: Sequence[Value], run: Callable[[], LoopFrame]
) -> LoopFrame:
    """Analyse a loop until the assumptions on its carried integers hold; define its results."""
    arguments = op.regions[0].args[len(op.regions[0].args) - len(inits) :]
    carried: dict[int, _Carried] = {}
    for place, (argument, init) in enumerate(zip(arguments, inits, strict=True)):
        type_ = machine_type(argument)
        if type_ is not None:
            term = flow.term(init)
            sides = [_Side(sign, term, type_, (term,)) for sign in (1, -1)]
            carried[place] = _Carried(argument, *sides)
    frame = _settle(flow, op, carried, run)
    if not isinstance(op, Loop):
        for place, one in carried.items():
            one.define(flow, op.results[place])
    return frame


def _settle(
    flow: Dataflow, op: Op, carried: dict[int, _Carried], run: Callable[[], LoopFrame]
) -> LoopFrame:
    """Analyse rounds until one confirms its assumptions; each other round weakens one, so they end.

    A round of a loop analyses the loops inside it, each with rounds of its own. Nested loops
    therefore share a number of rounds; once these are used up, no assumption is made from the
    start.
    """
    if not flow.is_in_loop:
        flow.rounds_left = _rounds(op)
    while True:
        if flow.rounds_left <= 0:
            for one in carried.values():
                one.assume_nothing()
        for one in carried.values():
            one.define(flow, one.argument)
        frame = run()
        # A break of a counted loop carries the loop's values; of an endless loop, its results.
        ends = frame.continues if isinstance(op, Loop) else frame.continues + frame.breaks
        confirmed = [one.confirm(_handed_on(ends, place)) for place, one in carried.items()]
        if all(confirmed):
            return frame
        flow.rounds_left -= 1


def _rounds(outermost: Op) -> int:
    """Rounds of a loop nest beside the first: more where many loops stand in a row."""
    loops = deepest = 0
    pending = [(outermost, 0)]
    while pending:
        op, depth = pending.pop()
        if is_loop(op):
            loops, depth = loops + 1, depth + 1
            deepest = max(deepest, depth)
        pending.extend((inner, depth) for block in op.regions for inner in block.ops)
    return _ROUNDS + _ROUNDS_EACH * loops // deepest


def _handed_on(ends: Sequence[Leaving], place: int) -> Iterable[tuple[Linear, Leaving]]:
    for end in ends:
        term = end.terms[place]
        assert term is not None
        yield term, end


def _for(flow: Dataflow, op: For) -> None:
    low, high, step = (flow.term(v) for v in (op.lower_bound, op.upper_bound, op.step))
    counter = op.body.args[0]
    compares = not op.unsigned_cmp or (flow.scope.proves(low) and flow.scope.proves(high))
    facts: tuple[Linear, ...] = ()
    if compares and flow.scope.proves(step - 1):
        last = low + product(step, quotient(high - 1 - low, step))
        flow.define_fresh(counter, Origin.LOOP, (low,), (last, high - 1))
        facts = (high - 1 - low,)
    else:
        flow.define_fresh(counter, Origin.COMPUTED)
    guarded = leaves_early(op.body) or not _surely_tells(flow, high - 1 - low)
    _carry(flow, op, op.init_values, lambda: flow.iterate(op.body, facts, guarded))
    _go_on_behind(flow, op)


def _surely_tells(flow: Dataflow, distance: Linear) -> bool:
    """Whether the launch decides if a loop runs at all; otherwise the loop is a guard."""
    known = all(variable.origin.is_attained for variable in distance.variables())
    return known or flow.scope.proves(distance)


def _walk(flow: Dataflow, op: Walk) -> None:
    counts = [flow.term(value) for value in op.counts]
    facts = [tiles - 1 for tiles in counts]
    lowers, uppers = [[number(0)] for _ in counts], [[fact] for fact in facts]
    guarded = leaves_early(op.body)
    for axis, ends in op.ranges.items():
        (start, stop), tiles = (flow.term(value) for value in ends), counts[axis]
        # The ends that the coordinate attains come first, then its other bounds.
        lowers[axis] = [greatest((number(0), start)), number(0), start]
        uppers[axis] = [least((tiles, stop)) - 1, tiles - 1, stop - 1, _unwrapped(stop) - 1]
        runs = [stop - 1 - start, tiles - 1 - start, stop - 1]
        guarded = guarded or not all(_surely_tells(flow, fact) for fact in runs)
        facts += runs
    for axis, coordinate in enumerate(op.body.args[: len(counts)]):
        flow.define_fresh(coordinate, Origin.WALK, lowers[axis], uppers[axis])
    _carry(flow, op, op.init_values, lambda: flow.iterate(op.body, facts, guarded))
    _go_on_behind(flow, op)


def _unwrapped(stop: Linear) -> Linear:
    """The end of a range whose body runs: a wrapped `start + n` is negative, its range empty."""
    atom = stop.atom
    if isinstance(atom, Wrapped) and atom.type.signed:
        fits, found = atom.type.interval, atom.value.range
        if fits.low <= found.low and found.high < 2 * (fits.high + 1):
            return atom.value
    return stop


def _loop(flow: Dataflow, op: Loop) -> None:
    frame = _carry(flow, op, op.init_values, lambda: flow.iterate(op.body, (), guarded=True))
    for place, value in enumerate(op.results):
        if machine_type(value) is not None:
            ends = [JoinedValue(term, end.facts) for term, end in _handed_on(frame.breaks, place)]
            if ends:
                flow.join(value, ends, Origin.CARRIED)
    _go_on_behind(flow, op)


def _go_on_behind(flow: Dataflow, op: Op) -> None:
    if Return in jumps_out_of(op, flow.jumps):
        flow.narrow(guarded=True)


def _continue(flow: Dataflow, op: Continue) -> None:
    flow.leave(op.values, lambda frame: frame.continues)


def _break(flow: Dataflow, op: Break) -> None:
    flow.leave(op.values, lambda frame: frame.breaks)


def _end(flow: Dataflow, op: Return | Yield) -> None:
    """A terminator of a region; the op that owns the region reads it."""


# Transfer functions of control flow.
CONTROL_RULES: dict[type[Op], Rule] = {
    Break: _break,
    Continue: _continue,
    For: _for,
    If: _branch,
    Loop: _loop,
    Return: _end,
    Select: _select,
    Walk: _walk,
    Yield: _end,
}

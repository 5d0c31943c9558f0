"""Random kernels, run by brute force, never contradict what the analysis says about them."""

from __future__ import annotations

import pickle
from itertools import cycle

from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_sketch import I32, Sketch
from scalar_machine import Machine, launch_number

from tilewright.analysis.dataflow import Dataflow
from tilewright.analysis.facts import analyse
from tilewright.analysis.intervals import Interval
from tilewright.analysis.operations import Remainder, Wrapped
from tilewright.analysis.terms import Atom, Known, Linear, TermIntervals, Variable
from tilewright.check.bounds import Settled, settle_checks
from tilewright.check.launch import IndexInRange, Precondition
from tilewright.check.placement import Placement
from tilewright.check.violations import IndexOutOfRange, RequireNeverHolds
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Extent, LaunchTerm, ScalarArgument
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Break, Continue, Return
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck

TOP = 2**31 - 1
NUMBERS = st.one_of(
    st.integers(-3, 9),
    st.sampled_from([TOP, -TOP - 1, TOP - 1, 65535, 46341, 1 << 30, -(1 << 30)]),
)
EXTENTS = st.one_of(st.integers(0, 200), st.sampled_from([TOP, TOP - 63, 1 << 30]))
COMPARISONS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


UNARY = {"neg": Sketch.negative, "abs": Sketch.magnitude}
KINDS = ("+", "-", "*", "min", "max", "//", "%", "load", "&", "|", "^", "<<", ">>", *UNARY)


class Draw:
    """Draws one kernel, statement by statement."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.sketch = Sketch()
        self.ints: list[Value] = []
        self.counts: list[Value] = []
        self.left = 14

    def kernel(self) -> Function:
        sketch = self.sketch
        self.counts = [sketch.tiles("x", 0, 64), sketch.tiles("x", 0, 32), sketch.tiles("y", 0, 64)]
        self.ints = [*self.counts, sketch.extent("x"), sketch.scalar("n"), sketch.scalar("g")]
        self.ints.append(sketch.loaded("m"))
        if self.draw(st.booleans()):
            self.ints += sketch.block_index(*self.counts[:2])
        if self.draw(st.booleans()):
            sketch.require(self.condition(launch=True))
        self.statements(0)
        return sketch.function()

    def statements(self, depth: int) -> None:
        for _ in range(self.draw(st.integers(1, 4))):
            if self.left > 0:
                self.left -= 1
                self.statement(depth)

    def statement(self, depth: int) -> None:
        simple = [self.compute, self.compute, self.check, self.check]
        nested = [self.loop, self.branch, self.walk, self.choose, self.carry, self.spin]
        kinds = simple if depth >= 3 else simple + nested
        self.draw(st.sampled_from(kinds))(depth + 1)

    def operand(self) -> Value:
        if self.draw(st.integers(0, 3)) == 0:
            return self.sketch.value(self.draw(NUMBERS))
        return self.draw(st.sampled_from(self.ints))

    def compute(self, depth: int = 0) -> None:
        kind = self.draw(st.sampled_from(KINDS))
        if kind in UNARY:
            value = UNARY[kind](self.sketch, self.operand())
        elif kind in ("<<", ">>"):
            value = self.sketch.math(kind, self.operand(), self.draw(st.integers(0, 31)))
        elif kind == "load":
            value = self.sketch.loaded()
        elif kind in ("//", "%"):
            value = self.sketch.divide(kind, self.operand(), self.operand())
        else:
            value = self.sketch.math(kind, self.operand(), self.operand())
        self.ints.append(value)

    def condition(self, launch: bool = False) -> Value:
        sketch = self.sketch
        if launch and self.draw(st.booleans()):
            rest = sketch.math("%", sketch.extent("x"), 64)
            return sketch.compare(rest, "==", 0)
        one = sketch.compare(self.operand(), self.draw(COMPARISONS), self.operand())
        if not launch and self.draw(st.integers(0, 3)) == 0:
            two = sketch.compare(self.operand(), self.draw(COMPARISONS), self.operand())
            return sketch.math(self.draw(st.sampled_from(["and", "or"])), one, two)
        return one

    def check(self, depth: int) -> None:
        count = self.draw(st.sampled_from(self.counts))
        checked = self.sketch.check(self.draw(st.sampled_from(self.ints)), count)
        if self.draw(st.booleans()):
            self.ints.append(checked)

    def loop(self, depth: int) -> None:
        step = self.draw(st.sampled_from([1, 1, 2, 3, None]))
        if step is None:  # few enough that no counter wraps before its loop ends
            few = self.sketch.math("min", self.draw(st.sampled_from(self.ints)), 3)
            step = self.sketch.step(self.sketch.math("max", few, 1))
        low = self.draw(st.sampled_from([0, 0, None]))
        low = self.operand() if low is None else low
        with self.scoped(), self.sketch.loop(low, self.operand(), step) as counter:
            self.ints.append(counter)
            if self.draw(st.integers(0, 3)) == 0:
                leaving = self.draw(st.sampled_from([Break, Continue, Return]))
                self.sketch.leave_when(self.condition(), leaving())
            self.statements(depth)

    def walk(self, depth: int) -> None:
        counts = self.counts[1:]
        axes = self.draw(st.sets(st.sampled_from(range(len(counts)))))
        ranges = {axis: self.range() for axis in sorted(axes)}
        with self.scoped(), self.sketch.walk(*counts, within=ranges) as place:
            self.ints += place
            self.statements(depth)

    def range(self) -> tuple[Value, Value]:
        start = self.operand()
        length = self.operand()
        is_sum = self.draw(st.booleans())
        return start, self.sketch.math("+", start, length) if is_sum else length

    def branch(self, depth: int) -> None:
        condition = self.condition()
        if depth == 1 and self.draw(st.integers(0, 4)) == 0:
            self.sketch.leave_when(condition, Return())
            return
        with self.scoped(), self.sketch.when(condition):
            self.statements(depth)

    def choose(self, depth: int) -> None:
        condition = self.condition()
        if self.draw(st.booleans()):
            self.ints.append(self.sketch.select(condition, self.operand(), self.operand()))
            return
        then, other = self.arm(depth), self.arm(depth)
        self.ints.append(self.sketch.either(condition, then, other))

    def arm(self, depth: int):
        def build() -> Value:
            with self.scoped():
                if self.draw(st.booleans()):
                    self.compute()
                return self.operand()

        return build

    def carry(self, depth: int) -> None:
        inits = [self.operand(), self.operand()]
        with (
            self.scoped(),
            self.sketch.carrying_loop(0, self.operand(), inits) as (counter, carried, go_on),
        ):
            self.ints += [counter, *carried]
            self.statements(depth)
            go_on(self.operand(), self.draw(st.sampled_from([self.operand(), carried[1]])))
        self.ints += self.sketch.last.results

    def spin(self, depth: int) -> None:
        """`while i < limit: ...; i += 1`."""
        limit = self.operand()
        with self.scoped(), self.sketch.endless([self.operand()], [I32]) as (carried, go_on, _):
            count = carried[0]
            self.ints.append(count)
            done = self.sketch.compare(count, ">=", limit)
            self.sketch.leave_when(done, Break(values=(self.operand(),)))
            self.statements(depth)
            more = self.draw(st.sampled_from([self.sketch.math("+", count, 1), self.operand()]))
            go_on(more)
        self.ints += self.sketch.last.results

    def scoped(self):
        """Names made inside do not live outside."""
        return _Scoped(self)


class _Scoped:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def __enter__(self) -> None:
        self.ints = list(self.draw.ints)

    def __exit__(self, *_: object) -> None:
        self.draw.ints = self.ints


@st.composite
def kernels(draw: st.DrawFn) -> Function:
    return Draw(draw).kernel()


@st.composite
def environments(draw: st.DrawFn) -> dict[LaunchTerm, int]:
    return {
        Extent("x", 0): draw(EXTENTS),
        Extent("y", 0): draw(EXTENTS),
        ScalarArgument("n"): draw(NUMBERS),
        ScalarArgument("g"): draw(NUMBERS),
    }


class Concrete(TermIntervals):
    """The one number that each term has at one moment of a run."""

    def __init__(self, machine: Machine, variables: dict[Variable, int]) -> None:
        self.machine = machine
        self.variables = variables

    def of(self, term: Linear) -> Interval:
        return term.interval(self)

    def at(self, atom: Atom) -> Interval:
        if isinstance(atom, Variable):
            number = self.variables.get(atom)
            # In a branch that was not taken it may be anything.
            return atom.range if number is None else Interval(number, number)
        return atom.interval(self)

    def known(self, atom: Known) -> Interval:
        value = launch_number(self.machine.environment, atom.term)
        assert atom.bounds.low <= value <= atom.bounds.high
        return Interval(value, value)


class Witness:
    """Compares a run with what the analysis says, op by op, and collects the bad accesses."""

    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow
        self.numbers: dict[Variable, int] = {}
        self.definers: dict[Variable, Value] = {}
        for value, term in flow.terms.items():
            if isinstance(term.atom, Variable):
                self.definers.setdefault(term.atom, value)
        self.bad: set[Op] = set()
        self.reached: set[Op] = set()

    def __call__(self, op: Op | Block, machine: Machine) -> None:
        numbers = Concrete(machine, self.numbers)
        for value in op.args if isinstance(op, Block) else op.results:
            number = machine.values.get(value)
            term, formula = self.flow.terms.get(value), self.flow.formulas.get(value)
            if term is not None and number is not None:
                self.compare(value, term, number, numbers)
            if formula is not None and number is not None:
                assert formula.truth(numbers) in (None, bool(number))
        if isinstance(op, BoundsCheck | DivisorCheck):
            self.check(op, machine, numbers)

    def compare(self, value: Value, term: Linear, number: int, numbers: Concrete) -> None:
        atom = term.atom
        if isinstance(atom, Variable) and self.definers[atom] is value:
            self.numbers[atom] = number
            assert atom.range.low <= number <= atom.range.high
            assert all(numbers.of(low).high <= number for low in atom.lowers)
            assert all(numbers.of(high).low >= number for high in atom.uppers)
        assert numbers.of(term) == Interval(number, number)
        assert term.range.low <= number <= term.range.high

    def check(self, op: BoundsCheck | DivisorCheck, machine: Machine, numbers: Concrete) -> None:
        self.reached.add(op)
        for fact in self.flow.obligations[op].scope.facts:
            assert numbers.of(fact).low >= 0
        if isinstance(op, DivisorCheck):
            is_bad = machine.values[op.divisor] == 0
        else:
            index, count = machine.get((op.index, op.count))
            is_bad = not 0 <= index < count
        if is_bad:
            self.bad.add(op)


def launchable(settled: Settled, environment: dict[LaunchTerm, int]) -> bool:
    """Whether the preconditions, which are facts everywhere, hold."""
    return not any(isinstance(v, RequireNeverHolds) for v in settled.violations) and all(
        check.holds(environment)
        for check in settled.launch_checks
        if isinstance(check, Precondition)
    )


def judge(settled: Settled, function: Function, environment, memory) -> None:
    if not launchable(settled, environment):
        return
    witness = Witness(analyse(function))
    complete = Machine(environment, cycle(memory), witness).run(function)
    bad = {op.loc for op in witness.bad}
    kept = {op.loc for op in settled.function.walk() if isinstance(op, BoundsCheck | DivisorCheck)}
    failed = [check for check in settled.launch_checks if not check.holds(environment)]
    if not failed:
        assert bad <= kept, "a settled check was violated"
    if not complete:
        return
    for check in failed:
        check.explain(environment)
        if isinstance(check, IndexInRange) and not check.guarded and ends_are_tried(check):
            assert bad, "a good launch was refused"
    reached = {op.loc for op in witness.reached}
    for violation in settled.violations:
        if isinstance(violation, IndexOutOfRange) and violation.location in reached:
            assert violation.location in bad, "a good kernel was refused"


def ends_are_tried(check: IndexInRange) -> bool:
    """Not for remainders, whose extremes lie inside a range, nor for an index that wraps."""
    return not any(isinstance(atom, Remainder | Wrapped) for atom in check.index.atoms())


@given(kernels(), st.lists(environments(), min_size=2, max_size=2), st.lists(NUMBERS, min_size=3))
@settings(max_examples=100)
def test_no_run_contradicts_the_analysis(function, launches, memory):
    settled = settle_checks(function)
    in_kernel = settle_checks(function, Placement.GUARDED_IN_KERNEL)
    assert not any(check.guarded for check in in_kernel.launch_checks)
    for environment in launches:
        judge(settled, function, environment, memory)
        judge(in_kernel, function, environment, memory)


@given(kernels(), environments())
@settings(max_examples=30)
def test_launch_checks_survive_a_cache(function, environment):
    checks = settle_checks(function).launch_checks
    again = pickle.loads(pickle.dumps(checks))
    assert again == checks
    for check, copy in zip(checks, again, strict=True):
        assert copy.holds(environment) == check.holds(environment)
        assert copy.explain(environment) == check.explain(environment)

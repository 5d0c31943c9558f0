"""What checks ask of an analysis, and what they tell it."""

from __future__ import annotations

from tilewright.analysis.arithmetic import greatest, least, nonzero
from tilewright.analysis.dataflow import Dataflow, Wanted, machine_type
from tilewright.analysis.terms import Origin, number
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck, NotEmpty, Require, StepCheck

__all__ = ["bounds_check", "divisor_check", "not_empty", "require", "step_check"]


def bounds_check(flow: Dataflow, op: BoundsCheck) -> None:
    """An index, and what is known of it behind its check."""
    index, count = flow.term(op.index), flow.term(op.count)
    if flow.oblige(op, index, (index, count - 1 - index)).is_proved:
        flow.terms[op.result] = index
    else:
        # A check that stays in the kernel may clamp, one that does not gives the index itself.
        bounds = (least((index, count - 1)),), (greatest((index, number(0))),)
        flow.define_fresh(op.result, Origin.COMPUTED, *bounds)


def divisor_check(flow: Dataflow, op: DivisorCheck) -> None:
    """A divisor, and what is known of it behind its check."""
    is_scalar = machine_type(op.divisor) is not None
    divisor = flow.term(op.divisor) if is_scalar else flow.element(op.divisor)
    goals = (divisor - 1, -divisor - 1)
    settled = len(flow.oblige(op, divisor, goals).open_goals) < len(goals)
    terms = flow.terms if is_scalar else flow.splats
    terms[op.result] = divisor if settled else nonzero(divisor)


def step_check(flow: Dataflow, op: StepCheck) -> None:
    """The step of a loop."""
    step = flow.term(op.step)
    proved = flow.oblige(op, step, (step - 1,)).is_proved
    # A kernel in which it is not so is refused, or its launch is.
    flow.terms[op.result] = step if proved else greatest((step, number(1)))


def require(flow: Dataflow, op: Require) -> None:
    """A precondition, which holds in the whole kernel."""
    formula = flow.formula(op.condition)
    flow.requires[op] = formula
    if formula.is_launch_known:
        flow.root.add(*formula.facts())


def not_empty(flow: Dataflow, op: NotEmpty) -> None:
    """An axis that has something where this stands: shown by what is known here, or by the launch.

    What a launch is asked does not rest on its own answer: the fact is for what follows.
    """
    some, scope = flow.term(op.count) - 1, flow.scope
    if scope.is_guarded and not flow.asks_launch:
        flow.axes[op] = None  # the launch says nothing about it, so it is no fact
        return
    wanted = Wanted(some, scope.facts, scope.is_guarded)
    flow.axes[op] = None if scope.proves(some) else wanted
    scope.add(some)

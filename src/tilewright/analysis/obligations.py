"""Checks in the analysis: the obligation of each, and the facts after it."""

from __future__ import annotations

from tilewright.analysis.arithmetic import greatest, least, nonzero
from tilewright.analysis.dataflow import Dataflow, Wanted, machine_type
from tilewright.analysis.terms import Origin, number
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck, NotEmpty, Require, StepCheck

__all__ = ["bounds_check", "divisor_check", "not_empty", "require", "step_check"]


def bounds_check(flow: Dataflow, op: BoundsCheck) -> None:
    """Record the check of an index; its result is bounded by the check."""
    index, count = flow.term(op.index), flow.term(op.count)
    if flow.oblige(op, index, (index, count - 1 - index)).is_proved:
        flow.terms[op.result] = index
    else:
        # A check that stays in the kernel clamps; one that is settled gives the index itself.
        bounds = (least((index, count - 1)),), (greatest((index, number(0))),)
        flow.define_fresh(op.result, Origin.COMPUTED, *bounds)


def divisor_check(flow: Dataflow, op: DivisorCheck) -> None:
    """Record the check of a divisor; its result is not zero."""
    is_scalar = machine_type(op.divisor) is not None
    divisor = flow.term(op.divisor) if is_scalar else flow.element(op.divisor)
    goals = (divisor - 1, -divisor - 1)
    settled = len(flow.oblige(op, divisor, goals).open_goals) < len(goals)
    terms = flow.terms if is_scalar else flow.splats
    terms[op.result] = divisor if settled else nonzero(divisor)


def step_check(flow: Dataflow, op: StepCheck) -> None:
    """Record the check of a loop's step."""
    step = flow.term(op.step)
    proved = flow.oblige(op, step, (step - 1,)).is_proved
    # A step that is not above zero refuses the kernel or the launch.
    flow.terms[op.result] = step if proved else greatest((step, number(1)))


def require(flow: Dataflow, op: Require) -> None:
    """Record a precondition, which is a fact in the whole kernel."""
    formula = flow.formula(op.condition)
    flow.requires[op] = formula
    if formula.is_launch_known:
        flow.root.add(*formula.facts())


def not_empty(flow: Dataflow, op: NotEmpty) -> None:
    """Record that an axis is not empty: proved here, or a condition on the launch.

    The condition on the launch must not rest on its own answer: the fact is added after it.
    """
    some, scope = flow.term(op.count) - 1, flow.scope
    if scope.is_guarded and not flow.asks_launch:
        flow.axes[op] = None  # no condition on the launch, so it is no fact
        return
    wanted = Wanted(some, scope.facts, scope.is_guarded)
    flow.axes[op] = None if scope.proves(some) else wanted
    scope.add(some)

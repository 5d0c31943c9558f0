"""Settles the checks of a kernel: each walks the ladder down to the first rung that decides it.

    provenance, intervals      proved: the check goes away
    certainly wrong            a violation, which becomes a compile error
    a function of the launch   a launch check: evaluated on the host with the actual numbers
    anything else              stays in the kernel

A placement cuts the ladder short: for a launch that failed a guarded check, and, for comparison,
before its first rung.

Input is the IR of the front end; output is the same function without the settled checks, whose uses
read the index itself. Preconditions (`Require`) become launch checks and are facts for all other
checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.analysis.dataflow import Dataflow, Obligation, Wanted
from tilewright.analysis.facts import analyse
from tilewright.analysis.formulas import AtLeastZero, Formula
from tilewright.analysis.hoisting import find_hoisted
from tilewright.analysis.proofs import Scope
from tilewright.analysis.terms import Known, Linear, TermIntervals, atoms_of
from tilewright.check import reasons
from tilewright.check.corners import certain_violation, closed, is_exact
from tilewright.check.launch import (
    AxisNotEmpty,
    BlockCondition,
    DivisorNotZero,
    IndexInRange,
    LaunchCheck,
    Precondition,
    StepAboveZero,
)
from tilewright.check.ledger import Ledger, LedgerEntry, Rung
from tilewright.check.placement import Placement
from tilewright.check.removal import without_checks
from tilewright.check.violations import (
    IndexOutOfRange,
    RequireNeverHolds,
    RequireNotLaunchKnown,
    StepNotAboveZero,
    Violation,
    ZeroDivisor,
)
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import Blocks, GridExtent
from tilewright.ir.op import Op
from tilewright.ir.ops.internal import BoundsCheck, DivisorCheck, NotEmpty, Require, StepCheck

__all__ = ["Settled", "settle_checks"]


Check = BoundsCheck | DivisorCheck | StepCheck


@dataclass(frozen=True)
class Settled:
    """A function without its settled checks, and the outcome of each."""

    function: Function
    flow: Dataflow  # of the function with its checks
    launch_checks: tuple[LaunchCheck, ...]
    ledger: Ledger
    violations: tuple[Violation, ...]


def settle_checks(function: Function, placement: Placement = Placement.EARLIEST) -> Settled:
    """Settle every check as early as its placement allows."""
    asks_launch = placement is Placement.EARLIEST
    return _Settlement(analyse(function, asks_launch=asks_launch), placement).of(function)


@dataclass
class _Settlement:
    """The checks of one function on their way down the ladder."""

    flow: Dataflow
    placement: Placement
    gone: set[Op] = field(default_factory=set)
    skipping: set[Op] = field(default_factory=set)  # checks that stay, of axes that may be empty
    launch_checks: dict[LaunchCheck, LaunchCheck] = field(default_factory=dict)
    entries: list[LedgerEntry] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)  # entries of checks that stay
    violations: list[Violation] = field(default_factory=list)

    def of(self, function: Function) -> Settled:
        for op, formula in self.flow.requires.items():
            self._require(op, formula)
        for axis, wanted in self.flow.axes.items():
            self._axis(axis, wanted)
        for obligation in self.flow.obligations.values():
            if isinstance(obligation.op, BoundsCheck):
                self._index(obligation, obligation.op)
            elif isinstance(obligation.op, StepCheck):
                self._step(obligation, obligation.op)
            else:
                self._divisor(obligation, obligation.op)
        left = without_checks(function, self.gone, self.skipping)
        if not self.violations:
            self._note_hoisted(left)
        return Settled(
            left,
            self.flow,
            tuple(self.launch_checks.values()),
            Ledger(tuple(self.entries)),
            tuple(self.violations),
        )

    # --- preconditions ---

    def _require(self, op: Require, formula: Formula) -> None:
        if not formula.is_launch_known:
            unknown = next((v for term in formula.terms() for v in term.variables()), None)
            name, why = (unknown.name, unknown.origin.value) if unknown else ("", "")
            self.violations.append(RequireNotLaunchKnown(op.loc, op.text, name, why))
            return
        self.gone.add(op)
        truth = formula.truth(TermIntervals())
        if truth is False:
            self.violations.append(RequireNeverHolds(op.loc, op.text))
        elif truth is None or _counts_blocks(formula):
            self._at_launch(Precondition(op.loc, False, (), formula, op.text))

    def _axis(self, op: NotEmpty, wanted: Wanted | None) -> None:
        """Settle a `NotEmpty` by a launch check, which holds where the guards around it fail."""
        self.gone.add(op)
        if wanted is None:
            return
        formula = AtLeastZero(wanted.term)
        if formula.truth(TermIntervals()) is False and not wanted.guarded:
            self.violations.append(RequireNeverHolds(op.loc, op.text))
        else:
            premises = tuple(fact for fact in wanted.facts if fact.is_evaluable)
            self._at_launch(BlockCondition(op.loc, wanted.guarded, premises, formula, op.text))

    # --- indices ---

    def _index(self, obligation: Obligation, op: BoundsCheck) -> None:
        index, count, scope = obligation.subject, self.flow.term(op.count), obligation.scope
        if self.placement is Placement.ALL_IN_KERNEL:
            self._keep_index(obligation, op, reasons.FORCED)
            return
        open_goals = self._unproved(obligation)
        if not open_goals:
            self._settle(op, Rung.PROVED, reasons.why_proved(index, count, scope))
            return
        wrong = certain_violation(index, count, scope)
        if wrong is not None:
            found, is_negative = wrong
            texts = str(found), str(count)
            self.violations.append(IndexOutOfRange(op.loc, op.site, *texts, is_negative))
            return
        premises = self._premises(scope)
        guarded = scope.is_guarded or not (is_exact(index) and count.is_launch_known)
        if self._can_launch((index, count), guarded):
            goals = tuple(closed(goal, premises) for goal in open_goals)
            self._at_launch(IndexInRange(op.loc, guarded, premises, op.site, index, count, goals))
            self._settle(op, Rung.LAUNCH, reasons.why_at_launch(index, count))
            return
        self._keep_index(obligation, op, reasons.why_kept(index, count))

    def _keep_index(self, obligation: Obligation, op: BoundsCheck, reason: str) -> None:
        """Keep an index check in the kernel, which clamps: the axis must not be empty.

        A launch with an empty axis is refused, unless the code may not be reached: then the variant
        that skips decides.
        """
        count, scope = self.flow.term(op.count), obligation.scope
        if not scope.proves(count - 1):
            guarded = scope.is_guarded
            if not count.is_evaluable or (guarded and self.placement is not Placement.EARLIEST):
                self.skipping.add(op)
            else:
                premises = self._premises(scope)
                self._at_launch(AxisNotEmpty(op.loc, guarded, premises, op.site, count))
        self._kept(obligation, reason)

    def _unproved(self, obligation: Obligation) -> tuple[Linear, ...]:
        """The goals that are still open; preconditions found later count too."""
        scope = obligation.scope
        if obligation.is_proved or scope.is_surely_unreachable:
            return ()
        if len(self.flow.root.own_facts) == obligation.facts_known:
            return obligation.open_goals
        return tuple(goal for goal in obligation.open_goals if not scope.proves(goal))

    def _can_launch(self, terms: tuple[Linear, ...], guarded: bool) -> bool:
        if guarded and self.placement is Placement.GUARDED_IN_KERNEL:
            return False
        return all(term.is_evaluable for term in terms)

    # --- divisors ---

    def _divisor(self, obligation: Obligation, op: DivisorCheck) -> None:
        divisor, scope = obligation.subject, obligation.scope
        guarded = scope.is_guarded or not divisor.is_launch_known
        if self.placement is Placement.ALL_IN_KERNEL:
            self._kept(obligation, reasons.FORCED)
        elif len(self._unproved(obligation)) < len(obligation.goals):
            self._settle(op, Rung.PROVED, f"`{divisor}` is never zero")
        elif divisor.is_constant:
            self.violations.append(ZeroDivisor(op.loc))
        elif self._can_launch((divisor,), guarded):
            self._at_launch(DivisorNotZero(op.loc, guarded, self._premises(scope), divisor))
            self._settle(op, Rung.LAUNCH, f"at launch: `{divisor}` must not be zero")
        else:
            self._kept(obligation, reasons.why_divisor_kept(divisor))

    # --- steps of loops ---

    def _step(self, obligation: Obligation, op: StepCheck) -> None:
        step = obligation.subject
        if not self._unproved(obligation):
            self._settle(op, Rung.PROVED, f"`{step}` is above zero")
        elif step.is_launch_known:
            premises = self._premises(obligation.scope)
            self._at_launch(StepAboveZero(op.loc, False, premises, step))
            self._settle(op, Rung.LAUNCH, f"at launch: `{step}` must be above zero")
        else:
            unknown = next(iter(step.variables()), None)
            why = unknown.origin.value if unknown else ""
            self.violations.append(StepNotAboveZero(op.loc, str(step), why))

    # --- outcomes ---

    def _premises(self, scope: Scope) -> tuple[Linear, ...]:
        """Facts, evaluable at launch, under which the code is reached."""
        return tuple(fact for fact in scope.facts if fact.is_evaluable)

    def _at_launch(self, check: LaunchCheck) -> None:
        """Add a launch check, once for equal ones."""
        self.launch_checks.setdefault(check, check)

    def _settle(self, op: Check, outcome: Rung, reason: str) -> None:
        self.gone.add(op)
        self._enter(op, outcome, reason)

    def _note_hoisted(self, function: Function) -> None:
        """Mark the entries of hoisted checks, in program order."""
        hoisted = find_hoisted(function.body)
        checks = [op for op in function.walk() if isinstance(op, BoundsCheck | DivisorCheck)]
        for place, op in zip(self.kept, checks, strict=True):
            if op in hoisted:
                self.entries[place] = replace(self.entries[place], outcome=Rung.HOISTED)

    def _kept(self, obligation: Obligation, reason: str) -> None:
        self.kept.append(len(self.entries))
        outcome = Rung.IN_PLACE if obligation.scope.is_in_loop else Rung.HOISTED
        self._enter(obligation.op, outcome, reason)

    def _enter(self, op: Check, outcome: Rung, reason: str) -> None:
        if isinstance(op, BoundsCheck):
            subject, axis = op.site.subject, op.site.axis
        elif isinstance(op, StepCheck):
            subject, axis = "range", None
        else:
            subject, axis = op.divisor.hint or "divisor", None
        self.entries.append(LedgerEntry(outcome, op.loc, subject, axis, reason))


def _counts_blocks(formula: Formula) -> bool:
    """Whether the number of blocks is in it: one at least in a kernel, maybe none in a launch."""
    known = (atom.term for atom in atoms_of(formula.terms()) if isinstance(atom, Known))
    return any(isinstance(term, Blocks | GridExtent) for term in known)

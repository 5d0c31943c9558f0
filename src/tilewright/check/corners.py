"""Attained ends of an index: the ends of its range, and whether they occur and are wrong.

An induction variable, a place in the grid and a coordinate of a walk attain both ends of their
range whenever the code runs. Where an index is built from those so that its own ends are attained,
a bad end is a bad access, and not just an imprecise interval.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.analysis.operations import Greatest, Least, Product, Quotient, Remainder, Wrapped
from tilewright.analysis.proofs import Scope
from tilewright.analysis.terms import Atom, Known, Linear, Origin, Variable

__all__ = ["certain_violation", "closed", "is_exact"]


def closed(goal: Linear, premises: tuple[Linear, ...]) -> Linear:
    """A goal that implies this one, with fewer variables to evaluate at launch.

    A variable that attains its ends is replaced by the end that is worst for the goal, unless a
    premise bounds it further.
    """
    for atom, coefficient in tuple(goal.coefficients.items()):
        if isinstance(atom, Variable) and atom.origin.is_attained:
            end = atom.lowers[0] if coefficient > 0 else atom.uppers[0]
            if end.is_launch_known and not any(atom in fact.coefficients for fact in premises):
                goal = goal.without(atom) + end.times(coefficient)
    return goal


def certain_violation(index: Linear, count: Linear, scope: Scope) -> tuple[Linear, bool] | None:
    """An index that leaves its axis on every launch, and whether it does so below zero."""
    if scope.proves(-index - 1):
        return None if scope.is_unreachable() else (index, True)
    if scope.proves(index - count):
        return None if scope.is_unreachable() else (index, False)
    if scope.is_guarded or not is_exact(index) or not _surely_runs(scope):
        return None
    least, most = _end(index, upper=False), _end(index, upper=True)
    if least is not None and scope.proves(-least - 1):
        return least, True
    if most is not None and scope.proves(most - count):
        return most, False
    return None


def _surely_runs(scope: Scope) -> bool:
    """Whether every enclosing loop is known, from outside, to run at least once."""
    return all(
        inner.parent is not None and inner.parent.proves(fact)
        for inner in scope.chain()
        if inner.is_loop_body
        for fact in inner.own_facts
    )


def _end(index: Linear, upper: bool) -> Linear | None:
    """The least or greatest index that occurs, where single variables decide it."""
    for atom, coefficient in tuple(index.coefficients.items()):
        if isinstance(atom, Variable):
            end = atom.uppers[0] if upper == (coefficient > 0) else atom.lowers[0]
            index = index.without(atom) + end.times(coefficient)
    return index if index.is_launch_known else None


def is_exact(term: Linear) -> bool:
    """Whether both ends of the term's interval occur, so that a bad end is a bad access."""
    origins = {variable.origin for variable in term.variables()}
    # A block's place in the grid and the tiles it walks are correlated.
    together = origins >= {Origin.BLOCK, Origin.WALK}
    return not term.repeats_variables and not together and _keeps_ends(term)


def _keeps_ends(term: Linear) -> bool:
    return all(_is_atom_exact(atom) for atom in term.coefficients)


def _is_atom_exact(atom: Atom) -> bool:
    rule = _EXACT.get(type(atom))
    return rule is not None and rule(atom)


def _variable_is_exact(atom: Variable) -> bool:
    ends = (*atom.lowers[:1], *atom.uppers[:1])
    return atom.origin.is_attained and all(end.is_launch_known for end in ends)


def _pair_is_exact(atom: Quotient) -> bool:
    return atom.divisor.is_launch_known and _keeps_ends(atom.dividend)


def _remainder_is_exact(atom: Remainder) -> bool:
    """Whether the remainders of consecutive numbers attain the ends of their interval."""
    if not atom.divisor.is_launch_known:
        return False
    varying = [(a, c) for a, c in atom.dividend.coefficients.items() if not isinstance(a, Known)]
    return len(varying) <= 1 and all(
        abs(c) == 1 and isinstance(a, Variable) and len(a.uppers) == 1 and _variable_is_exact(a)
        for a, c in varying
    )


def _choice_is_exact(atom: Least | Greatest) -> bool:
    varying = [choice for choice in atom.choices if not choice.is_launch_known]
    return len(varying) <= 1 and all(_keeps_ends(choice) for choice in varying)


def _product_is_exact(atom: Product) -> bool:
    varying = [factor for factor in atom.factors if not factor.is_launch_known]
    return len(varying) <= 1 and all(_is_atom_exact(factor) for factor in varying)


def _held_is_exact(atom: Wrapped) -> bool:
    return _keeps_ends(atom.value)


_EXACT: dict[type[Atom], Callable[..., bool]] = {
    Greatest: _choice_is_exact,
    Wrapped: _held_is_exact,
    Known: lambda _: True,
    Least: _choice_is_exact,
    Product: _product_is_exact,
    Quotient: _pair_is_exact,
    Remainder: _remainder_is_exact,
    Variable: _variable_is_exact,
}

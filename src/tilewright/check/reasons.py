"""Reasons in the ledger: why a check has its outcome, one sentence each."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.analysis.proofs import Scope
from tilewright.analysis.terms import Known, Linear, Origin, Variable
from tilewright.ir.launch_terms import TileCount

__all__ = ["FORCED", "why_at_launch", "why_divisor_kept", "why_kept", "why_proved"]

# The reason of a check that stays because of its placement.
FORCED = "every check was asked to stay in the kernel"


def why_proved(index: Linear, count: Linear, scope: Scope) -> str:
    """Why an index is inside its axis on every launch."""
    variable = index.atom
    if isinstance(variable, Variable) and count - 1 in variable.uppers:
        provenance = _PROVENANCE.get(variable.origin)
        if provenance is not None:
            return provenance(str(variable), _things(count))
    if index.is_constant and count.is_constant:
        return f"{index} is one of {count}"
    where = " under the conditions around it" if scope.is_guarded else ""
    return f"`{index}` is never negative and always below {_amount(count)}{where}"


def why_at_launch(index: Linear, count: Linear) -> str:
    """The comparison that a launch check makes."""
    if index.is_constant and index.constant == 0:
        return f"at launch: {_amount(count)} must not be zero"
    if index.is_launch_known:
        return f"at launch: {index} must lie in [0, {count})"
    variable = index.atom
    if isinstance(variable, Variable) and variable.lowers == (Linear(0),):
        reach = variable.uppers[-1] + 1
        return f"at launch: {count} must cover the {reach} values of `{variable}`"
    return f"at launch: the interval of `{index}` must lie in [0, {count})"


def why_kept(index: Linear, count: Linear) -> str:
    """Why the check of an index stays in the kernel."""
    return (
        _not_followed(index, "index")
        or _not_followed(count, "count")
        or "the interval of the index is wider than the axis in the launch that asked for this"
    )


def why_divisor_kept(divisor: Linear) -> str:
    """Why the check of a divisor stays in the kernel."""
    return (
        _not_followed(divisor, "divisor")
        or "the interval of the divisor has zero in it in the launch that asked for this"
    )


def _not_followed(term: Linear, role: str) -> str | None:
    for variable in term.variables():
        if not variable.is_followed:
            part = f"`{variable.name}`" if variable.name else f"a part of the {role}"
            subject = f"the {role}" if term.atom == variable else part
            return f"{subject} is {variable.origin.value}"
    return None


def _things(count: Linear) -> str:
    term = count.atom.term if isinstance(count.atom, Known) else None
    if isinstance(term, TileCount):
        return f"the tiles of {term.param} along axis {term.axis}"
    return f"{count} places"


def _amount(count: Linear) -> str:
    return f"{count}" if count.is_constant else f"`{count}`"


_PROVENANCE: dict[Origin, Callable[[str, str], str]] = {
    Origin.LOOP: lambda name, things: f"`{name}` counts {things}",
    Origin.WALK: lambda name, things: f"`{name}` walks {things}",
    Origin.BLOCK: lambda name, things: f"`{name}` is the block's place among {things}",
}
